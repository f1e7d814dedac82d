package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"enplace"
)

// pythonList is what the row installs, large and small packages together.
var pythonList = []string{"numpy==2.2.6", "pandas==2.2.3", "requests==2.32.3", "rich==13.9.4", "pytest==8.3.4"}

// pythonRow measures the Python step of a build against `uv pip install` of the same list, typed into an open sandbox of the
// same base: the same interpreter, uv, registry and limits. Both have every download at hand. It is stated also against uv
// told to do what the step does: copy files instead of linking them to the cache, and compile them.
func pythonRow(ctx context.Context, l *lab) ([]result, error) {
	p, err := l.newProject(ctx, "python", tree{}, pythonList)
	if err != nil {
		return nil, err
	}
	if _, _, err := l.build(ctx, p); err != nil { // fills its cache
		return nil, err
	}
	h, err := l.client.CreateHarness(ctx, enplace.CreateHarness{
		Name: "uv", Egress: &enplace.Egress{Policy: enplace.EgressOpen}, Limits: enplace.Limits{MemoryMiB: 4096, CPUs: 4, DiskMiB: 10240},
	})
	if err != nil {
		return nil, err
	}
	ids, err := l.openTasks(ctx, h.ID, 1)
	if err != nil {
		return nil, err
	}
	order := 0
	got, err := inTurns(l.times(5, 2), []func(int) (float64, error){
		func(int) (float64, error) {
			order++
			return l.pythonStep(ctx, p, permuted(pythonList, order))
		},
		func(int) (float64, error) { return l.plainUV(ctx, ids[0]) },
		func(int) (float64, error) { return l.plainUV(ctx, ids[0], "--link-mode=copy", "--compile-bytecode") },
	})
	if err != nil {
		return nil, err
	}
	const what = "Python step, warm cache"
	return []result{
		{What: what, Against: "uv pip install", Unit: "ms", Ours: got[0], Theirs: got[1], Target: 1.3},
		{What: what, Against: "uv pip install, copying and compiling", Unit: "ms", Ours: got[0], Theirs: got[2]},
	}, l.cancel(ctx, ids)
}

// pythonStep builds with the list and gives how long the Python step took.
func (l *lab) pythonStep(ctx context.Context, p project, list []string) (float64, error) {
	_, err := l.client.UpdateEnvironment(ctx, p.id, enplace.UpdateEnvironment{Packages: &enplace.PackageLists{Pip: &list}})
	if err != nil {
		return 0, err
	}
	b, _, err := l.build(ctx, p)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(b.Steps, func(s enplace.BuildStep) bool { return s.Name == enplace.StepPython })
	if i < 0 || b.Steps[i].Cached {
		return 0, fmt.Errorf("build %d did not run the Python step", b.N)
	}
	return float64(b.Steps[i].ElapsedMS), nil
}

// plainUV installs the packages into a new venv in the sandbox and gives how long the installation took.
func (l *lab) plainUV(ctx context.Context, task string, flags ...string) (float64, error) {
	run := func(argv ...string) (float64, error) {
		began := time.Now()
		r, err := l.client.Exec(ctx, task, enplace.ExecRequest{Command: argv, Env: map[string]string{"UV_CACHE_DIR": "/task/cache"}})
		if err == nil && r.ExitCode != 0 {
			err = fmt.Errorf("%s: %s", argv[0], r.Stderr)
		}
		return millis(time.Since(began)), err
	}
	if _, err := run("uv", "venv", "--clear", "/task/venv"); err != nil {
		return 0, err
	}
	return run(slices.Concat([]string{"uv", "pip", "install", "--python", "/task/venv"}, flags, pythonList)...)
}
