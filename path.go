package enplace

import (
	"strings"
	"unicode"
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
	if strings.ContainsFunc(p, unicode.IsControl) { // those above 0x80 too: terminals obey them
		return bad("the path holds a control character")
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

// CheckLink refuses a link that is absolute or could leave the tree, whatever other links the tree holds. A target goes up at
// its start only, through folders that are real, and after that only down: behind a name, ".." would go up from wherever a link
// of that name leads.
func CheckLink(p, target string) error {
	bad := func(why string) error {
		return Invalidf("links to %s; %s", quotePath(target), why).WithField(quotePath(p))
	}
	if target == "" || target[0] == '/' || strings.Contains(target, `\`) || strings.ContainsFunc(target, unicode.IsControl) || len(target) > 4095 || !utf8.ValidString(target) {
		return bad("a link must be relative and stay inside the project")
	}
	depth, down := strings.Count(p, "/"), false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if down {
				return bad("write it without the .. behind a name, which could lead anywhere")
			}
			if depth--; depth < 0 {
				return bad("that is outside the project")
			}
		default:
			down = true
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

// quotePath is for paths of an archive in messages.
func quotePath(p string) string { return Shown(p, 120) }
