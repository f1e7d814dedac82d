package provision

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/mise"
)

// Bounds of what is kept of install scripts: of a line, and of a tool's.
const (
	maxScriptLine = 1000
	maxScripts    = 50
)

// lifecycle notes which packages' install scripts run while tools are installed. It reads all that is printed, and not its end:
// a script that prints much would hide those before it.
type lifecycle struct {
	to      io.Writer // may be nil
	line    []byte
	ran     map[string][]string // by tool: those alone that are installed, since a script can print lines about any others
	skipped map[string]string
}

func newLifecycle(to io.Writer, tools []*tool) *lifecycle {
	l := &lifecycle{to: to, ran: map[string][]string{}, skipped: map[string]string{}}
	for _, t := range tools {
		l.ran[t.name] = nil
	}
	return l
}

func (l *lifecycle) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		i := bytes.IndexAny(rest, "\r\n")
		if i < 0 {
			l.line = append(l.line, rest[:min(len(rest), maxScriptLine-min(len(l.line), maxScriptLine))]...)
			break
		}
		l.line = append(l.line, rest[:min(i, maxScriptLine-min(len(l.line), maxScriptLine))]...)
		l.read(string(l.line))
		l.line, rest = l.line[:0], rest[i+1:]
	}
	if l.to == nil {
		return len(b), nil
	}
	return l.to.Write(b)
}

func (l *lifecycle) read(line string) {
	if tool, script, ok := mise.ScriptRan(line); ok {
		ran, installed := l.ran[tool]
		if script = enplace.Shown(script, maxReason); installed && len(ran) < maxScripts && !slices.Contains(ran, script) {
			l.ran[tool] = append(ran, script)
		}
	}
	if tool, scripts, ok := mise.ScriptsSkipped(line); ok {
		if _, installed := l.ran[tool]; installed {
			l.skipped[tool] = scripts
		}
	}
}

// ranFor takes over which scripts ran for tools that were installed, and says so, as it says which did not.
func (l *lifecycle) ranFor(it *item, tools []*tool) {
	for _, t := range tools {
		for _, script := range l.ran[t.name] {
			if !slices.Contains(t.scripts, script) && len(t.scripts) < maxScripts {
				t.scripts = append(slices.Clip(t.scripts), script)
			}
		}
		if len(t.scripts) > 0 {
			it.addNote(fmt.Sprintf("install scripts of packages ran for %s: %s", t.name, enplace.Shown(strings.Join(t.scripts, ", "), maxReason)))
		}
		if scripts := l.skipped[t.name]; scripts != "" {
			name := strings.TrimPrefix(t.name, "npm:")
			it.addNote(fmt.Sprintf("%s has install scripts (%s), which did not run; allow_builds = [%q] in mise.toml lets them", t.name, scripts, name))
		}
	}
}
