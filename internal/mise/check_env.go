package mise

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"enplace"
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// secretName knows the names that logins have.
var secretName = regexp.MustCompile(`(?i)(^|_)(token|secret|password|passwd|api_?key|private_?key|credentials?)(_|$)`)

// ofEnplace are the variables that Enplace sets; others would take commands past the proxy, or past the set.
var ofEnplace = regexp.MustCompile(`(?i)^(mise_.*|enplace_.*|cengrid_.*|(http|https|all|no|ftp)_proxy)$`)

// directives says of what stands behind "_." why an item cannot have it; _.path it can.
var directives = map[string]string{
	"file":   "reads a file when commands start, which is not part of what the set's hash names; write the values below [env]",
	"source": "runs a script whenever an environment is computed; write the values below [env], or put into setup.sh what has to be done once",
	"python": "makes a virtual environment in whatever directory a command runs; make one in setup.sh, and add its bin folder by _.path",
	"module": "runs a plugin's code whenever an environment is computed; write the values below [env]",
}

func (c *checker) checkEnv(v any) {
	table, ok := v.(map[string]any)
	if !ok {
		c.errorf("env", `env must be a table: [env], and below it lines such as EDITOR = "vim"`)
		return
	}
	for _, name := range c.keysOf(table, "env") {
		at := pathOf("env", name)
		switch {
		case name == "_":
			c.checkDirectives(at, table[name])
		case !variableName.MatchString(name):
			c.errorf(at, "%q is no name of a variable; those are of letters, digits and underscores, and do not start with a digit", enplace.Shown(name, 80))
		case strings.EqualFold(name, "PATH"):
			c.errorf(at, "%s would replace the PATH of every command; add folders with _.path = [\"/opt/…/bin\"]", name)
		case ofEnplace.MatchString(name):
			c.errorf(at, "%s is set by Enplace; take it out", name)
		default:
			c.variable(at, name, table[name])
		}
	}
}

func (c *checker) checkDirectives(at string, v any) {
	table, ok := v.(map[string]any)
	if !ok {
		c.errorf(at, "_ is for directives, of which an item may have _.path")
		return
	}
	for _, key := range c.keysOf(table, "env", "_") {
		switch {
		case key == "path":
			c.checkPaths(pathOf(at, key), table[key])
		case directives[key] != "":
			c.errorf(pathOf(at, key), "_.%s %s", key, directives[key])
		default:
			c.errorf(pathOf(at, key), "mise knows no directive _.%s; an item may have _.path", enplace.Shown(key, 80))
		}
	}
}

// checkPaths takes absolute folders alone: a set has no directory that others could be relative to.
func (c *checker) checkPaths(at string, v any) {
	paths, ok := texts(v)
	if !ok {
		c.errorf(at, `_.path must be a folder in quotes or a list of them, such as _.path = ["/opt/…/bin"]`)
		return
	}
	for i, p := range paths {
		place := pathOf(at, fmt.Sprint(i))
		switch {
		case template(p) || !path.IsAbs(p) || path.Clean(p) != strings.TrimSuffix(p, "/") && p != "/":
			c.errorf(place, "the folder %q of _.path must be an absolute path, without templates and ..", enplace.Shown(p, 80))
		case strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f || r == ':' }):
			c.errorf(place, "the folder %q of _.path holds a colon or a control character, which PATH cannot", enplace.Shown(p, 80))
		}
	}
}

// variable checks the value of a variable: text, a whole number, true, or false, which unsets it.
func (c *checker) variable(at, name string, v any) {
	if table, ok := v.(map[string]any); ok {
		for _, key := range c.keysOf(table, strings.Split(at, "\x00")...) {
			_, isFlag := table[key].(bool)
			switch {
			case key == "value", isFlag && (key == "redact" || key == "tools"):
				continue
			case key == "redact" || key == "tools":
				c.errorf(pathOf(at, key), "the %s of %s must be true or false", key, name)
				return
			}
			c.errorf(pathOf(at, key), "%s: an item gives a value and nothing else; write %s = \"…\". What a person has to give belongs in the keychain", name, name)
			return
		}
		v = table["value"]
	}
	switch v := v.(type) {
	case string:
		switch {
		case strings.ContainsRune(v, 0):
			c.errorf(at, "the value of %s holds a NUL character, which no variable can; take it out", name)
		case template(v):
			c.errorf(at, "the value of %s is a template, which gives what each computer makes of it; write the value itself", name)
		case secretName.MatchString(name) && v != "":
			c.warnf(at, "%s looks like a login, and everybody who reads the scope can read it here; put it into the keychain", name)
		}
	case int64, bool:
	default:
		c.errorf(at, "the value of %s must be text in quotes, a whole number, true or false", name)
	}
}
