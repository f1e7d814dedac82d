package main

import (
	"context"

	"golang.org/x/sync/errgroup"

	"enplace"
)

// manyAlive is how many tasks the design names.
const manyAlive = 200

// aliveRow measures starts beside 1 and beside 200 tasks that are alive, in turns.
func aliveRow(ctx context.Context, l *lab) ([]result, error) {
	harness, err := l.clockHarness(ctx)
	if err != nil {
		return nil, err
	}
	open, err := l.client.CreateHarness(ctx, enplace.CreateHarness{Name: "open", Environment: l.project.id})
	if err != nil {
		return nil, err
	}
	var few, many []float64
	alive, err := l.openTasks(ctx, open.ID, 1)
	for range l.times(2, 1) {
		if err == nil {
			few, err = l.starts(ctx, harness, few)
		}
		var others []string
		if err == nil {
			l.progress("alive: opening %d tasks", manyAlive-1)
			others, err = l.openTasks(ctx, open.ID, manyAlive-1)
		}
		if err == nil {
			many, err = l.starts(ctx, harness, many)
		}
		if err == nil {
			err = l.cancel(ctx, others)
		}
	}
	if err == nil {
		err = l.cancel(ctx, alive)
	}
	if err != nil {
		return nil, err
	}
	return []result{{What: "task start with 200 tasks alive", Against: "with 1 task alive", Unit: "ms", Ours: many, Theirs: few, Target: 1.5}}, nil
}

// starts adds samples of startTask.
func (l *lab) starts(ctx context.Context, harness string, to []float64) ([]float64, error) {
	got, err := inTurns(l.times(20, 8), []func(int) (float64, error){func(int) (float64, error) { return l.startTask(ctx, harness) }})
	if err != nil {
		return nil, err
	}
	return append(to, got[0]...), nil
}

// openTasks opens sandboxes and returns when a command has run in each.
func (l *lab) openTasks(ctx context.Context, harness string, n int) ([]string, error) {
	ids := make([]string, n)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i := range ids {
		g.Go(func() error {
			t, err := l.client.CreateTask(ctx, enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: harness}})
			if err == nil {
				ids[i] = t.ID
				_, err = l.client.Exec(ctx, t.ID, enplace.ExecRequest{Command: []string{"true"}})
			}
			return err
		})
	}
	return ids, g.Wait()
}

func (l *lab) cancel(ctx context.Context, ids []string) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, id := range ids {
		g.Go(func() error {
			_, err := l.client.CancelTask(ctx, id)
			return err
		})
	}
	return g.Wait()
}
