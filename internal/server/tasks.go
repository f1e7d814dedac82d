package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"enplace"
)

func (s *Server) createTask(ctx context.Context, c enplace.Caller, in *JSONBody[enplace.CreateTask]) (*Made[enplace.Task], error) {
	t, err := s.cfg.Tasks.Create(ctx, c, in.Body)
	return made(t, "/v1/tasks/"+t.ID, err)
}

func (s *Server) listTasks(ctx context.Context, c enplace.Caller, in *struct {
	PageParams
	Harness     string `query:"harness" doc:"Only tasks of this harness"`
	Environment string `query:"environment" doc:"Only tasks that read this environment"`
	Status      string `query:"status" enum:"queued,running,succeeded,failed,cancelled" doc:"Only tasks of this status"`
}) (*One[enplace.List[enplace.Task]], error) {
	f := enplace.TaskQuery{Harness: in.Harness, Environment: in.Environment, Status: enplace.TaskStatus(in.Status)}
	return list(s.cfg.Tasks.List(ctx, c, f, in.page()))
}

func (s *Server) getTask(ctx context.Context, c enplace.Caller, in *struct {
	TaskID
	WaitParam
}) (*One[enplace.Task], error) {
	ctx, cancel := s.untilStop(ctx)
	defer cancel()
	t, err := s.cfg.Tasks.Get(ctx, c, in.ID, in.Wait.Duration)
	return one(t, stopping(ctx, err))
}

// stopping keeps why a context ended, which the context of a handler's caller does not know.
func stopping(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errStopping) {
		return errStopping
	}
	return err
}

func (s *Server) cancelTask(ctx context.Context, c enplace.Caller, in *struct {
	TaskID
	Nothing
}) (*One[enplace.Task], error) {
	return one(s.cfg.Tasks.Cancel(ctx, c, in.ID))
}

func (s *Server) taskLog(ctx context.Context, c enplace.Caller, in *struct {
	TaskID
	LogParams
}) (*huma.StreamResponse, error) {
	log, err := s.cfg.Tasks.Log(ctx, c, in.ID)
	if err != nil {
		return nil, err
	}
	return s.sendLog(in.LogParams, log, func(ctx context.Context) (string, error) {
		t, err := s.cfg.Tasks.Get(ctx, c, in.ID, settle)
		return string(t.Status), err
	}), nil
}

func (s *Server) listTaskFiles(ctx context.Context, c enplace.Caller, in *struct {
	TaskID
	FilePageParams
}) (*One[enplace.List[enplace.WorkFile]], error) {
	return list(s.cfg.Tasks.ListFiles(ctx, c, in.ID, in.page()))
}

func (s *Server) getTaskFile(ctx context.Context, c enplace.Caller, in *struct {
	TaskID
	FilePath
}) (*huma.StreamResponse, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	f, content, err := s.cfg.Tasks.OpenFile(ctx, c, in.ID, in.Path)
	if err != nil {
		return nil, err
	}
	return s.stream(func(w http.ResponseWriter, r *http.Request) error {
		defer content.Close()
		download(w, in.Path)
		if seeker, ok := content.(io.ReadSeeker); ok {
			http.ServeContent(w, r, "", f.ModifiedAt, seeker)
			return nil
		}
		// The task may still be writing: what was promised is sent, or the connection is cut.
		w.Header().Set("Content-Length", strconv.FormatInt(f.Size, 10))
		if _, err := io.CopyN(w, content, f.Size); err != nil {
			return fmt.Errorf("sending a file: %w", err)
		}
		return nil
	}), nil
}

func (s *Server) taskArchive(ctx context.Context, c enplace.Caller, in *TaskID) (*huma.StreamResponse, error) {
	archive, err := s.cfg.Tasks.Archive(ctx, c, in.ID)
	if err != nil {
		return nil, err
	}
	return s.stream(func(w http.ResponseWriter, r *http.Request) error {
		defer archive.Close()
		w.Header().Set("Content-Type", "application/x-tar")
		w.Header().Set("Content-Disposition", `attachment; filename="task.tar"`)
		if r.Method == http.MethodHead {
			return nil
		}
		if _, err := io.Copy(w, archive); err != nil {
			return fmt.Errorf("sending an archive: %w", err)
		}
		return nil
	}), nil
}
