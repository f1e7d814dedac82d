package base

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// npmHome is where npm is put, in the layout that npm itself has under a prefix.
const npmHome = "usr/local/lib/node_modules/npm"

// npmScript is the npm that people and builds call; it calls npm's own.
//
//go:embed files/npm.sh
var npmScript string

// installTools puts each tool into the root that has none of its own.
func (b *Builder) installTools(ctx context.Context, root *rootfs, rec *Base, out *lines) error {
	for _, t := range b.cfg.Tools {
		if root.has("usr/local/bin/"+t.Name) || root.has("usr/bin/"+t.Name) {
			rec.Warnings = append(rec.Warnings, "the root brings a "+t.Name+" of its own, which was left as it is")
			continue
		}
		if t.Name == ToolNPM && !root.has("usr/bin/node") && !root.has("usr/local/bin/node") {
			rec.Warnings = append(rec.Warnings, "the root has no node, so npm was left out")
			continue
		}
		file, err := b.fetch(ctx, t, out)
		if err != nil {
			return err
		}
		if err := install(ctx, root, t, file); err != nil {
			return fmt.Errorf("installing %s: %w", t.Name, err)
		}
	}
	return nil
}

func install(ctx context.Context, root *rootfs, t Tool, file string) error {
	switch t.Name {
	case ToolNPM:
		return installNPM(ctx, root, file)
	case ToolUV:
		return installUV(root, file)
	case ToolMise:
		return fromPackage(ctx, file, func(name string, h *tar.Header, content io.Reader) error {
			if name != "bin/mise" {
				return nil
			}
			return root.apply(ours(h, "usr/local/bin/mise", 0o755), content)
		})
	}
	return errors.New("nobody knows how")
}

func installNPM(ctx context.Context, root *rootfs, file string) error {
	err := fromPackage(ctx, file, func(name string, h *tar.Header, content io.Reader) error {
		if strings.HasPrefix(name, "man/") || strings.HasPrefix(name, "docs/") {
			return nil
		}
		mode := int64(0o644)
		if strings.HasPrefix(name, "bin/") || h.Mode&0o111 != 0 {
			mode = 0o755
		}
		return root.apply(ours(h, path.Join(npmHome, name), mode), content)
	})
	if err != nil {
		return err
	}
	if err := root.put("usr/local/bin/npm", 0o755, npmScript); err != nil {
		return err
	}
	return root.symlink("usr/local/bin/npx", "../lib/node_modules/npm/bin/npx-cli.js")
}

// fromPackage gives each file of an npm package by its name in the package.
func fromPackage(ctx context.Context, file string, each func(name string, h *tar.Header, content io.Reader) error) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	stream, done, err := decompress(f)
	if err != nil {
		return err
	}
	defer done()
	return eachEntry(ctx, stream, func(h *tar.Header, content io.Reader) error {
		_, name, ok := strings.Cut(h.Name, "/") // the top folder is "package" by custom only
		if !ok || name == "" || h.Typeflag != tar.TypeReg {
			return nil
		}
		return each(name, h, content)
	})
}

func ours(h *tar.Header, name string, mode int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: h.Size}
}

// installUV takes the programs out of a wheel.
func installUV(root *rootfs, file string) error {
	wheel, err := zip.OpenReader(file)
	if err != nil {
		return err
	}
	defer wheel.Close()
	found := false
	for _, f := range wheel.File {
		dir, base := path.Split(f.Name)
		if !strings.HasSuffix(dir, ".data/scripts/") || base != "uv" && base != "uvx" {
			continue
		}
		found = true
		if err := fromWheel(root, f, "usr/local/bin/"+base); err != nil {
			return err
		}
	}
	if !found {
		return errors.New("the wheel has no program")
	}
	return nil
}

func fromWheel(root *rootfs, f *zip.File, name string) error {
	content, err := f.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	return root.apply(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}, content)
}

//go:embed files/apt.conf
var aptConf string

// configure writes what makes a root a base: the folders that every sandbox has, apt that asks nothing and starts nothing,
// the operator's authorities, and nothing of the machine that it was made on.
func (b *Builder) configure(root *rootfs, rec *Base) error {
	for dir, mode := range map[string]int64{"dev": 0o755, "proc": 0o555, "sys": 0o555, "run": 0o755, "env": 0o755, "task": 0o755,
		"root": 0o700, "tmp": 0o1777, "var/tmp": 0o1777} {
		if root.has(dir) {
			continue
		}
		if err := root.mkdir(dir, mode); err != nil {
			return err
		}
	}
	files := map[string]string{"etc/hostname": "sandbox\n", "etc/resolv.conf": "", "etc/machine-id": "", "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n"}
	for name, content := range files {
		if err := root.put(name, 0o644, content); err != nil {
			return err
		}
	}
	if root.has("usr/bin/dpkg") {
		if err := root.put("etc/apt/apt.conf.d/90enplace", 0o644, aptConf); err != nil {
			return err
		}
		// invoke-rc.d(8): 101 forbids the action, so that no package starts its service.
		if err := root.put("usr/sbin/policy-rc.d", 0o755, "#!/bin/sh\nexit 101\n"); err != nil {
			return err
		}
	}
	return b.trust(root, rec)
}

func (b *Builder) trust(root *rootfs, rec *Base) error {
	if len(b.cfg.ExtraCAs) > 0 && !root.has("usr/sbin/update-ca-certificates") {
		rec.Warnings = append(rec.Warnings, "the root has no ca-certificates; programs that read no variable for it do not know the operator's authorities")
		return nil
	}
	for _, file := range b.cfg.ExtraCAs {
		pem, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading a certificate: %w", err)
		}
		if !bytes.Contains(pem, []byte("-----BEGIN CERTIFICATE-----")) || bytes.Contains(pem, []byte("PRIVATE KEY-----")) {
			return fmt.Errorf("%s is not a certificate in PEM form", file)
		}
		name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)) + ".crt"
		if err := root.put("usr/local/share/ca-certificates/"+name, 0o644, string(pem)); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes what differs from one making to the next, and what is of no use later.
func sweep(root *rootfs) error {
	for _, dir := range []string{"var/log", "var/cache/ldconfig", "var/cache/apt", "var/lib/apt/lists", "tmp", "var/tmp"} {
		if err := sweepFiles(root, dir); err != nil {
			return err
		}
	}
	for _, name := range []string{"var/cache/debconf/config.dat-old", "var/cache/debconf/templates.dat-old", "var/lib/dpkg/status-old",
		"var/lib/dpkg/diversions-old", "etc/passwd-", "etc/group-", "etc/shadow-", "etc/gshadow-", "etc/.pwd.lock"} {
		if err := root.remove(name); err != nil {
			return err
		}
	}
	return nil
}

// sweepFiles removes the files below a folder and leaves the folders: programs count on them and on their owners.
func sweepFiles(root *rootfs, dir string) error {
	names, err := root.names(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		p := path.Join(dir, n)
		if root.isDir(p) {
			err = sweepFiles(root, p)
		} else {
			err = root.remove(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
