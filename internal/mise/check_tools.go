package mise

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"enplace"
)

// Bounds of a name and a version: longer ones are not meant.
const (
	maxToolName = 300
	maxVersion  = 200
)

// backends are what a tool's name may start with, in front of a colon.
var backends = strings.Fields("aqua asdf cargo conda core dotnet forgejo gem github gitlab go http npm oci packslip pipx pypi s3 spm ubi vfox")

func (c *checker) checkTools(v any) {
	table, ok := v.(map[string]any)
	if !ok {
		c.errorf("tools", `tools must be a table: [tools], and below it lines such as node = "24"`)
		return
	}
	seen := map[string]string{}
	for _, name := range c.keysOf(table, "tools") {
		at := pathOf("tools", name)
		if why := badTool(name); why != "" {
			c.errorf(at, "%s", why)
			continue
		}
		if other, twice := seen[canonical(name)]; twice {
			c.errorf(at, "%q is the same tool as %q on line %d; keep one of them. Several versions of a tool are a list: [\"24\", \"22\"]", name, other, c.line(pathOf("tools", other)))
			continue
		}
		seen[canonical(name)] = name
		c.judgeTool(at, name)
		c.tool(at, name, table[name])
	}
}

// tool checks what is asked for of a tool: a version, a table with one, or a list of either.
func (c *checker) tool(at, name string, v any) {
	list, ok := v.([]any)
	if !ok {
		c.request(at, name, v)
		return
	}
	if len(list) == 0 {
		c.errorf(at, "%q asks for no version, so that nothing would be installed; write one, such as \"latest\"", name)
	}
	asked := map[string]bool{}
	for i, e := range list {
		before := len(c.tools)
		c.request(pathOf(at, fmt.Sprint(i)), name, e)
		if len(c.tools) == before {
			continue
		}
		version := c.tools[before].Version
		if asked[version] {
			c.errorf(pathOf(at, fmt.Sprint(i)), "%q asks for version %q twice; keep one of them", name, version)
		}
		asked[version] = true
	}
}

func (c *checker) request(at, name string, v any) {
	switch v := v.(type) {
	case string:
		c.declare(at, name, v)
	case int64, float64:
		c.errorf(at, "the version of %q is a number, which mise does not take (and 3.10 would be 3.1); put it in quotes", name)
	case map[string]any:
		c.options(at, name, v)
	default:
		c.errorf(at, "%q must be a version in quotes, a table with one, or a list of those", name)
	}
}

// options checks a tool written as a table.
func (c *checker) options(at, name string, table map[string]any) {
	var version string
	selectors := 0
	for _, key := range []string{"version", "prefix", "ref", "path"} {
		v, ok := table[key]
		if !ok {
			continue
		}
		s, ok := v.(string)
		if !ok {
			c.errorf(pathOf(at, key), "the %s of %q must be text in quotes", key, name)
			return
		}
		if version = s; key != "version" && s != "" {
			version = key + ":" + s
		}
		selectors++
	}
	if selectors != 1 {
		c.errorf(at, "%q must have exactly one of version, prefix and ref; write { version = \"latest\" }", name)
		return
	}
	if _, ok := table["postinstall"]; ok {
		c.errorf(pathOf(at, "postinstall"), "postinstall runs where a tool is installed and not where a bundle is restored; put its commands into setup.sh, which runs on every computer")
	}
	for _, key := range c.keysOf(table, strings.Split(at, "\x00")...) {
		if hasCall(table[key]) {
			c.errorf(pathOf(at, key), "the template in %s calls exec or reads a file, so that each computer gets something else; write the value itself", enplace.Shown(key, 80))
		}
	}
	if !c.wellFormed(at, name, table) {
		return
	}
	if systems, _ := texts(table["os"]); table["os"] != nil && !slices.ContainsFunc(systems, isLinux) {
		c.warnf(pathOf(at, "os"), "%q is for %q only and sandboxes are Linux, so it is never installed; take the tool out, or its os", name, enplace.Shown(strings.Join(systems, ", "), 80))
		return
	}
	c.declare(at, name, version)
}

