package server

import (
	"bufio"
	"context"
	"errors"
	"io"

	"enplace"
)

// PluginID names a plugin in a path. The scope is a parameter of its own: proxies do not agree on what an escaped slash is.
type PluginID struct {
	ID    string `path:"id" doc:"The plugin's id, or its name"`
	Scope string `query:"scope" maxLength:"200" doc:"The plugin's scope, where plugins of several have the name: organisation, team:NAME or person:LOGIN"`
}

// ref names the plugin as the capability takes it.
func (p PluginID) ref() string {
	if p.Scope == "" {
		return p.ID
	}
	return p.Scope + "/" + p.ID
}

// createPlugin takes a repository as JSON, or an archive, which has its scope and name in the query. Only these tell the two
// apart where a client does not say what it sends: curl calls every body a form.
func (s *Server) createPlugin(ctx context.Context, c enplace.Caller, in *struct {
	Scope       string `query:"scope" maxLength:"200" doc:"Of an archive: organisation, team:NAME or person:LOGIN"`
	Name        string `query:"name" maxLength:"200" doc:"Of an archive: the plugin's name"`
	ContentType string `header:"Content-Type" hidden:"true"`
}) (*Made[enplace.Plugin], error) {
	content := exchangeOf(ctx).content()
	if in.Scope != "" || in.Name != "" {
		if in.Scope == "" || in.Name == "" || isJSON(in.ContentType) {
			return nil, enplace.Errorf(enplace.KindMalformed, "scope and name go together in the query, with an archive as the body; of a repository they are fields of the JSON").WithField("query")
		}
		p, err := s.cfg.Toolchain.CreatePluginArchive(ctx, c, enplace.Scope(in.Scope), in.Name, content)
		return made(p, "/v1/plugins/"+p.ID, err)
	}
	var git enplace.CreatePlugin
	if err := readBody(ctx, s.api, content, `{"scope": …, "name": …, "source": {"git_url": "https://…"}} is required, or an archive`, &git); err != nil {
		var e *enplace.Error
		if errors.As(err, &e) && e.Kind == enplace.KindMalformed && e.Field == "body" {
			err = e.WithFix("an archive needs its scope and name in the query: ?scope=organisation&name=NAME")
		}
		return nil, err
	}
	p, err := s.cfg.Toolchain.CreatePlugin(ctx, c, git)
	return made(p, "/v1/plugins/"+p.ID, err)
}

func (s *Server) syncPlugin(ctx context.Context, c enplace.Caller, in *struct {
	PluginID
	ContentType string `header:"Content-Type" hidden:"true"`
}) (*One[enplace.Plugin], error) {
	archive := bufio.NewReader(exchangeOf(ctx).content())
	_, err := archive.Peek(1)
	switch {
	case errors.Is(err, io.EOF): // its length may not have been told
	case isJSON(in.ContentType):
		if err := readBody(ctx, s.api, archive, "an archive is required, or no body", &Empty{}); err != nil {
			return nil, err
		}
	default:
		return one(s.cfg.Toolchain.SyncPlugin(ctx, c, in.ref(), archive))
	}
	return one(s.cfg.Toolchain.SyncPlugin(ctx, c, in.ref(), nil))
}

func (s *Server) listPlugins(ctx context.Context, c enplace.Caller, in *struct {
	PageParams
	Scope string `query:"scope" maxLength:"200" doc:"organisation, team:NAME or person:LOGIN; without it, those of every scope that the key can see"`
}) (*One[enplace.List[enplace.Plugin]], error) {
	return list(s.cfg.Toolchain.ListPlugins(ctx, c, enplace.Scope(in.Scope), in.page()))
}

func (s *Server) getPlugin(ctx context.Context, c enplace.Caller, in *PluginID) (*One[enplace.Plugin], error) {
	return one(s.cfg.Toolchain.Plugin(ctx, c, in.ref()))
}

func (s *Server) deletePlugin(ctx context.Context, c enplace.Caller, in *PluginID) (*struct{}, error) {
	return none(s.cfg.Toolchain.DeletePlugin(ctx, c, in.ref()))
}
