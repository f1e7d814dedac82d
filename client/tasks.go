package client

import (
	"context"
	"io"
	"time"

	"enplace"
)

const (
	harnesses = "harnesses"
	tasks     = "tasks"
)

// CreateHarness makes a harness.
func (c *Client) CreateHarness(ctx context.Context, in enplace.CreateHarness) (h enplace.Harness, err error) {
	return h, c.post(ctx, at(harnesses), in, &h)
}

// ListHarnesses gives the harnesses that the key can see, newest first.
func (c *Client) ListHarnesses(ctx context.Context, p enplace.Page) (l enplace.List[enplace.Harness], err error) {
	return l, c.get(ctx, at(harnesses), page(p), &l)
}

// Harness gives one harness.
func (c *Client) Harness(ctx context.Context, id string) (h enplace.Harness, err error) {
	return h, c.get(ctx, at(harnesses, id), nil, &h)
}

// DeleteHarness removes a harness; its tasks stay.
func (c *Client) DeleteHarness(ctx context.Context, id string) error {
	return c.delete(ctx, at(harnesses, id), nil)
}

// CreateTask starts a task.
func (c *Client) CreateTask(ctx context.Context, in enplace.CreateTask) (t enplace.Task, err error) {
	return t, c.post(ctx, at(tasks), in, &t)
}

// ListTasks gives the tasks that the key can see, newest first.
func (c *Client) ListTasks(ctx context.Context, f enplace.TaskQuery, p enplace.Page) (l enplace.List[enplace.Task], err error) {
	q := page(p)
	set(q, "harness", f.Harness)
	set(q, "environment", f.Environment)
	set(q, "status", string(f.Status))
	return l, c.get(ctx, at(tasks), q, &l)
}

// Task gives a task. With wait, it answers when the task ends or the time is up, at most enplace.MaxWait.
func (c *Client) Task(ctx context.Context, id string, wait time.Duration) (t enplace.Task, err error) {
	return t, c.get(ctx, at(tasks, id), waiting(wait), &t)
}

// WaitTask waits for a task to end, as long as ctx lets it.
func (c *Client) WaitTask(ctx context.Context, id string) (enplace.Task, error) {
	for {
		t, err := c.Task(ctx, id, time.Minute)
		if err != nil || t.Status.Ended() {
			return t, err
		}
	}
}

// CancelTask stops a task and everything it started.
func (c *Client) CancelTask(ctx context.Context, id string) (t enplace.Task, err error) {
	return t, c.post(ctx, at(tasks, id, "cancel"), nil, &t)
}

// TaskLog gives what a task printed so far. The caller closes it.
func (c *Client) TaskLog(ctx context.Context, id string) (io.ReadCloser, error) {
	return c.open(ctx, call{path: at(tasks, id, "log")})
}

// FollowTaskLog writes what a task prints to w as it comes, and gives the task's status when it has ended.
func (c *Client) FollowTaskLog(ctx context.Context, id string, w io.Writer) (enplace.TaskStatus, error) {
	status, err := c.follow(ctx, call{path: at(tasks, id, "log")}, w)
	return enplace.TaskStatus(status), err
}

// ListTaskFiles gives what lies in the task's working directory, ordered by path.
func (c *Client) ListTaskFiles(ctx context.Context, id string, p enplace.Page) (l enplace.List[enplace.WorkFile], err error) {
	return l, c.get(ctx, at(tasks, id, "files"), page(p), &l)
}

// OpenTaskFile gives the bytes of one file of the working directory. The caller closes it.
func (c *Client) OpenTaskFile(ctx context.Context, id, path string) (io.ReadCloser, error) {
	return c.open(ctx, call{path: below(at(tasks, id, "files"), path)})
}

// TaskArchive gives the working directory as a tar. The caller closes it.
func (c *Client) TaskArchive(ctx context.Context, id string) (io.ReadCloser, error) {
	return c.open(ctx, call{path: at(tasks, id, "archive")})
}

// Exec runs a command in an open sandbox and gives its output.
func (c *Client) Exec(ctx context.Context, id string, in enplace.ExecRequest) (r enplace.ExecResult, err error) {
	return r, c.post(ctx, at(tasks, id, "exec"), in, &r)
}

// ExecStream runs a command in an open sandbox and calls each with its output as it comes. The result holds no output. An
// error of each, or the end of ctx, kills the command.
func (c *Client) ExecStream(ctx context.Context, id string, in enplace.ExecRequest, each func(enplace.ExecEvent) error) (r enplace.ExecResult, err error) {
	err = streamExec(ctx, c, at(tasks, id, "exec"), in, func(e enplace.ExecEvent) (ended bool, err error) {
		switch {
		case e.Error != nil:
			return true, e.Error.Err()
		case e.Result != nil:
			r = *e.Result
			return true, nil
		}
		return false, each(e)
	})
	return r, err
}
