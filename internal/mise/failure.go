package mise

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Reason gives, out of what mise printed while it installed one tool, why it could not: one line, or "" when it said nothing. A source
// that could not be reached is named, with its answer, where either was printed: mise's own last words leave both out.
func Reason(output string) string {
	var said, npm, git, host string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		switch rest, isError := strings.CutPrefix(line, "mise ERROR "); {
		case isError && (strings.HasPrefix(rest, "Version: ") || strings.HasPrefix(rest, "Run with --verbose")):
		case isError && said == "":
			said = rest
		case strings.HasPrefix(line, "fatal: "):
			git = strings.TrimPrefix(line, "fatal: ")
		case fetched.MatchString(line):
			if at := fetched.FindStringSubmatch(line)[1]; said == "" && at != versionsHost {
				host = at
			}
		case npm == "":
			npm = npmReason(line)
		}
	}
	if said == "npm failed" && npm != "" { // of npm's own words mise repeats the last ones, which say where its log lies
		return "npm: " + npm
	}
	if rest, ok := strings.CutPrefix(said, "Failed to install "); ok {
		if _, why, ok := strings.Cut(rest, ": "); ok {
			said = why
		}
	}
	switch {
	case git != "" && strings.HasPrefix(said, "git ") && strings.Contains(said, " failed: exit code "):
		return "git: " + git
	case host != "" && strings.Contains(said, "error sending request") && !strings.Contains(said, "://"):
		return host + ": " + said
	}
	return said
}

// fetched is what mise says of a request that failed and that it repeats.
var fetched = regexp.MustCompile(`^mise WARN +HTTP [A-Z]+ https?://(?:[^/\s@]*@)?([^/\s]+)\S* attempt [0-9]+ failed`)

// versionsHost is asked first for whatever mise wants to know, and does without.
const versionsHost = "mise-versions.jdx.dev"

// npmAside starts what npm says beside the reason; npmLabel is what it puts before that.
var (
	npmAside = regexp.MustCompile(`^(?:(?:code|errno|syscall|path|dest|type|stack|cwd|pkgid) |A complete log|$)`)
	npmLabel = regexp.MustCompile(`^(?:[0-9]{3}|notarget|notsup|network|gyp) +`)
)

// npmReason gives what a line of npm says of why it failed, or "".
func npmReason(line string) string {
	_, said, ok := strings.Cut(line, "npm error ")
	if said = strings.TrimSpace(said); !ok || npmAside.MatchString(said) {
		return ""
	}
	return npmLabel.ReplaceAllString(said, "")
}

var (
	left      = regexp.MustCompile(`(?i)rate limit: [1-9]\d*/.*`) // mise says it with each refusal of GitHub's
	limited   = regexp.MustCompile(`(?i)rate.?limit|too many requests|\b429\b`)
	resetTime = regexp.MustCompile(`(?i)resets?(?:[ _-]?(?:at|in|time))?["':= ]+(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?: ?(?:UTC|Z|[+-]\d\d:?\d\d))?|\d{10})\b`)
	waitFor   = regexp.MustCompile(`(?i)retry[ -]after["':= ]+(\d{1,6})\b`)
)

// RateLimited reports whether a source refused an installation because it was asked too often, and until when it will; the
// zero time when it did not say.
func RateLimited(output string, now time.Time) (until time.Time, ok bool) {
	output = left.ReplaceAllString(output, "")
	if !limited.MatchString(output) {
		return time.Time{}, false
	}
	if m := waitFor.FindStringSubmatch(output); m != nil {
		seconds, _ := strconv.Atoi(m[1]) // at most six digits
		return now.Add(time.Duration(seconds) * time.Second), true
	}
	m := resetTime.FindStringSubmatch(output)
	if m == nil {
		return time.Time{}, true
	}
	if seconds, err := strconv.ParseInt(m[1], 10, 64); err == nil {
		return time.Unix(seconds, 0), true
	}
	said := m[1][:10] + " " + m[1][11:] // a T may stand between date and time
	for _, layout := range []string{"2006-01-02 15:04:05 UTC", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 -07:00", "2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05", "2006-01-02 15:04Z07:00", "2006-01-02 15:04"} {
		if t, err := time.Parse(layout, said); err == nil {
			return t, true
		}
	}
	return time.Time{}, true
}
