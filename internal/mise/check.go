package mise

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"enplace"
)

// maxFindings bounds what is said of one file: nobody reads on, and the file may be a stranger's.
const maxFindings = 50

// maxBytes bounds a mise.toml: its parser takes time by the square of the number of keys.
const maxBytes = 128 << 10

// Check reads the mise.toml of an item: the tools that it declares, in its order, and what is wrong with it, by line. Findings
// name neither item nor file, which the caller knows. With an error among them the tools are those that could be read.
//
// It refuses what mise would refuse, what mise would leave out without a word, and what would make an installation depend on
// more than the files of the item, so that sets of one hash would differ.
func Check(content string) ([]enplace.DeclaredTool, []enplace.Finding) {
	if len(content) > maxBytes {
		return nil, []enplace.Finding{{Severity: enplace.FindingError, Message: "the file is larger than 128 KiB; declare what is needed, and split the item if it is that much"}}
	}
	doc, broken := parse(content)
	if broken != nil {
		return nil, []enplace.Finding{*broken}
	}
	c := &checker{document: doc}
	for _, key := range doc.keysOf(doc.values) {
		c.top(key, doc.values[key])
	}
	slices.SortStableFunc(c.findings, func(a, b enplace.Finding) int { return cmp.Compare(a.Line, b.Line) })
	if len(c.findings) > maxFindings {
		rest := c.findings[maxFindings:]
		more := enplace.Finding{Severity: rest[0].Severity, Line: rest[0].Line, Message: fmt.Sprintf("there are %d more findings from here on; mend the ones above first", len(rest))}
		if slices.ContainsFunc(rest, func(f enplace.Finding) bool { return f.Severity == enplace.FindingError }) {
			more.Severity = enplace.FindingError
		}
		c.findings = append(c.findings[:maxFindings:maxFindings], more)
	}
	return c.tools, c.findings
}

// checker gathers what is found in a document.
type checker struct {
	document
	tools    []enplace.DeclaredTool
	findings []enplace.Finding
}

func (c *checker) errorf(path, format string, args ...any) {
	c.find(enplace.FindingError, path, format, args...)
}

func (c *checker) warnf(path, format string, args ...any) {
	c.find(enplace.FindingWarning, path, format, args...)
}

func (c *checker) find(s enplace.Severity, path, format string, args ...any) {
	c.findings = append(c.findings, enplace.Finding{Severity: s, Line: c.line(path), Message: fmt.Sprintf(format, args...)})
}

// sections are the top-level keys that an item may have.
const sections = "[tools], [env], [settings] and min_version"

// refused says of top-level keys why an item cannot have them, and what to do instead.
var refused = map[string]string{
	"plugins":     "runs the code of a repository that can change at any time; name the tool by a backend below [tools], such as aqua:OWNER/NAME or github:OWNER/NAME",
	"hooks":       "is not run when a set is installed; put into setup.sh what an installation has to do",
	"watch_files": "is not run when a set is installed; put into setup.sh what an installation has to do",
	"alias":       "makes a name mean something else; write the tool itself below [tools], such as aqua:OWNER/NAME, with the version that you mean",
	"tool_alias":  "makes a name mean something else; write the tool itself below [tools], such as aqua:OWNER/NAME, with the version that you mean",
	"env_file":    "reads a file when commands start, which is not part of what the set's hash names; write the values below [env]",
	"dotenv":      "reads a file when commands start, which is not part of what the set's hash names; write the values below [env]",
	"env_path":    "is deprecated; write _.path below [env]",
}

// idle are the top-level keys that mise reads and nothing of an item uses.
var idle = strings.Fields("tasks task_config task_templates vars redactions shell_alias")

// top checks a top-level key.
func (c *checker) top(key string, v any) {
	switch {
	case key == "tools":
		c.checkTools(v)
	case key == "env":
		c.checkEnv(v)
	case key == "settings":
		c.checkSettings(v)
	case key == "min_version":
		c.checkMinVersion(v)
	case refused[key] != "":
		c.errorf(pathOf(key), "%s %s", key, refused[key])
	case slices.Contains(idle, key):
		c.warnf(pathOf(key), "%s has no effect in an item, which is installed and not worked in; take it out", key)
	case key == "tool" || key == "setting" || key == "envs":
		c.errorf(pathOf(key), "mise knows no [%s]; write %s", key, map[string]string{"tool": "[tools]", "setting": "[settings]", "envs": "[env]"}[key])
	default:
		c.errorf(pathOf(key), "%q is no part of an item's mise.toml, which has %s; take it out", enplace.Shown(key, 80), sections)
	}
}

func (c *checker) checkMinVersion(v any) {
	switch v := v.(type) {
	case string:
		c.checkNewest("min_version", v, true)
	case map[string]any:
		for _, key := range c.keysOf(v, "min_version") {
			at := pathOf("min_version", key)
			if version, ok := v[key].(string); !ok || key != "hard" && key != "soft" {
				c.errorf(at, `min_version is a version in quotes, or { hard = "…", soft = "…" }`)
			} else {
				c.checkNewest(at, version, key == "hard")
			}
		}
	default:
		c.errorf("min_version", `min_version is a version in quotes, or { hard = "…", soft = "…" }`)
	}
}

var miseVersion = regexp.MustCompile(`^v?[0-9]+(\.[0-9]+)*([-+][0-9A-Za-z.-]*[0-9A-Za-z])?$`)

// checkNewest refuses what is no version, and one that mise would refuse the whole file for.
func (c *checker) checkNewest(at, version string, hard bool) {
	switch {
	case !miseVersion.MatchString(version):
		c.errorf(at, "min_version %q is no version of mise; write one such as %q, or take it out", enplace.Shown(version, 80), Pinned)
	case hard && slices.Compare(numbers(version), numbers(Pinned)) > 0:
		c.errorf(at, "min_version %s is newer than the mise of computers, %s, which would refuse the file; ask for an older one, or take it out", enplace.Shown(version, 80), Pinned)
	}
}

// numbers gives those of a version, in front of what is behind a hyphen or a plus.
func numbers(version string) []int {
	plain := strings.FieldsFunc(strings.TrimPrefix(version, "v"), func(r rune) bool { return r == '-' || r == '+' })[0]
	var all []int
	for part := range strings.SplitSeq(plain, ".") {
		n, err := strconv.Atoi(part)
		if err != nil { // too large for an int
			n = math.MaxInt
		}
		all = append(all, n)
	}
	return all
}

// template reports whether mise would evaluate something in a text before it uses it.
func template(s string) bool {
	return strings.Contains(s, "{{") || strings.Contains(s, "{%") || strings.Contains(s, "{#")
}
