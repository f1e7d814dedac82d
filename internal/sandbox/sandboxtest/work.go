package sandboxtest

import (
	"context"
	"testing"
	"time"

	"enplace"
	"enplace/internal/sandbox"
)

func (h Harness) readWork(t *testing.T, id, name string) string {
	t.Helper()
	w, err := h.Runtime.Work(t.Context(), id)
	check(t, err)
	defer func() { check(t, w.Close()) }()
	b, err := w.Root.ReadFile(name)
	check(t, err)
	return string(b)
}

// The working directory can be read while the sandbox runs, after it with Keep, and not without or after Discard.
func testWork(t *testing.T, h Harness) {
	s := h.Spec("work")
	s.Keep = true
	b := h.Start(t, s)
	sh(t, b, "mkdir -p out && echo result > out/file && ln -s /etc out/link && echo junk > /junk")
	if got := h.readWork(t, "work", "out/file"); got != "result\n" {
		t.Errorf("running: %q", got)
	}
	held, err := h.Runtime.Work(t.Context(), "work")
	check(t, err)
	stop(t, b)
	if b, err := held.Root.ReadFile("out/file"); err != nil || string(b) != "result\n" {
		t.Errorf("held over Stop: %q, %v", b, err)
	}
	if got := h.readWork(t, "work", "out/file"); got != "result\n" {
		t.Errorf("kept: %q", got)
	}
	check(t, held.Close())
	w, err := h.Runtime.Work(t.Context(), "work")
	check(t, err)
	if _, err := w.Root.ReadFile("out/link/passwd"); err == nil {
		t.Error("a link led out of the working directory")
	}
	if err := w.Root.WriteFile("out/new", nil, 0o600); err == nil {
		t.Error("kept work can be written to")
	}
	check(t, w.Close())
	check(t, h.Runtime.Discard(t.Context(), "work"))
	_, err = h.Runtime.Work(t.Context(), "work")
	wantIs(t, err, sandbox.ErrNotFound)
	check(t, h.Runtime.Discard(t.Context(), "work"))

	s.ID, s.Keep = "work-lost", false
	stop(t, h.Start(t, s))
	_, err = h.Runtime.Work(t.Context(), "work-lost")
	wantIs(t, err, sandbox.ErrNotFound)
	_, err = h.Runtime.Work(t.Context(), "../work")
	wantIs(t, err, sandbox.ErrNotFound)
}

// A second sandbox of one owner begins with an empty folder, and what it leaves takes the place of what the first left.
func testWorkIsReplaced(t *testing.T, h Harness) {
	s := h.Spec("again")
	s.Keep = true
	for _, content := range []string{"first", "second"} {
		b := h.Start(t, s)
		want(t, b, "ls; echo "+content+" > file", "")
		stop(t, b)
		if got := h.readWork(t, "again", "file"); got != content+"\n" {
			t.Errorf("kept %q, want %q", got, content)
		}
	}
}

// A cache lasts, belongs to whoever has it, and is had by one at a time.
func testCache(t *testing.T, h Harness) {
	spec := func(id string) sandbox.Spec {
		s := h.Spec(id)
		s.Mounts = []sandbox.Mount{{Path: "/root/.cache", Cache: "suite-cache", CacheMiB: 64}}
		return s
	}
	t.Cleanup(func() { check(t, h.Runtime.DropCache(context.Background(), "suite-cache")) })
	a := h.Start(t, spec("cache-a"))
	want(t, a, "stat -c %u:%g /root/.cache; echo cached > /root/.cache/file && chown 33 /root/.cache/file", "0:0")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := h.Runtime.Start(ctx, spec("cache-b"))
	wantKind(t, err, enplace.KindBusy)
	stop(t, a)
	b := h.Start(t, spec("cache-b"))
	want(t, b, "cat /root/.cache/file; stat -c %u:%g /root/.cache/file", "cached\n33:0")
	if h.Runtime.Abilities().Disk {
		refused(t, b, "dd if=/dev/zero of=/root/.cache/big bs=1M count=80", "no space left")
		want(t, b, "dd if=/dev/zero of=/task/big bs=1M count=80 2>/dev/null && echo fits", "fits")
	}
	stop(t, b)
	check(t, h.Runtime.DropCache(t.Context(), "suite-cache"))
	check(t, h.Runtime.DropCache(t.Context(), "suite-cache"))
	want(t, h.Start(t, spec("cache-c")), "ls /root/.cache | grep -v lost+found || true", "")
}
