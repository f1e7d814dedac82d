package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"enplace/internal/project"
	"enplace/internal/server"
)

// A client that reads nothing of a log or an archive is let go; one that reads slowly, or waits between two requests, is not.
func TestClientThatReadsNothingIsLetGo(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *server.Config) { c.StallTimeout = 100 * time.Millisecond })
	left := make(chan struct{})
	b.tasks.archive = func() (io.ReadCloser, error) { return endless{left}, nil }
	c := dial(t, b)
	fmt.Fprint(c, "GET /v1/tasks/x/archive HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+operatorKey+"\r\n\r\n")
	select {
	case <-left:
	case <-t.Context().Done():
		t.Fatal("the archive is still being sent")
	}

	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	content := strings.Repeat("0123456789abcdef", 128<<10)
	if _, err := file.WriteString(content); err != nil {
		t.Fatal(err)
	}
	b.projects.openFile = func(string) (project.File, error) {
		f, err := os.Open(file.Name())
		return project.File{Content: f}, err
	}
	c = dial(t, b)
	r := bufio.NewReader(c)
	for range 2 {
		fmt.Fprint(c, "GET /v1/environments/x/files/f HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+operatorKey+"\r\n\r\n")
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if err != nil || string(got) != content {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		<-time.After(300 * time.Millisecond) // longer than a stall may be
	}
}

func dial(t *testing.T, b *bench) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

type endless struct{ left chan struct{} }

func (e endless) Read(p []byte) (int, error) { return len(p), nil }

func (e endless) Close() error {
	close(e.left)
	return nil
}
