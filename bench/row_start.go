package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"enplace"
)

// rest is how long each measurement leaves the machine alone afterwards, so that what one leaves to be done, such as making
// the next sandbox ahead or removing a container, is not counted to the next.
const rest = 300 * time.Millisecond

// startRow measures from a client's request for a task to the first instruction of its command, against what it takes
// others to run a program on the bare base.
func startRow(ctx context.Context, l *lab) ([]result, error) {
	harness, err := l.clockHarness(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.mountRoot(ctx); err != nil {
		return nil, err
	}
	plain, err := l.runcBundle(ctx, "plain", false)
	if err != nil {
		return nil, err
	}
	mapped, err := l.runcBundle(ctx, "mapped", true)
	if err != nil {
		return nil, err
	}
	sides := []func(n int) (float64, error){
		func(int) (float64, error) { return l.startTask(ctx, harness) },
		func(n int) (float64, error) { return timed(ctx, plain(n)) },
		func(n int) (float64, error) { return timed(ctx, mapped(n)) },
		func(int) (float64, error) { return timed(ctx, l.bwrap()) },
	}
	got, err := inTurns(l.times(40, 10), sides)
	if err != nil {
		return nil, err
	}
	const what = "task start to first instruction, 1 GB in place"
	return []result{
		{What: what, Against: "runc run, bare base", Unit: "ms", Ours: got[0], Theirs: got[1], Target: 0.25},
		{What: what, Against: "runc run, bare base, user namespace", Unit: "ms", Ours: got[0], Theirs: got[2]},
		{What: what, Against: "bwrap, bare base", Unit: "ms", Ours: got[0], Theirs: got[3]},
	}, nil
}

// inTurns measures each side after the other, n times, and once before that does not count.
func inTurns(n int, sides []func(n int) (float64, error)) ([][]float64, error) {
	got := make([][]float64, len(sides))
	for i := range n + 1 {
		for s, side := range sides {
			v, err := side(i)
			if err != nil {
				return nil, err
			}
			if i > 0 {
				got[s] = append(got[s], v)
			}
			time.Sleep(rest)
		}
	}
	return got, nil
}

// clockHarness makes a harness that runs the clock in the environment of 1 GB.
func (l *lab) clockHarness(ctx context.Context) (string, error) {
	p, err := l.inPlace(ctx)
	if err != nil {
		return "", err
	}
	h, err := l.client.CreateHarness(ctx, enplace.CreateHarness{
		Name: "clock", Environment: p.id, Command: []string{enplace.EnvironmentPath(p.slug) + "/clock"},
	})
	return h.ID, err
}

// startTask starts a task that runs the clock and gives the milliseconds from before the request to its first instruction.
func (l *lab) startTask(ctx context.Context, harness string) (float64, error) {
	began := monotonic()
	t, err := l.client.CreateTask(ctx, enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: harness}})
	if err != nil {
		return 0, err
	}
	if t, err = l.client.WaitTask(ctx, t.ID); err != nil {
		return 0, err
	}
	if t.Status != enplace.TaskSucceeded {
		return 0, fmt.Errorf("task %s: %s: %w", t.ID, t.Status, t.Error)
	}
	log, err := l.client.TaskLog(ctx, t.ID)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	printed, err := io.ReadAll(log)
	if err != nil {
		return 0, err
	}
	return sinceFirst(printed, began)
}
