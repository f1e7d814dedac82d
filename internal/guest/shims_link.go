package guest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"enplace/internal/durable"
	"enplace/internal/shim"
)

// basics are commands that the system's own programs and every script call by name. No tool takes their place.
var basics = strings.Fields(`sh bash dash rbash login su sudo doas env which type command test [ true false
	ls cat cp mv rm ln mkdir rmdir touch chmod chown chgrp dd df du stat readlink realpath basename dirname mktemp pwd
	echo printf head tail sort uniq cut tr wc tee date sleep id whoami uname hostname nice nohup timeout expr seq yes install
	grep egrep fgrep sed awk find xargs tar gzip gunzip
	mount umount ps kill killall pkill pgrep passwd chroot unshare nsenter setpriv runuser
	apt apt-get apt-cache apt-key dpkg dpkg-deb dpkg-query debconf systemctl service ldconfig update-alternatives init`)

// unfit says why a command gets no shim; "" when it does.
func (w *shimWriter) unfit(c shim.Command) string {
	switch {
	case c.Name == "" || c.Name == "." || c.Name == ".." || strings.ContainsAny(c.Name, "/\x00"):
		return "it is no name of a file"
	case len(c.Name) > 255:
		return "its name is longer than 255 bytes"
	case c.Name[0] == '-' || c.Name[0] == '.':
		return "a name that begins with a hyphen or a full stop is taken for something else"
	case !utf8.ValidString(c.Name) || strings.ContainsFunc(c.Name, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }):
		return "its name holds characters that cannot be shown"
	case slices.Contains(basics, c.Name):
		return "it is one of the basic commands of the system, which no tool takes the place of"
	case c.Name == MiseName:
		return "Enplace has a program of that name"
	case c.Failed != "":
		return ""
	case !filepath.IsAbs(c.Target) || strings.ContainsRune(c.Target, 0) || len(c.Target) > unix.PathMax-1:
		return "its program is not given by its whole path"
	case w.isShim(c.Target):
		return "its program is itself a shim"
	}
	return ""
}

// isShim reports whether a program is one of ours, or mise's own, or lies where shims do.
func (w *shimWriter) isShim(path string) bool {
	for _, dir := range []string{w.tools.Shims(), w.tools.LocalShims()} {
		if filepath.Dir(filepath.Clean(path)) == dir || sameFile(filepath.Dir(path), dir) {
			return true
		}
	}
	return sameFile(path, ShimPath) || sameFile(path, Path) || sameFile(path, shim.Mise)
}

// program gives what the link of that name leads to.
func program(name string) string {
	if name == MiseName {
		return Path
	}
	return ShimPath
}

// sameFile reports whether two paths lead to one file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// link makes the folder of shims right: a link for each name, none of ours or of mise's for any other; a shim of mise's would
// do what the folder says that it is called in. Files that are no shims stay, unless they stand in the place of one, or before a
// basic command of the system for everybody.
func (w *shimWriter) link() (links int, err error) {
	names, sure, err := w.names()
	if err != nil {
		return 0, fmt.Errorf("reading the indexes of shims: %w", err)
	}
	there, err := os.ReadDir(w.tools.Shims())
	if err != nil {
		return 0, fmt.Errorf("reading the folder of shims: %w", err)
	}
	links, changed := len(names), false
	missing := names
	for _, e := range there {
		path := filepath.Join(w.tools.Shims(), e.Name())
		ours := e.Type() == fs.ModeSymlink && (linksTo(path, ShimPath) || linksTo(path, Path))
		switch wanted := names[e.Name()]; {
		case wanted && ours && linksTo(path, program(e.Name())):
			delete(missing, e.Name())
		case wanted && ours: // what a server before this one made
		case wanted:
			w.replaced = append(w.replaced, e.Name())
		case !e.IsDir() && slices.Contains(basics, e.Name()):
			w.replaced, changed = append(w.replaced, e.Name()), true
			if err := os.Remove(path); err != nil {
				return 0, fmt.Errorf("removing what stood before %s: %w", e.Name(), err)
			}
		case ours && sure, e.Type() == fs.ModeSymlink && sameFile(path, shim.Mise), strings.HasPrefix(e.Name(), temporaryPrefix):
			changed = true
			if err := os.Remove(path); err != nil {
				return 0, fmt.Errorf("removing a shim: %w", err)
			}
		}
	}
	for name := range missing {
		if err := (SetupLink{Path: filepath.Join(w.tools.Shims(), name), Target: program(name)}).make(); err != nil {
			w.refused = append(w.refused, RefusedShim{name, "it cannot be put into the folder of shims: " + err.Error()})
			w.replaced = slices.DeleteFunc(w.replaced, func(n string) bool { return n == name })
			links--
			continue
		}
		changed = true
	}
	if changed {
		err = durable.SyncFolder(w.tools.Shims())
	}
	return links, err
}

func linksTo(path, target string) bool {
	to, err := os.Readlink(path)
	return err == nil && to == target
}
