package sandboxtest

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"enplace"
	"enplace/internal/sandbox"
)

var project = map[string]string{"top": "1", "a/mid": "2", "a/b/low": "3", "a/b/c/deep": "4"}

// Root inside can write at no depth of what is attached to be read, and cannot make it writable or take it away.
func testReadOnly(t *testing.T, h Harness) {
	one, two := h.Pack(t, project), h.Pack(t, map[string]string{"top": "over", "second": "5"})
	s := h.Spec("readonly")
	s.Mounts = []sandbox.Mount{
		{Path: "/env/one", Images: []enplace.Digest{one}},
		{Path: "/env/stack", Images: []enplace.Digest{one, two}},
	}
	b := h.Start(t, s)
	want(t, b, "cd /env/stack; cat top a/mid a/b/low a/b/c/deep second; stat -c %u:%g top", "over23450:0")
	for _, m := range s.Mounts {
		for _, dir := range []string{"", "/a", "/a/b", "/a/b/c"} {
			refused(t, b, "echo x > "+m.Path+dir+"/new", "read-only file system")
			refused(t, b, "chmod 777 "+m.Path+dir, "read-only file system")
		}
		for _, file := range []string{"/top", "/a/mid", "/a/b/low", "/a/b/c/deep"} {
			refused(t, b, "echo x >> "+m.Path+file, "read-only file system")
			refused(t, b, "rm -f "+m.Path+file, "read-only file system")
		}
		refused(t, b, "mount -o remount,rw "+m.Path, "permission denied", "not permitted")
		refused(t, b, "probe remount "+m.Path, "not permitted", "permission denied")
		refused(t, b, "probe mount_setattr "+m.Path, "not permitted", "permission denied", "not implemented")
		refused(t, b, "umount "+m.Path+" || umount -l "+m.Path, "not permitted", "permission denied")
		refused(t, b, "probe unmount "+m.Path, "not permitted", "permission denied")
		refused(t, b, "rmdir "+m.Path+"; rm -rf "+m.Path, "busy", "read-only file system")
		refused(t, b, "mv "+m.Path+" /env/elsewhere", "busy")
	}
	want(t, b, "cat /env/one/a/b/c/deep", "4")
}

// A name that an upper image removes is gone, and a folder that it replaces holds nothing of the lower one.
func testStacked(t *testing.T, h Harness) {
	lower := h.Pack(t, map[string]string{"keep": "k", "gone": "g", "dir/old": "o", "tree/x/y": "y"})
	b := h.Start(t, func() sandbox.Spec {
		s := h.Spec("stacked-write")
		s.Mounts = []sandbox.Mount{{Path: "/env/p", Images: []enplace.Digest{lower}, Writable: true}}
		return s
	}())
	want(t, b, `cd /env/p && rm gone && rm -r dir && mkdir dir && echo n > dir/new && mv keep kept && rm -r tree/x && ln -s kept link &&
		mkdir bin && echo '#!/bin/sh' > bin/run && chmod 4755 bin/run && chown 33:44 dir/new && echo done`, "done")
	list := "cd /env/p && find . | sort | xargs stat -c '%n %F %a %u %g' && cat kept dir/new && readlink link"
	before := sh(t, b, list)
	exclude := func(path string) bool { return path == "bin" }
	info, err := b.Capture(t.Context(), "/env/p", "", exclude)
	check(t, err)
	whole, err := b.Capture(t.Context(), "/env/p", lower, exclude)
	check(t, err)
	// The sandbox goes on after it.
	want(t, b, "echo more > /env/p/more; cat /env/p/more", "more")

	var kept []string
	for line := range strings.Lines(before.out) {
		if !strings.HasPrefix(line, "./bin") {
			kept = append(kept, line)
		}
	}
	for name, images := range map[string][]enplace.Digest{"stacked-read": {lower, info.Digest}, "stacked-whole": {whole.Digest}} {
		s := h.Spec(name)
		s.Mounts = []sandbox.Mount{{Path: "/env/p", Images: images}}
		after := sh(t, h.Start(t, s), list)
		if w := strings.Join(kept, ""); after.out != w || after.Code != 0 {
			t.Errorf("%s:\n%s%s\nwant:\n%s", name, after.out, after.err, w)
		}
	}
}

// A writable mount starts empty when it has no images, is measured, and ends the processes that write when it is captured.
func testWritable(t *testing.T, h Harness) {
	s := h.Spec("writable")
	s.Mounts = []sandbox.Mount{{Path: "/env/new", Writable: true}}
	b := h.Start(t, s)
	want(t, b, `cd /env/new && mkdir -p .venv/lib && head -c 1000 /dev/zero > .venv/lib/a && head -c 24 /dev/zero > .venv/b && head -c 7 /dev/zero > top
		(while true; do date > /env/new/clock; done) > /dev/null 2>&1 & echo begun`, "begun")
	sizes, err := b.Written(t.Context(), "/env/new", 1)
	check(t, err)
	if sizes[".venv"] != 1024 || sizes[""] < 7 {
		t.Errorf("Written: %v", sizes)
	}
	_, err = b.Written(t.Context(), "/env/other", 1)
	wantKind(t, err, enplace.KindInvalid)
	exclude := func(path string) bool { return path == "clock" }
	first, err := b.Capture(t.Context(), "/env/new", "", exclude)
	check(t, err)
	want(t, b, "ps | grep -c '[d]ate' || true", "0")
	second, err := b.Capture(t.Context(), "/env/new", "", exclude)
	check(t, err)
	if first != second {
		t.Errorf("captured twice: %v and %v", first, second)
	}
}

// What is captured of the root is what was written to it, without what the sandbox itself consists of.
func testCaptureRoot(t *testing.T, h Harness) {
	s := h.Spec("captureroot")
	s.Mounts = []sandbox.Mount{{Path: "/env/sub/p", Writable: true}}
	b := h.Start(t, s)
	want(t, b, `echo tool > /usr/bin/tool; rm /bin/ping; echo x > /tmp/x; echo x > /run/x; echo x > /task/x; echo x > /env/sub/p/x;
		mkdir -p /opt/it; echo 1 > /opt/it/works; cat /usr/bin/tool`, "tool")
	sizes, err := b.Written(t.Context(), "/", 2)
	check(t, err)
	if w := map[string]int64{"usr/bin": 5, "opt/it": 2}; !maps.Equal(sizes, w) {
		t.Errorf("Written: %v, want %v", sizes, w)
	}
	info, err := b.Capture(t.Context(), "/", "", nil)
	check(t, err)
	fsys, closer, err := h.Images.FS(t.Context(), info.Digest)
	check(t, err)
	defer closer.Close()
	var paths []string
	check(t, fs.WalkDir(fsys, ".", func(path string, _ fs.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	}))
	if w := []string{".", "bin", "bin/ping", "opt", "opt/it", "opt/it/works", "usr", "usr/bin", "usr/bin/tool"}; !slices.Equal(without(paths, "env", "etc"), w) {
		t.Errorf("captured %v, want %v", paths, w)
	}
	s = h.Spec("captureroot-after")
	s.Root = append(slices.Clone(h.Base), info.Digest)
	want(t, h.Start(t, s), "cat /usr/bin/tool /opt/it/works; ls /tmp /task /env; ls -d /bin/ping 2>/dev/null || echo gone", "tool\n1\n/env:\n\n/task:\n\n/tmp:\ngone")
}

// without drops folders that are captured because something below them was made, empty as they are.
func without(paths []string, empty ...string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return slices.Contains(empty, p) })
}
