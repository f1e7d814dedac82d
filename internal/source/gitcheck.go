package source

import (
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"

	"enplace"
)

// GitOptions say what the operator allows, and what the caller wants.
type GitOptions struct {
	AllowHTTP       bool          // plain http:// too, for hosts inside; https:// alone otherwise
	Part            Part          // what is wanted; all unless set
	DescribeTimeout time.Duration // what `git describe` may cost; 20 s when zero, not tried when negative
}

// CheckGit refuses a source that Git would refuse before it runs anything: a URL that is not https, that holds a credential, or
// that git could take for something else; a ref or a folder that is none.
func CheckGit(g enplace.GitSource, o GitOptions) error {
	if err := checkGitURL(strings.TrimSpace(g.URL), o); err != nil {
		return err
	}
	if err := checkRef(strings.TrimSpace(g.Ref)); err != nil {
		return err
	}
	if sub := trimSubdir(g.Subdir); sub != "" {
		if err := enplace.CheckPath(sub); err != nil {
			return enplace.Invalidf("%s", message(err)).WithField("subdir")
		}
	}
	return nil
}

// trimSubdir takes what people write around a folder's path.
func trimSubdir(s string) string {
	s = strings.TrimPrefix(strings.TrimSpace(s), "./")
	if s == "." {
		return ""
	}
	return strings.TrimSuffix(s, "/")
}

var (
	scpURL  = regexp.MustCompile(`^[A-Za-z0-9._-]+@([A-Za-z0-9.-]+):(.+)$`)
	gitHost = regexp.MustCompile(`^([A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?\.?)+$`)
)

func checkGitURL(raw string, o GitOptions) error {
	bad := func(format string, args ...any) *enplace.Error {
		return enplace.Invalidf(format, args...).WithField("git_url")
	}
	switch {
	case raw == "":
		return bad("is required; write https://host/owner/repository")
	case len(raw) > 2048:
		return bad("is longer than 2048 characters")
	case strings.ContainsFunc(raw, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) || r == unicode.ReplacementChar }):
		return bad("holds spaces or control characters")
	}
	if m := scpURL.FindStringSubmatch(raw); m != nil && !strings.Contains(raw, "://") {
		return bad("is for ssh, which is switched off; use https").WithFix("write https://%s/%s", m[1], strings.TrimPrefix(shown(m[2]), "/"))
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" {
		return bad("is no URL; write https://host/owner/repository")
	}
	switch u.Scheme {
	case "https":
	case "http":
		if !o.AllowHTTP {
			return bad("is plain http, which is switched off; use https, or ask the operator to allow http for hosts inside")
		}
	case "ssh", "git+ssh", "git":
		return bad("is for %s, which is switched off; use https, or ask the operator", u.Scheme)
	case "":
		return bad("has no scheme; write https://host/owner/repository")
	default:
		return bad("must start with https://")
	}
	switch {
	case u.User != nil:
		return bad("holds a user name or password; put no credentials in the URL")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(raw, "#"):
		return bad("has a ? or # part; give the repository alone, and the branch as ref")
	case !isIPLiteral(u.Host) && (len(u.Hostname()) > 253 || !gitHost.MatchString(u.Hostname())):
		return bad("has no valid host; write https://host/owner/repository")
	case strings.Trim(u.Path, "/") == "":
		return bad("names a host without a repository; write https://host/owner/repository")
	}
	return nil
}

func isIPLiteral(host string) bool {
	return strings.HasPrefix(host, "[") && strings.Contains(host, "]")
}

// checkRef takes what git check-ref-format --allow-onelevel takes, with no leading dash. Commits are such names too.
func checkRef(ref string) error {
	if ref == "" {
		return nil
	}
	bad := func(why string) error {
		return enplace.Invalidf("%q %s; give a branch, a tag or a commit", shown(ref), why).WithField("ref")
	}
	switch {
	case len(ref) > 255:
		return bad("is longer than 255 characters")
	case ref[0] == '-':
		return bad("starts with a dash")
	case ref == "@", strings.Contains(ref, "@{"), strings.Contains(ref, ".."), strings.Contains(ref, "//"):
		return bad("is no name, but an expression or a path")
	case strings.HasPrefix(ref, "/"), strings.HasSuffix(ref, "/"), strings.HasSuffix(ref, "."):
		return bad("starts or ends with what a name may not")
	case strings.ContainsAny(ref, " ~^:?*[\\"), strings.ContainsFunc(ref, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }):
		return bad("holds characters that a name may not")
	}
	for part := range strings.SplitSeq(ref, "/") {
		if strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return bad("has a part that starts with . or ends with .lock")
		}
	}
	return nil
}
