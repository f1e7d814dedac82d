package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"enplace"
	"enplace/internal/access"
)

func (s *Server) openapi(context.Context, enplace.Caller, *struct{}) (*huma.StreamResponse, error) {
	return s.stream(func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "application/json")
		_, err := w.Write(s.doc)
		return err
	}), nil
}

// Health is the answer of the routes that watchers ask.
type Health struct {
	Status string `json:"status" enum:"ok,ready"`
}

func (s *Server) healthz(context.Context, enplace.Caller, *struct{}) (*One[Health], error) {
	return one(Health{Status: "ok"}, nil)
}

func (s *Server) readyz(ctx context.Context, _ enplace.Caller, _ *struct{}) (*One[Health], error) {
	err := s.cfg.Ready(ctx)
	var e *enplace.Error
	if err != nil && !errors.As(err, &e) {
		err = enplace.Errorf(enplace.KindUnavailable, "tasks and builds cannot run yet; the server's log says why").WithCause(err).
			WithFix("run `enplace doctor` on the server")
	} else if e != nil {
		err = &enplace.Error{Kind: enplace.KindUnavailable, Message: e.Message, Field: e.Field, Fixes: e.Fixes, Err: e.Err}
	}
	return one(Health{Status: "ready"}, err)
}

func (s *Server) scrape(_ context.Context, c enplace.Caller, _ *struct{}) (*huma.StreamResponse, error) {
	if !s.cfg.OpenMetrics {
		if err := access.Check(c, access.Operate, access.Thing{What: "server", ID: "metrics"}); err != nil {
			return nil, err
		}
	}
	return s.stream(func(w http.ResponseWriter, r *http.Request) error {
		s.metrics.page.ServeHTTP(w, r)
		return nil
	}), nil
}

func (s *Server) whoami(_ context.Context, c enplace.Caller, _ *struct{}) (*One[enplace.Identity], error) {
	return one(enplace.Identity{Name: c.Name(), KeyID: c.KeyID, Kind: c.Kind, Subject: c.Subject}, nil)
}

// Status is what the server says of itself.
type Status struct {
	Version string `json:"version"`
	Server  any    `json:"server,omitempty" doc:"The base in use and what runs sandboxes; for operators"`
}

func (s *Server) status(ctx context.Context, c enplace.Caller, _ *struct{}) (*One[Status], error) {
	out := Status{Version: s.cfg.Version}
	if s.cfg.Status != nil && access.Check(c, access.Operate, access.Thing{What: "server", ID: "status"}) == nil {
		out.Server = s.cfg.Status(ctx)
	}
	return one(out, nil)
}

func (s *Server) listAudit(ctx context.Context, c enplace.Caller, in *struct {
	PageParams
	Target string `query:"target" doc:"Only what was done to this id"`
}) (*One[enplace.List[enplace.AuditEntry]], error) {
	if err := access.Check(c, access.Operate, access.Thing{What: "audit", ID: "log"}); err != nil {
		return nil, err
	}
	return list(s.cfg.Audit.ListAudit(ctx, in.Target, in.page()))
}
