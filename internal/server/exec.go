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
	if wantsLines(in.Accept) {
		return s.stream(func(w http.ResponseWriter, r *http.Request) error {
			return s.execLines(w, r, c, in.ID, in.Body)
		}), nil
	}
	ctx, cancel := s.untilStop(ctx)
	defer cancel()
	result, err := s.cfg.Tasks.Exec(ctx, c, in.ID, in.Body, nil)
	if err != nil {
		return nil, stopping(ctx, err)
	}
	return s.stream(func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "application/json")
		return writeJSON(w, result)
	}), nil
}

// execLines streams a command's output. What goes wrong behind the first line is the last line.
func (s *Server) execLines(w http.ResponseWriter, r *http.Request, c enplace.Caller, id string, in enplace.ExecRequest) error {
	ctx, cancel := s.untilStop(r.Context())
	defer cancel()
	ex := exchangeOf(ctx)
	send := func(e enplace.ExecEvent) error {
		w.Header().Set("Content-Type", ndjson)
		if err := writeJSON(w, e); err != nil {
			return err
		}
		return http.NewResponseController(w).Flush()
	}
	result, err := s.cfg.Tasks.Exec(ctx, c, id, in, send)
	switch {
	case err != nil && ex.status == 0:
		return stopping(ctx, err)
	case err != nil:
		p := problemOf(ctx, stopping(ctx, err))
		return send(enplace.ExecEvent{Error: &p.Problem})
	}
	return send(enplace.ExecEvent{Result: &result})
}

// sshProtocol is what a connection is upgraded to.
const sshProtocol = "enplace-ssh"

func (s *Server) ssh(ctx context.Context, c enplace.Caller, in *struct {
	TaskID
	Upgrade string `header:"Upgrade" doc:"enplace-ssh"`
}) (*huma.StreamResponse, error) {
	if !strings.EqualFold(in.Upgrade, sshProtocol) {
		return nil, enplace.Errorf(enplace.KindMalformed, "this route needs the headers `Connection: Upgrade` and `Upgrade: %s`", sshProtocol).
			WithField("Upgrade").WithFix("use `enplace task ssh`")
	}
	inside, err := s.cfg.Tasks.Dial(ctx, c, in.ID)
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
