package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"enplace"
)

// shimScript puts one tool into a sandbox twice, as mise has it and as Enplace has it, and times calls of it in turns: directly,
// through our shim, and through mise's. The tool is /bin/true, so that next to nothing but the shims is measured. It prints
// three lists of milliseconds.
const shimScript = `set -e
mkdir -p /opt/tool/bin /tmp/home && cp /bin/true /opt/tool/bin/node
export HOME=/tmp/home MISE_DATA_DIR=/tmp/mise MISE_GLOBAL_CONFIG_FILE=/tmp/home/config.toml MISE_HIDE_UPDATE_WARNING=1
{ mise link node@24.0.0 /opt/tool && mise use --global node@24.0.0 && mise reshim; } >&2
set_hash=$(printf 'a%.0s' {1..64})
printf '{"write": {"set": "%s", "commands": [{"name": "node", "target": "/opt/tool/bin/node", "item": "bench", "scope": "organisation"}]}}' $set_hash |
	/run/enplace/guest shims >&2
export ENPLACE_SET=$set_hash
cd /tmp/home && exec python3 -c '
import json, os, sys, time
sides = ["/opt/tool/bin/node", "/opt/mise/shims/node", "/tmp/mise/shims/node"]
took = [[], [], []]
for n in range(int(sys.argv[1]) + 1):
    for times, path in zip(took, sides):
        began = time.perf_counter()
        _, status = os.waitpid(os.posix_spawn(path, [path], os.environ), 0)
        if status:
            sys.exit(f"{path}: status {status}")
        if n:
            times.append((time.perf_counter() - began) * 1000)
print(json.dumps(took))' "$1"`

// shimRow measures what a shim costs beyond the tool itself, ours against mise's.
func shimRow(ctx context.Context, l *lab) ([]result, error) {
	harness, err := l.client.CreateHarness(ctx, enplace.CreateHarness{Name: "shims"})
	if err != nil {
		return nil, err
	}
	task, err := l.client.CreateTask(ctx, enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: harness.ID}})
	if err != nil {
		return nil, err
	}
	r, err := l.client.Exec(ctx, task.ID, enplace.ExecRequest{Command: []string{"bash", "-c", shimScript, "bash", fmt.Sprint(l.times(400, 100))}})
	if err != nil {
		return nil, err
	}
	var took [3][]float64
	if r.ExitCode != 0 {
		return nil, fmt.Errorf("the script in the sandbox: exit %d: %s", r.ExitCode, r.Stderr)
	}
	if err := json.Unmarshal([]byte(strings.TrimSpace(r.Stdout)), &took); err != nil {
		return nil, fmt.Errorf("reading %q: %w", r.Stdout, err)
	}
	for side := range took[1:] {
		for i, direct := range took[0] {
			took[side+1][i] -= direct
		}
	}
	if err := l.cancel(ctx, []string{task.ID}); err != nil {
		return nil, err
	}
	return []result{{What: "shim overhead", Against: "mise's shim", Unit: "ms", Ours: took[1], Theirs: took[2], Target: 0.15}}, nil
}
