package provision

import (
	"context"
	"fmt"
	"path"
	"strings"

	"enplace"
	"enplace/internal/mise"
	"enplace/internal/sandbox"
)

// scriptEnv gives the variables of a setup.sh, beside those of the box and what tools export. No credential is among them.
func (p *pass) scriptEnv(it *item) []string {
	env := []string{
		"DEBCONF_NONINTERACTIVE_SEEN=true", "NEEDRESTART_MODE=a", "APT_CONFIG=" + string(it.place) + "/apt/apt.conf",
		"MISE_DATA_DIR=" + enplace.ToolsDir, "MISE_SHIMS_DIR=" + mise.Own + "/mise-shims",
	}
	env = append(env, sandbox.GitByHTTPS()...)
	for _, prefix := range []string{"ENPLACE_", "CENGRID_"} { // the second for scripts that were written for it
		env = append(env, prefix+"ENVIRONMENT="+it.Key, prefix+"SCOPE="+string(it.Scope), prefix+"ENV_HASH="+p.job.Set.Hash)
	}
	return env
}

// script runs an item's setup.sh: as root, without a terminal, from its own folder. One that fails is run once more at once,
// but for one that reached its deadline.
func (p *pass) script(ctx context.Context, it *item) error {
	text, ok := it.File(enplace.ItemScriptName)
	if !ok {
		return nil
	}
	argv := []string{path.Join(it.place.Files(), enplace.ItemScriptName)}
	if !strings.HasPrefix(text, "#!") {
		argv = append([]string{"/bin/bash"}, argv...)
	}
	for try := 1; ; try++ {
		it.now.Error, it.now.ErrorTail, it.scripted = "", "", true
		e, err := p.run(ctx, sandbox.Command{Argv: argv, Env: p.env(it, p.scriptEnv(it)...), Dir: it.place.Files()})
		if err != nil {
			return err
		}
		if e.Background {
			it.addNote("setup.sh left background processes; they were ended")
		}
		if !e.ok() {
			why := p.common(e, enplace.ItemScriptName)
			p.refused(e) // whatever it fetched from
			if why == "" {
				why = fmt.Sprintf("%s ended with status %d", enplace.ItemScriptName, e.Code)
			}
			it.fail(&failure{why, e.printed})
			if err := p.mendPackages(ctx); err != nil { // for the next try, and for the items that come after
				return err
			}
		}
		took, err := p.survey(ctx, it)
		if err != nil || took || it.now.Error == "" || try == 2 || !e.mayTryAgain() {
			return err
		}
		p.note("%s of %s failed (%s) and is tried once more", it.Key, it.Scope, it.now.Error)
		if e, err := p.lay(ctx, it); err != nil || !e.ok() {
			return err
		}
	}
}

const goneScript = `for f; do [ -f "$f" ] && [ -x "$f" ] || printf '%s\0' "$f"; done`

// survey looks whether a script left the tools that were there before it. Those that it took are no longer installed, whosever
// they are; took reports that there are any.
func (p *pass) survey(ctx context.Context, it *item) (took bool, err error) {
	owner := map[string]*tool{}
	argv := []string{"/bin/sh", "-c", goneScript, "sh"}
	for _, i := range p.items {
		for _, t := range i.tools {
			for _, b := range t.bins {
				for _, c := range b.Commands {
					file := b.Dir + "/" + c
					owner[file] = t
					argv = append(argv, file)
				}
			}
		}
	}
	if len(owner) == 0 {
		return false, nil
	}
	out, _, err := p.ask(ctx, sandbox.Command{Argv: argv})
	if err != nil {
		return false, err
	}
	for _, file := range splitNUL(out) {
		if t := owner[file]; t != nil {
			t.bins, t.versions = nil, nil // which leaves it doubtful, whatever mise says
		}
	}
	for _, i := range p.items {
		for _, t := range i.tools {
			if t.whole() || t.failed != nil || i != it && !i.mute && i.now.Status != enplace.ItemInstalled {
				continue
			}
			t.failed = &failure{why: fmt.Sprintf("%s is gone since setup.sh of %s ran; it is installed again at the next try", t.name, it.Key)}
			i.failTools()
			it.addNote("setup.sh removed tools of the set")
			took = true
			if i != it {
				i.mute = false
				p.report(i, enplace.ItemFailed)
			}
		}
	}
	return took, nil
}

// mendScript finishes what a dpkg that was killed had begun. Without dpkg there is nothing to mend.
const mendScript = `command -v dpkg >/dev/null || exit 0; exec dpkg --force-confdef --force-confold --configure -a`

// mendPackages makes apt usable again after a script that was killed.
func (p *pass) mendPackages(ctx context.Context) error {
	env := sandbox.Env(nil, map[string]string{"DEBCONF_NONINTERACTIVE_SEEN": "true", "NEEDRESTART_MODE": "a"})
	_, err := p.run(ctx, sandbox.Command{Argv: []string{"/bin/sh", "-c", mendScript}, Env: env})
	return err
}
