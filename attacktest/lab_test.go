package attacktest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"enplace"
	"enplace/client"
	"enplace/enplacetest"
)

// lab is a server with an attacker's means.
type lab struct {
	*enplacetest.Server
	t     *testing.T
	probe []byte
}

func newLab(t *testing.T, args ...string) *lab {
	t.Helper()
	srv := enplacetest.Start(t, args...)
	path := filepath.Join(t.TempDir(), "probe")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the probe: %v\n%s", err, out)
	}
	probe, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return &lab{Server: srv, t: t, probe: probe}
}

// person makes a key of a person.
func (l *lab) person(name string) *client.Client { return l.as(enplace.KeyPerson, name) }

func (l *lab) as(kind enplace.KeyKind, subject string) *client.Client {
	l.t.Helper()
	k, err := l.Client.CreateKey(context.Background(), enplace.CreateKey{Name: string(kind) + " " + subject, Kind: kind, Subject: subject})
	if err != nil {
		l.t.Fatal(err)
	}
	return l.As(k.Secret)
}

// box is an open sandbox.
type box struct {
	t   *testing.T
	api *client.Client
	id  string
}

// open starts an open sandbox; what in leaves out is filled in.
func (l *lab) open(t *testing.T, api *client.Client, in enplace.CreateHarness) *box {
	t.Helper()
	in.Name = "open"
	if in.Egress == nil {
		in.Egress = &enplace.Egress{Policy: enplace.EgressOpen}
	}
	h, err := api.CreateHarness(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, api, h.ID)
}

func start(t *testing.T, api *client.Client, harness string) *box {
	t.Helper()
	task, err := api.CreateTask(t.Context(), enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: harness}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := api.CancelTask(context.Background(), task.ID)
		if err != nil && enplace.KindOf(err) != enplace.KindConflict {
			t.Errorf("cancelling %s: %v", task.ID, err)
		}
	})
	return &box{t: t, api: api, id: task.ID}
}

// bring puts the probe into the sandbox.
func (b *box) bring(probe []byte) {
	b.t.Helper()
	var small bytes.Buffer
	z := gzip.NewWriter(&small)
	if _, err := z.Write(probe); err != nil {
		b.t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		b.t.Fatal(err)
	}
	r, err := b.try(enplace.ExecRequest{Command: []string{"sh", "-c", "base64 -d | gunzip > /run/probe && chmod +x /run/probe"},
		Stdin: base64.StdEncoding.EncodeToString(small.Bytes())})
	if err != nil || r.ExitCode != 0 {
		b.t.Fatalf("bringing the probe: %v %+v", err, r)
	}
}

func (b *box) try(in enplace.ExecRequest) (enplace.ExecResult, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	return b.api.Exec(ctx, b.id, in)
}

// sh runs a script, whatever it ends with.
func (b *box) sh(script string) enplace.ExecResult {
	b.t.Helper()
	r, err := b.try(enplace.ExecRequest{Command: []string{"bash", "-c", script}, Timeout: 60})
	if err != nil {
		b.t.Errorf("%s: %v", script, err)
	}
	return r
}

// attempts runs the probe, and fails for each attempt that succeeded but those named.
func (b *box) attempts(least int, command string, harmless ...string) {
	b.t.Helper()
	checkAttempts(b.t, b.sh(command).Stdout, least, harmless...)
}

func checkAttempts(t *testing.T, output string, least int, harmless ...string) {
	t.Helper()
	made := 0
	for line := range strings.Lines(output) {
		name, result, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok {
			continue
		}
		made++
		if !strings.HasPrefix(result, "refused: ") && !containsPart(harmless, name) {
			t.Errorf("%s: %s", name, result)
		}
	}
	if made < least {
		t.Errorf("only %d attempts were made:\n%s", made, output)
	}
}

func containsPart(parts []string, s string) bool {
	for _, p := range parts {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}

// hold starts a taking that is held until release is called, and gives how much it got.
func (b *box) hold(what string) (n string, release func()) {
	b.t.Helper()
	first := make(chan string, 1)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, err := b.api.ExecStream(ctx, b.id, enplace.ExecRequest{Command: []string{"sh", "-c", "sleep 1000 | /run/probe take '" + what + "'"}}, func(e enplace.ExecEvent) error {
			select {
			case first <- strings.TrimSpace(e.Data):
			default:
			}
			return nil
		})
		ended <- err
	}()
	select {
	case n = <-first:
	case err := <-ended:
		b.t.Errorf("taking %s ended: %v", what, err)
	}
	return n, func() { cancel(); <-ended }
}

// build makes an environment of a person with these files, and gives it with the build and its log.
func (l *lab) build(t *testing.T, api *client.Client, name string, files map[string]string, in enplace.UpdateEnvironment) (enplace.Environment, enplace.Build, string) {
	t.Helper()
	e, err := api.CreateEnvironment(t.Context(), enplace.CreateEnvironment{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range files {
		if _, _, err := api.PutFile(t.Context(), e.ID, path, strings.NewReader(text), strings.HasPrefix(text, "#!") || strings.HasPrefix(text, "\x7fELF")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := api.UpdateEnvironment(t.Context(), e.ID, in); err != nil {
		t.Fatal(err)
	}
	return e, l.rebuild(t, api, e.ID), l.buildLog(t, api, e.ID)
}

func (l *lab) rebuild(t *testing.T, api *client.Client, id string) enplace.Build {
	t.Helper()
	b, err := api.StartBuild(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = api.WaitBuild(t.Context(), id, b.N); err != nil {
		t.Fatal(err)
	}
	return b
}

func (l *lab) buildLog(t *testing.T, api *client.Client, id string) string {
	t.Helper()
	r, err := api.BuildLog(t.Context(), id, 1)
	if err != nil {
		t.Fatal(err)
	}
	return readAll(t, r)
}

func readAll(t *testing.T, r io.ReadCloser) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// checkLog fails when a line of the server's log is not the server's, or when it met something that it did not expect.
func (l *lab) checkLog(t *testing.T) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(l.Log()), "\n")
	for i, line := range lines {
		var e struct{ Time, Level, Msg string }
		if json.Unmarshal([]byte(line), &e) != nil || e.Time == "" {
			if i > 0 { // the first may have been cut
				t.Errorf("no line of the server's: %.200s", line)
			}
			continue
		}
		if e.Msg == "forged" || strings.Contains(line, "panic") || e.Level == "ERROR" {
			t.Errorf("in the server's log: %.600s", line)
		}
	}
}

func hostHas(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