// wellFormed refuses options of a kind that mise refuses the whole file for.
func (c *checker) wellFormed(at, name string, table map[string]any) bool {
	ok := true
	for _, key := range []string{"os", "depends"} {
		if v, there := table[key]; there {
			if _, isText := texts(v); !isText {
				c.errorf(pathOf(at, key), "the %s of %q must be text in quotes, or a list of those", key, name)
				ok = false
			}
		}
	}
	if v, there := table["install_env"]; there {
		variables, isTable := v.(map[string]any)
		for _, value := range variables {
			switch value.(type) {
			case string, int64, bool:
			default:
				isTable = false
			}
		}
		if !isTable {
			c.errorf(pathOf(at, "install_env"), "the install_env of %q must be a table: { NAME = \"value\" }", name)
			ok = false
		}
	}
	if v, there := table["lazy"]; there {
		if _, isFlag := v.(bool); !isFlag {
			c.errorf(pathOf(at, "lazy"), "the lazy of %q must be true or false", name)
			ok = false
		}
	}
	if address, _ := table["url"].(string); strings.HasPrefix(address, "/") || strings.HasPrefix(address, "file:") {
		c.errorf(pathOf(at, "url"), "the url of %q is a path of each computer, which no item puts there; write https://…", name)
		ok = false
	}
	return ok
}

func isLinux(system string) bool { return strings.HasPrefix(system, "linux") }

// texts reads a string or a list of them.
func texts(v any) ([]string, bool) {
	switch v := v.(type) {
	case string:
		return []string{v}, true
	case []any:
		var all []string
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, false
			}
			all = append(all, s)
		}
		return all, true
	}
	return nil, false
}

// calls are the functions of templates that run or read something, and what holds all variables. Those that fill in a version or an architecture are what
// addresses of downloads are made with.
var calls = regexp.MustCompile(`(?s)\{[{%].*\b(exec|read_file|get_env|env|__tera_context|hash_file|glob|file_size|last_modified)\b`)

func hasCall(v any) bool {
	switch v := v.(type) {
	case string:
		return calls.MatchString(v)
	case []any:
		return slices.ContainsFunc(v, hasCall)
	case map[string]any:
		for _, e := range v {
			if hasCall(e) {
				return true
			}
		}
	}
	return false
}

// declare checks a version and adds the tool.
func (c *checker) declare(at, name, version string) {
	if why := badVersion(name, version); why != "" {
		c.errorf(at, "%s", why)
		return
	}
	c.judgeVersion(at, name, version)
	c.tools = append(c.tools, enplace.DeclaredTool{Name: name, Version: version, Line: c.line(at)})
}

// badTool says why a name is no tool's, or "".
func badTool(name string) string {
	shown := enplace.Shown(name, 80)
	backend, rest, explicit := strings.Cut(name, ":")
	switch {
	case strings.TrimSpace(name) == "":
		return `a tool has an empty name; write one, such as node = "24"`
	case len(name) > maxToolName:
		return fmt.Sprintf("the tool's name %q is longer than %d bytes; is it one?", shown, maxToolName)
	case strings.ContainsFunc(name, notInName):
		return fmt.Sprintf("the tool's name %q holds a character that no tool has; take it out", shown)
	case explicit && !slices.Contains(backends, backend):
		return fmt.Sprintf("%q: mise has no backend %q; its backends are %s", shown, enplace.Shown(backend, 80), strings.Join(backends, ", "))
	case explicit && (rest == "" || rest[0] == '['):
		return fmt.Sprintf("%q names a backend and no tool; write the tool behind the colon, such as npm:prettier", shown)
	case name[0] == '-' || explicit && rest[0] == '-':
		return fmt.Sprintf("%q starts with a hyphen, which programs take for an option; no tool does", shown)
	case explicit && atPath(rest):
		return fmt.Sprintf("%q is what lies at a path of each computer, which no item puts there; name what a registry has, or install it in setup.sh", shown)
	case strings.Contains(rest, "://"):
		if u, err := url.Parse(strings.TrimPrefix(rest, "git+")); err != nil || u.User != nil {
			return fmt.Sprintf("%q is no address, or one with a login; write it without, since items are read by everybody of their scope", backend+":…")
		}
	case strings.LastIndexByte(bare(name), '@') > len(name)-len(rest) || !explicit && strings.Contains(name, "@"):
		return fmt.Sprintf("%q has a version in its name; write the version as the value: \"%s\" = \"…\"", shown, enplace.Shown(name[:strings.LastIndexByte(name, '@')], 80))
	}
	return ""
}

