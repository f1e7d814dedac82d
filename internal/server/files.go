package server

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"enplace"
	"enplace/internal/project"
)

func (s *Server) listFiles(ctx context.Context, c enplace.Caller, in *struct {
	EnvironmentID
	FilePageParams
	Prefix string `query:"prefix" doc:"Only paths that start with this"`
}) (*One[enplace.List[enplace.TreeEntry]], error) {
	return list(s.cfg.Projects.ListFiles(ctx, c, in.ID, in.Prefix, in.page()))
}

// EnvironmentFile names a file of a tree.
type EnvironmentFile struct {
	EnvironmentID
	FilePath
}

func (s *Server) getFile(ctx context.Context, c enplace.Caller, in *EnvironmentFile) (*huma.StreamResponse, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	f, err := s.cfg.Projects.OpenFile(ctx, c, in.ID, in.Path)
	if err != nil {
		return nil, err
	}
	return s.stream(func(w http.ResponseWriter, r *http.Request) error {
		defer f.Content.Close()
		if hex := f.Entry.Digest.Hex(); hex != "" {
			w.Header().Set("ETag", `"`+hex+`"`)
		}
		download(w, in.Path)
		// The digest vouches for the bytes, so that a range or a condition needs no time.
		http.ServeContent(w, r, "", time.Time{}, f.Content)
		return nil
	}), nil
}

// download sets the headers of a file that someone else wrote: a browser keeps it and never shows or runs it.
func download(w http.ResponseWriter, name string) {
	kind := mime.TypeByExtension(path.Ext(name))
	if kind == "" {
		kind = "application/octet-stream"
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}))
	h.Set("Cache-Control", "private, no-cache")
}

// PutFile is an answer to an upload.
type PutFile struct {
	Status int
	Body   enplace.TreeEntry
}

func (s *Server) putFile(ctx context.Context, c enplace.Caller, in *struct {
	EnvironmentFile
	Executable bool `query:"executable" doc:"Whether the file can be run"`
}) (*PutFile, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	entry, isNew, err := s.cfg.Projects.PutFile(ctx, c, in.ID, in.Path, exchangeOf(ctx).content(), in.Executable)
	if err != nil {
		return nil, err
	}
	out := &PutFile{Status: http.StatusOK, Body: entry}
	if isNew {
		out.Status = http.StatusCreated
	}
	return out, nil
}

func (s *Server) deleteFile(ctx context.Context, c enplace.Caller, in *EnvironmentFile) (*struct{}, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	return none(s.cfg.Projects.DeleteFile(ctx, c, in.ID, in.Path))
}

func (s *Server) importTree(ctx context.Context, c enplace.Caller, in *struct {
	EnvironmentID
	Mode        string `query:"mode" enum:"replace,merge" default:"replace" doc:"Whether files that the import does not bring are removed or stay"`
	ContentType string `header:"Content-Type" hidden:"true"`
}) (*One[enplace.ImportReport], error) {
	options := project.ImportOptions{Merge: in.Mode == "merge"}
	content := exchangeOf(ctx).content()
	if !isJSON(in.ContentType) {
		return one(s.cfg.Projects.ImportArchive(ctx, c, in.ID, content, options))
	}
	var git enplace.GitSource
	if err := readBody(ctx, s.api, content, `an archive is required, or {"git_url": "https://…"}`, &git); err != nil {
		return nil, err
	}
	return one(s.cfg.Projects.ImportGit(ctx, c, in.ID, git, options))
}

// readBody reads a JSON body where a route takes other bodies too. wants is what is said of an empty one.
func readBody[T any](ctx context.Context, api huma.API, content io.Reader, wants string, out *T) error {
	b, err := io.ReadAll(io.LimitReader(content, enplace.MaxJSONBytes+1))
	if err != nil {
		return fmt.Errorf("reading a request: %w", err)
	}
	if len(b) > enplace.MaxJSONBytes {
		return tooLarge(rule{limit: enplace.MaxJSONBytes, of: "a JSON body"})
	}
	if len(strings.TrimSpace(string(b))) == 0 {
		return enplace.Errorf(enplace.KindMalformed, "%s", wants).WithField("body")
	}
	return decode(ctx, api, b, out)
}

func isJSON(contentType string) bool {
	kind, _, _ := mime.ParseMediaType(contentType)
	return kind == "application/json"
}
