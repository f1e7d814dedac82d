package task

import (
	"fmt"
	"strings"

	"enplace"
	"enplace/internal/store"
)

// instructions is what the agent reads at enplace.InstructionsPath: what is where, and what can be written.
func instructions(rec *store.TaskRecord) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Where you are")
	line("")
	if rec.Manifest == nil {
		line("This is a sandbox without a project. Work in %s: it is yours, and what you leave there is kept.", enplace.WorkDir)
	} else {
		root := enplace.EnvironmentPath(rec.Slug)
		line("- The project is at %s, also in $PROJECT_ROOT: version %d. It is read only, for root too, and its dependencies are installed.", root, *rec.Metadata.EnvironmentVersion)
		line("- Work in %s: it is yours alone, it is where commands start, and what you leave there is kept. To change or build the project, copy it: cp -r %s/. %s/", enplace.WorkDir, root, enplace.WorkDir)
		if v := rec.Manifest.Interpreters["python"]; v != "" {
			line("- `python3` is Python %s with the project's packages.", v)
		}
		if v := rec.Manifest.Interpreters["node"]; v != "" {
			line("- `node` is Node %s; `require` and `import` find the project's packages from any file in %s.", v, enplace.WorkDir)
		}
		line("- Packages belong to the environment: ask for one to be declared there and built. What you install here is gone with the task.")
		direct := map[enplace.Manager][]string{}
		for _, p := range rec.Manifest.Packages {
			if p.Direct {
				direct[p.Manager] = append(direct[p.Manager], p.Name+" "+p.Version)
			}
		}
		for _, m := range enplace.Managers {
			if len(direct[m]) > 0 {
				line("- Declared %s packages: %s.", m, strings.Join(direct[m], ", "))
			}
		}
	}
	line("- Caches and temporary files go to /tmp and your home, which are writable.")
	switch rec.Egress.Policy {
	case enplace.EgressNone:
		line("- There is no network.")
	case enplace.EgressAllowlist:
		line("- The network reaches these hosts only, through the proxy in $HTTPS_PROXY: %s.", strings.Join(rec.Egress.Hosts, ", "))
	default:
		line("- The network is reached through the proxy in $HTTPS_PROXY.")
	}
	line("- Limits: %d MiB of memory, %d MiB of disk, %s of time.", rec.Limits.MemoryMiB, rec.Limits.DiskMiB, rec.Limits.Timeout())
	if rec.Instructions != "" {
		line("")
		line("%s", rec.Instructions)
	}
	return b.String()
}
