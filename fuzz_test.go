package enplace_test

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"enplace"
)

// What CheckPath takes is a path that stays where it is: clean, relative, and text without control characters.
func FuzzCheckPath(f *testing.F) {
	for _, s := range []string{"a", "a/b.txt", "../x", "/x", "a//b", "a/./b", `a\b`, "C:x", "c:/x", "a\x00", "a\n", "\xff", "é", "...", " ", "a/..", strings.Repeat("a/", 2000), strings.Repeat("a", 256)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if enplace.CheckPath(p) != nil {
			return
		}
		if path.Clean("/"+p) != "/"+p || p == "." || strings.HasPrefix(p, "../") || strings.ContainsAny(p, "\\\x00\n\r\x1b") || len(p) > 4000 {
			t.Errorf("%q is taken", p)
		}
		for part := range strings.SplitSeq(p, "/") {
			if len(part) == 0 || len(part) > 255 {
				t.Errorf("%q has a component of %d bytes", p, len(part))
			}
		}
	})
}

// Links that CheckLink takes lead nowhere outside the tree, whatever they lead through. Two of them stand in one tree, followed as the
// kernel does it.
func FuzzCheckLink(f *testing.F) {
	f.Add("p/q/d", "../..", "e", "p/q/d/..")
	f.Add("a/b", "c", "d", "a/b/../..")
	f.Add("up", ".", "x", "up/..")
	f.Add("a", "b", "b", "a")
	f.Add("a/x", "./../b/", "c", "a//x")
	f.Fuzz(func(t *testing.T, one, first, two, second string) {
		if enplace.CheckPath(one) != nil || enplace.CheckPath(two) != nil || one == two || strings.HasPrefix(one, two+"/") || strings.HasPrefix(two, one+"/") {
			return // no tree holds both
		}
		if enplace.CheckLink(one, first) != nil || enplace.CheckLink(two, second) != nil {
			return
		}
		links := map[string]string{one: first, two: second}
		for start := range links {
			if at, ok := follow(links, start); !ok {
				t.Errorf("%q -> %q and %q -> %q: %q leads out, to %q", one, first, two, second, start, at)
			}
		}
	})
}

// follow walks as the kernel does, and says whether it stayed in the tree. All folders exist.
func follow(links map[string]string, start string) (at string, ok bool) {
	var dir []string
	rest := strings.Split(start, "/")
	for hops := 0; len(rest) > 0 && hops < 100; {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if len(dir) == 0 {
				return "..", false
			}
			dir = dir[:len(dir)-1]
			continue
		}
		here := strings.Join(append(append([]string{}, dir...), part), "/")
		if target, link := links[here]; link {
			hops++
			if strings.HasPrefix(target, "/") {
				return target, false
			}
			rest = append(strings.Split(target, "/"), rest...)
			continue
		}
		dir = append(dir, part)
	}
	return strings.Join(dir, "/"), true
}

var (
	plainName    = regexp.MustCompile(`^(?:@[a-z0-9-][a-z0-9._~-]*/)?[A-Za-z0-9][A-Za-z0-9._+~-]*$`)
	plainVersion = regexp.MustCompile(`^[A-Za-z0-9._^~<>=|*!+, :-]*$`)
)

// What ParsePackage takes is a name with a version: on a command line it is no option, no path, no address and no shell, and it reads
// the same when it is written out and read again.
func FuzzParsePackage(f *testing.F) {
	for _, s := range []string{"pandas", "Flask_SQLAlchemy == 3.1.1", "uvicorn[standard]>=0.30,<1", "--index-url=x", "six @ file:///x", "./x", "@types/node@22.1.0", "ms@npm:left-pad", "ms@file:..", "a@^1 || 2",
		"g++", "jq=1.7~rc1+dfsg-3", "libc6:i386", "jq-", "jq+", "jq*", "x;id", "x\ny", "$(id)", "a/b", "@a/b/c", "git+https://x/y"} {
		for m := range 3 {
			f.Add(m, s)
		}
	}
	f.Fuzz(func(t *testing.T, n int, entry string) {
		m := enplace.Managers[uint(n)%uint(len(enplace.Managers))]
		p, err := enplace.ParsePackage(m, entry)
		if err != nil {
			return
		}
		written := p.String()
		if !plainName.MatchString(p.Name) || !plainVersion.MatchString(p.Version) || strings.ContainsAny(written, ";&$`\\\n\r\x00'\"()") {
			t.Errorf("%s %q is taken as %+v", m, entry, p)
		}
		again, err := enplace.ParsePackage(m, written)
		if err != nil || again != p {
			t.Errorf("%s %q: %+v is written %q, and read as %+v, %v", m, entry, p, written, again, err)
		}
	})
}
