package guest

import (
	"bytes"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestExecRequestComesThrough(t *testing.T) {
	t.Parallel()
	for _, r := range []execRequest{
		{Argv: []string{"a"}, Dir: "/"},
		{Argv: []string{"a", "", "\xff", "b=c"}, Env: []string{"A=", "B=x=y\n"}, Dir: "/x y", Timeout: 90 * time.Second, Sole: true, Whole: true,
			TTY: &TTY{"xterm", 80, 25}, Stdin: true, Stdout: true, Stderr: true, Merged: true},
	} {
		b, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeExec(b)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Env) == 0 {
			got.Env = nil
		}
		if !reflect.DeepEqual(got, r) {
			t.Errorf("%+v came through as %+v", r, got)
		}
	}
	// A deadline never rounds down to none.
	b, _ := execRequest{Argv: []string{"a"}, Dir: "/", Timeout: time.Nanosecond}.encode()
	if r, err := decodeExec(b); err != nil || r.Timeout == 0 {
		t.Errorf("%v, %v", r.Timeout, err)
	}
}

// What the decoder takes, the encoder gives back byte for byte in meaning, and never more.
func FuzzExecRequest(f *testing.F) {
	for _, r := range []execRequest{{Argv: []string{"a"}, Dir: "/"}, {Argv: []string{"a", "b"}, Env: []string{"A=b"}, Dir: "/", TTY: &TTY{"x", 1, 2}, Timeout: 1}} {
		b, _ := r.encode()
		f.Add(b)
	}
	f.Add([]byte("/\x00-1\x00\x00\x000\x000\x009\x00a\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeExec(b)
		if err != nil {
			return
		}
		if len(r.Argv) == 0 || r.Dir[0] != '/' || r.Timeout < 0 {
			t.Fatalf("took %+v", r)
		}
		again, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		if r2, err := decodeExec(again); err != nil || !reflect.DeepEqual(r, r2) {
			t.Fatalf("%+v became %+v, %v", r, r2, err)
		}
		l, err := decodeLaunch(string(launch{program: "p", dir: r.Dir, argv: r.Argv, env: r.Env}.encode()[4:]))
		if err != nil || !reflect.DeepEqual(l.argv, r.Argv) || len(l.env) != len(r.Env) {
			t.Fatalf("%+v launches as %+v, %v", r, l, err)
		}
	})
}

func TestPayloadLimit(t *testing.T) {
	t.Parallel()
	for size, ok := range map[int]bool{1000: true, 1001: false} {
		b := bytes.Repeat([]byte("x"), size)
		open := openData(b)
		got, err := readPayload(open[:4+500], bytes.NewReader(b[500:]), 1000)
		if (err == nil) != ok || ok && !bytes.Equal(got, b) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// The guest is in every sandbox: nothing may creep into it.
func TestWhatTheGuestLinks(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{else}}std {{.ImportPath}}{{end}}", "enplace/cmd/enplace-guest").Output()
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{
		"enplace", "enplace/cmd/enplace-guest", "enplace/internal/guest", "enplace/internal/durable", "enplace/internal/shim", // ours
		"golang.org/x/crypto/", "golang.org/x/sys/unix", "golang.org/x/sys/cpu", // the protocol, system calls
		"github.com/pkg/sftp", "github.com/kr/fs", // file transfer, and how it walks folders
	}
	forbidden := []string{"net/http", "database/sql", "os/exec", "text/template", "html/template"}
next:
	for p := range strings.FieldsSeq(strings.ReplaceAll(string(out), "std ", "std:")) {
		if name, std := strings.CutPrefix(p, "std:"); std {
			for _, f := range forbidden {
				if name == f {
					t.Errorf("the guest links %s", f)
				}
			}
			continue
		}
		for _, a := range allowed {
			if p == a || strings.HasSuffix(a, "/") && strings.HasPrefix(p, a) || strings.HasPrefix(p, a+"/") && strings.Contains(a, "pkg/sftp") {
				continue next
			}
		}
		t.Errorf("the guest links %s", p)
	}
}
