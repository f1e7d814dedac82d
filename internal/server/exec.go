package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"enplace"
)

func (s *Server) exec(ctx context.Context, c enplace.Caller, in *struct {
	TaskID
	Accept string `header:"Accept" hidden:"true"`
	JSONBody[enplace.ExecRequest]
}) (*huma.StreamResponse, error) {
	return execution[enplace.ExecResult, enplace.ExecEvent]{
		run: func(ctx context.Context, each func(enplace.ExecEvent) error) (enplace.ExecResult, error) {
			return s.cfg.Tasks.Exec(ctx, c, in.ID, in.Body, each)
		},
		ended:  func(r enplace.ExecResult) enplace.ExecEvent { return enplace.ExecEvent{Result: &r} },
		failed: func(p *enplace.Problem) enplace.ExecEvent { return enplace.ExecEvent{Error: p} },
	}.answer(ctx, s, in.Accept)
}

// execution is a command that is to run, in a task or on a computer: R is how it ends, and E an event of its stream.
type execution[R, E any] struct {
	run    func(ctx context.Context, each func(E) error) (R, error) // each is nil for a result with its output
	ended  func(R) E
	failed func(*enplace.Problem) E
}

// answer runs the command for its result, or streams its output for a client that accepts lines.
func (e execution[R, E]) answer(ctx context.Context, s *Server, accept string) (*huma.StreamResponse, error) {
	if wantsLines(accept) {
		return s.stream(func(w http.ResponseWriter, r *http.Request) error { return e.lines(w, r, s) }), nil
	}
	ctx, cancel := s.untilStop(ctx)
	defer cancel()
	result, err := e.run(ctx, nil)
	if err != nil {
		return nil, stopping(ctx, err)
	}
	return s.stream(func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "application/json")
		return writeJSON(w, result)
	}), nil
}

// lines streams a command's output. What goes wrong behind the first line is the last line.
func (e execution[R, E]) lines(w http.ResponseWriter, r *http.Request, s *Server) error {
	ctx, cancel := s.untilStop(r.Context())
	defer cancel()
	ex := exchangeOf(ctx)
	send := func(event E) error {
		w.Header().Set("Content-Type", ndjson)
		if err := writeJSON(w, event); err != nil {
			return err
		}
		return http.NewResponseController(w).Flush()
	}
	result, err := e.run(ctx, send)
	switch {
	case err != nil && ex.status == 0:
		return stopping(ctx, err)
	case err != nil:
		p := problemOf(ctx, stopping(ctx, err))
		return send(e.failed(&p.Problem))
	}
	return send(e.ended(result))
}

// sshProtocol is what a connection is upgraded to.
const sshProtocol = "enplace-ssh"

// UpgradeParam asks for a connection to be upgraded.
type UpgradeParam struct {
	Upgrade string `header:"Upgrade" doc:"enplace-ssh"`
}

func (s *Server) ssh(ctx context.Context, c enplace.Caller, in *struct {
	TaskID
	UpgradeParam
}) (*huma.StreamResponse, error) {
	return s.upgrade(in.Upgrade, "enplace task ssh", func() (net.Conn, error) { return s.cfg.Tasks.Dial(ctx, c, in.ID) })
}

// upgrade joins the client's connection with one into a sandbox. fix is the command that does what the client did not.
func (s *Server) upgrade(protocol, fix string, dial func() (net.Conn, error)) (*huma.StreamResponse, error) {
	if !strings.EqualFold(protocol, sshProtocol) {
		return nil, enplace.Errorf(enplace.KindMalformed, "this route needs the headers `Connection: Upgrade` and `Upgrade: %s`", sshProtocol).
			WithField("Upgrade").WithFix("use `%s`", fix)
	}
	inside, err := dial()
	if err != nil {
		return nil, err
	}
	return s.stream(func(w http.ResponseWriter, r *http.Request) error {
		defer inside.Close()
		if r.Method != http.MethodGet {
			return enplace.Errorf(enplace.KindMalformed, "only GET is upgraded").WithField("method")
		}
		outside, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return enplace.Errorf(enplace.KindMalformed, "the connection cannot be upgraded; use HTTP/1.1").WithField("Upgrade").WithCause(err)
		}
		defer outside.Close()
		exchangeOf(r.Context()).status = http.StatusSwitchingProtocols
		if _, err := fmt.Fprintf(outside, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", sshProtocol); err != nil {
			return nil // the client left
		}
		stop := context.AfterFunc(s.stop, func() { outside.Close() })
		defer stop()
		join(outside, buffered.Reader, inside)
		return nil
	}), nil
}

// join copies both ways until one side is done. What the client sent behind its request is in read.
func join(outside net.Conn, read io.Reader, inside net.Conn) {
	done := make(chan struct{}, 2)
	go func() {
		_, _ = io.Copy(inside, read)
		done <- struct{}{}
	}()
	go func() {
		_, _ = io.Copy(outside, inside)
		done <- struct{}{}
	}()
	<-done
	_, _ = outside.Close(), inside.Close()
	<-done
}
