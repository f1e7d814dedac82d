package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"enplace"
)

// parseRefs reads ls-remote: name and id.
func parseRefs(out string) map[string]string {
	refs := map[string]string{}
	for line := range strings.Lines(out) {
		id, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if ok && commitID.MatchString(id) {
			refs[name] = id
		}
	}
	return refs
}

// pickRef finds the full name of what a person calls ref: a branch before a tag, as git clone does.
func pickRef(refs map[string]string, ref string) (string, bool) {
	candidates := []string{"refs/heads/" + ref, "refs/tags/" + ref}
	switch {
	case ref == "":
		candidates = []string{"HEAD"}
	case strings.HasPrefix(ref, "refs/"):
		candidates = []string{ref}
	}
	for _, name := range candidates {
		if _, ok := refs[name]; ok {
			return name, true
		}
	}
	return "", false
}

func unknownRef(ref string) error {
	if ref == "" {
		return enplace.Invalidf("the repository has no default branch; name a branch, a tag or a commit").WithField("ref")
	}
	return enplace.Invalidf("the repository has no branch, tag or commit %q", shown(ref)).WithField("ref")
}

// What git and its HTTP library say, by what it means for a person. The first that matches counts.
var gitFailures = []struct {
	says *regexp.Regexp
	kind enplace.Kind
	mean string // %s is the host
}{
	{regexp.MustCompile(`(?i)(CONNECT tunnel failed, response|HTTP code) 403|remote: enplace: .*(refused|allow-list)`), enplace.KindInvalid,
		"the egress policy of this server does not let imports reach %s; ask the operator to allow that host"},
	{regexp.MustCompile(`(?i)(CONNECT tunnel failed, response|HTTP code) 50[24]|remote: enplace: `), enplace.KindUpstream,
		"this server cannot reach %s; check the name and the port in the address, and try again later"},
	{regexp.MustCompile(`(?i)could not read Username|could not read Password|terminal prompts disabled|Authentication failed|repository .* not found|returned error: (401|403|404|410)`), enplace.KindInvalid,
		"the repository at %s was not found, or is private; check the address, or upload an archive of it instead"},
	{regexp.MustCompile(`(?i)is this a git repository|not a git repository|invalid server response|bad line length character|protocol error`), enplace.KindInvalid,
		"%s answers, but not as a git repository; check the address"},
	{regexp.MustCompile(`(?i)transport '.*' not allowed|redirect`), enplace.KindInvalid,
		"%s sends imports on to an address that is not allowed; use the address it sends to, if that is https"},
	{regexp.MustCompile(`(?i)No space left|Disk quota`), enplace.KindTooLarge,
		"the repository at %s is larger than an import may be; import a smaller one, or upload an archive of the part that is needed"},
}

// explain makes an error of what git said. Its words are kept as the cause, for the log only: they can tell what is inside a
// network.
func (g *git) explain() error {
	said := g.stderr.String()
	cause := errors.New("git: " + strings.TrimSpace(withoutUserinfo(said)))
	for _, f := range gitFailures {
		if f.says.MatchString(said) {
			return enplace.Errorf(f.kind, f.mean, shown(g.host)).WithField("git_url").WithCause(cause)
		}
	}
	return enplace.Errorf(enplace.KindUpstream, "the repository at %s could not be fetched; check the address, and try again later", shown(g.host)).WithField("git_url").WithCause(cause)
}

// local is the failure of a command that asks no other host.
func (g *git) local(command string, err error) error {
	if err != nil {
		return err
	}
	said := g.stderr.String()
	if strings.Contains(said, "No space left") || strings.Contains(said, "Disk quota") {
		return g.explain()
	}
	return fmt.Errorf("git %s failed: %s", command, strings.TrimSpace(withoutUserinfo(said)))
}

// timeout tells the end of the time for an import from what became of it.
func (g *git) timeout(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return enplace.Errorf(enplace.KindUpstream, "fetching from %s took too long; try again, or upload an archive", shown(g.host)).WithField("git_url").WithCause(err)
	}
	return err
}

var userinfo = regexp.MustCompile(`://[^/@\s]*@`)

// withoutUserinfo takes credentials out of URLs, which a redirect could bring.
func withoutUserinfo(s string) string { return userinfo.ReplaceAllString(s, "://") }

// message gives an error's message without its field.
func message(err error) string {
	var e *enplace.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

// tailBuffer keeps the last 8 KiB of what is written.
type tailBuffer struct{ b []byte }

func (t *tailBuffer) Write(p []byte) (int, error) {
	const most = 8 << 10
	n := len(p)
	if len(p) > most {
		p = p[len(p)-most:]
	}
	if over := len(t.b) + len(p) - most; over > 0 {
		t.b = t.b[over:]
	}
	t.b = append(t.b, p...)
	return n, nil
}

func (t *tailBuffer) Reset() { t.b = nil }

func (t *tailBuffer) String() string { return strings.ToValidUTF8(string(t.b), "\uFFFD") }

// cappedBuffer keeps the first bytes, and notes that there were more.
type cappedBuffer struct {
	bytes.Buffer
	left int
	over bool
}

func (c *cappedBuffer) Write(p []byte) (int, error) {
	n := len(p)
	if n > c.left {
		c.over = true
		p = p[:c.left]
	}
	c.left -= len(p)
	c.Buffer.Write(p)
	return n, nil
}
