package base_test

import (
	"context"
	"encoding/binary"
	"io/fs"
	"runtime"
	"strings"
	"testing"

	"enplace/internal/base"
	"enplace/internal/base/basetest"
)

// The Debian base has what builds and tasks count on, at the versions that are pinned, and nothing of the machine that it
// was made on.
func TestDebian(t *testing.T) {
	images, rec := basetest.Open(t)
	t.Logf("%s: %d MB, %d files, made in %s", rec.Digest, rec.Bytes>>20, rec.Files, rec.Took)
	pinned := map[string]string{}
	for _, tool := range base.DefaultTools(runtime.GOARCH) {
		pinned[tool.Name] = tool.Version
	}
	if rec.NPM != pinned[base.ToolNPM] || rec.UV != pinned[base.ToolUV] || rec.Mise != pinned[base.ToolMise] {
		t.Errorf("npm %q, uv %q, mise %q; pinned are %v", rec.NPM, rec.UV, rec.Mise, pinned)
	}
	for name, version := range map[string]string{"python": rec.Python, "node": rec.Node, "git": rec.Git, "suite": rec.Suite} {
		if version == "" {
			t.Errorf("no %s", name)
		}
	}
	if len(rec.Warnings) > 0 {
		t.Errorf("warnings %q", rec.Warnings)
	}
	fsys, closer, err := images.FS(context.Background(), rec.Digest)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	for name, want := range map[string]string{
		"etc/machine-id": "", "etc/resolv.conf": "", "etc/hostname": "sandbox\n", "usr/sbin/policy-rc.d": "#!/bin/sh\nexit 101\n",
	} {
		if got, err := fs.ReadFile(fsys, name); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", name, got, err)
		}
	}
	for _, dir := range []string{"var/lib/apt/lists", "var/log", "var/cache/apt", "tmp"} {
		err := fs.WalkDir(fsys, dir, func(p string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				t.Errorf("%s is left", p)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := fs.Stat(fsys, "usr/bin/npm"); err == nil {
		t.Error("Debian's own npm is there")
	}
	if _, err := fs.Stat(fsys, "usr/share/doc/git/copyright"); err != nil {
		t.Errorf("git's licence: %v", err)
	}
	checkCompiled(t, fsys)
}

// Every file of an image has one time, so compiled modules must not be checked by time (PEP 552: flag 1 of the second word,
// with flag 2 unset, is unchecked-hash).
func checkCompiled(t *testing.T, fsys fs.FS) {
	t.Helper()
	found := 0
	err := fs.WalkDir(fsys, "usr/lib", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(p, ".pyc") {
			return err
		}
		data, err := fs.ReadFile(fsys, p)
		if err != nil || len(data) < 8 {
			t.Errorf("%s: %d bytes, %v", p, len(data), err)
			return nil
		}
		found++
		if flags := binary.LittleEndian.Uint32(data[4:]); flags != 1 {
			t.Errorf("%s has the flags %d", p, flags)
		}
		return nil
	})
	if err != nil || found < 100 {
		t.Errorf("%d compiled modules, %v", found, err)
	}
}
