package enplace

import (
	"path"
	"strings"
	"unicode/utf8"
)

// NeverImported are the names that no import brings into a tree, at any depth.
var NeverImported = []string{"node_modules", ".venv", "venv", "__pycache__", ".git"}

// CheckPath refuses a path that may not stand in a tree: absolute, escaping, with empty, "." or ".." components, control
// characters, backslashes, invalid UTF-8, components over 255 bytes or more than 4096 bytes in all.
func CheckPath(p string) error {
	bad := func(why string) error { return Invalidf("%s", why).WithField(quotePath(p)) }
	switch {
	case p == "":
		return bad("the path is empty")
	case len(p) > 4096-256: // what Linux takes, less the place it is mounted at
		return bad("the path is longer than 3840 bytes")
	case !utf8.ValidString(p):
		return bad("the path is not valid UTF-8")
	case p[0] == '/':
		return bad("the path is absolute; paths are relative to the project")
	case strings.ContainsRune(p, '\\'):
		return bad("the path has a backslash; separate folders with /")
	}
	for _, r := range p {
		if r < 0x20 || r == 0x7f {
			return bad("the path holds a control character")
		}
	}
	for part := range strings.SplitSeq(p, "/") {
		switch {
		case part == "":
			return bad("the path has an empty component")
		case part == "." || part == "..":
			return bad("the path has a . or .. component")
		case len(part) > 255:
			return bad("the path has a component of more than 255 bytes")
		}
	}
	if len(p) >= 2 && p[1] == ':' && (p[0]|0x20) >= 'a' && (p[0]|0x20) <= 'z' {
		return bad("the path starts with a drive letter")
	}
	return nil
}

// CheckLink refuses a link whose target is absolute or leaves the tree.
func CheckLink(p, target string) error {
	if target == "" || target[0] == '/' || strings.ContainsAny(target, "\x00\\") || len(target) > 4095 || !utf8.ValidString(target) {
		return Invalidf("links to %s; a link must be relative and stay inside the project", quotePath(target)).WithField(quotePath(p))
	}
	// Walk the target part by part: a/../../x may not leave even where it comes back.
	dir := strings.Split(path.Dir(p), "/")
	if path.Dir(p) == "." {
		dir = nil
	}
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if len(dir) == 0 {
				return Invalidf("links to %s, outside the project", quotePath(target)).WithField(quotePath(p))
			}
			dir = dir[:len(dir)-1]
		default:
			dir = append(dir, part)
		}
	}
	return nil
}

// ImportSkips reports the component of NeverImported that the path goes through, or "".
func ImportSkips(p string) string {
	for part := range strings.SplitSeq(p, "/") {
		for _, n := range NeverImported {
			if part == n {
				return n
			}
		}
	}
	return ""
}

// quotePath shortens a hostile path for a message.
func quotePath(p string) string {
	if len(p) > 120 {
		p = p[:117] + "..."
	}
	return strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return '\uFFFD'
		}
		return r
	}, p), "\uFFFD")
}