// atPath reports whether installers would take a name for a path.
func atPath(name string) bool {
	for _, prefix := range []string{"/", "./", "~", "file:", "git+file:", "link:"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains(strings.Split(bare(name), "/"), "..")
}

func notInName(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune("\"'\\$`;|<>*!(){}", r)
}

// bare is a name without inline options, such as [exe=rg].
func bare(name string) string {
	b, _, _ := strings.Cut(name, "[")
	return b
}

// canonical gives different names of one tool the same form.
func canonical(name string) string {
	name = strings.TrimPrefix(bare(name), "core:")
	if known, ok := registry()[name]; ok {
		return known
	}
	return name
}

// badVersion says why a version cannot be asked for, or "".
func badVersion(name, version string) string {
	switch {
	case strings.TrimSpace(version) == "":
		return fmt.Sprintf("the version of %q is empty; write one, or \"latest\"", name)
	case len(version) > maxVersion:
		return fmt.Sprintf("the version of %q is longer than %d bytes; is it one?", name, maxVersion)
	case template(version):
		return fmt.Sprintf("the version of %q is a template, which gives what each computer makes of it; write the version itself", name)
	case strings.ContainsFunc(version, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		return fmt.Sprintf("the version %q of %q holds a space or a control character; take it out", enplace.Shown(version, 80), name)
	case version[0] == '-':
		return fmt.Sprintf("the version %q of %q starts with a hyphen, which programs take for an option; no version does", enplace.Shown(version, 80), name)
	case strings.HasPrefix(version, "path:"):
		return fmt.Sprintf("%q is what lies at a path of each computer, which no item puts there; name a backend that installs it, or install it in setup.sh", name)
	case strings.Contains(version, ".."), strings.ContainsAny(version, "\"'\\$`"):
		return fmt.Sprintf("the version %q of %q holds .. or a character that mise takes in none; write the version alone", enplace.Shown(version, 80), name)
	}
	if scheme, rest, ok := strings.Cut(version, ":"); ok && (rest == "" || rest[0] == '-' || !slices.Contains(schemes, scheme) && !subVersion.MatchString(scheme)) {
		return fmt.Sprintf("the version %q of %q has no form that mise knows; write such as 24, 1.2.3, latest, prefix:1.2, tag:v1.2 or ref:COMMIT", enplace.Shown(version, 80), name)
	}
	return ""
}

// schemes are what a version may start with, in front of a colon, beside sub-N.
var schemes = strings.Fields("prefix ref tag branch rev")

// versionRange knows the ranges of npm and of Python.
var versionRange = regexp.MustCompile(`^[\^~<>=*]|\.[x*]$|\|\||,`)

var subVersion = regexp.MustCompile(`^sub-[0-9]+(\.[0-9]+)*$`)

var commit = regexp.MustCompile(`^[0-9a-f]{7,64}$`)

// judgeVersion warns of versions that mise takes, and that are probably not meant.
func (c *checker) judgeVersion(at, name, version string) {
	scheme, rest, _ := strings.Cut(version, ":")
	switch {
	case version == "system":
		c.warnf(at, "%q = \"system\" installs nothing and is deprecated in mise: without the line, the base's program is used all the same; take it out", name)
	case versionRange.MatchString(version):
		c.warnf(at, "the version %q of %q is a range, which mise takes for few tools; write how the version begins, such as 24", enplace.Shown(version, 80), name)
	case (scheme == "ref" || scheme == "branch") && !commit.MatchString(rest):
		c.warnf(at, "the version %q of %q is the head of a branch, so that computers of one set can differ; name a release, or a commit: ref:COMMIT", enplace.Shown(version, 80), name)
	}
}

// judgeTool warns of names that mise takes, and that do not give what is meant.
func (c *checker) judgeTool(at, name string) {
	backend, rest, explicit := strings.Cut(bare(name), ":")
	switch {
	case backend == "core" && installers()[registry()[rest]] != "core":
		c.warnf(at, "mise %s has no tool %q of its own and would leave it out without a word; name its backend, or take core: off", Pinned, enplace.Shown(rest, 80))
	case !explicit && registry()[bare(name)] == "":
		advice := "name its backend, such as npm:" + enplace.Shown(bare(name), 80)
		if len(c.findings) < maxFindings { // nobody reads on, and it takes time
			if like := similar(bare(name)); like != "" {
				advice = "did you mean " + like + "?"
			}
		}
		c.warnf(at, "mise %s knows no tool %q and would leave it out without a word; %s", Pinned, enplace.Shown(name, 80), advice)
	case backend == "asdf" || backend == "vfox":
		c.warnf(at, "%q is installed by the code of a repository that can change at any time; aqua, github, npm and the like fetch releases", name)
	case strings.HasPrefix(rest, "git+") || strings.HasSuffix(rest, ".git"):
		c.warnf(at, "%q is built from a repository; name a release of it as the version, since its head moves", name)
	}
}
