package task

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/store"
	"enplace/internal/transcript"
)

// Create records a task and starts it, or queues it when every place is taken. It reads the version that is active now,
// whatever is activated later.
func (s *Service) Create(ctx context.Context, c enplace.Caller, in enplace.CreateTask) (enplace.Task, error) {
	h, err := s.harness(ctx, c, access.Run, in.Metadata.Harness)
	if err != nil {
		return enplace.Task{}, err
	}
	rec, named, err := s.prepare(ctx, c, h, in)
	if err != nil {
		return enplace.Task{}, err
	}
	place, ok := s.reserve(rec.ID)
	if !ok && s.full() {
		return enplace.Task{}, enplace.Errorf(enplace.KindBusy, "%d tasks run and %d wait, the limits of this server; try again later", s.cfg.MaxRunning, s.cfg.MaxQueued)
	}
	if ok {
		now := rec.CreatedAt
		rec.Status, rec.StartedAt = enplace.TaskRunning, &now
	}
	draft := rec
	if ok { // the sandbox is made ready while the disk writes; run waits for the record before it runs the command
		s.done.Go(func() { s.run(draft, place) })
	}
	rec, err = s.cfg.Store.CreateTask(ctx, rec.Metadata.Environment, func(active enplace.Version, err error) (store.TaskRecord, error) {
		if named {
			return draft, nil
		}
		return pinned(draft, active, err)
	})
	if ok {
		place.recorded <- recorded{rec, err}
	}
	if named && errors.Is(err, store.ErrNotFound) { // deleted meanwhile
		err = noVersion(draft)
	}
	if err != nil {
		return enplace.Task{}, err
	}
	if !ok {
		s.enqueue(rec.ID)
		s.admit()
	}
	s.cfg.Audit.Record(ctx, c, "task.create", rec.ID, map[string]any{"harness": rec.Metadata.Harness, "environment": rec.Metadata.Environment, "version": rec.Metadata.EnvironmentVersion})
	return rec.Task, nil
}

// prepare makes the record of a task, with the version that is active now, or with the one that the request names.
func (s *Service) prepare(ctx context.Context, c enplace.Caller, h enplace.Harness, in enplace.CreateTask) (rec store.TaskRecord, named bool, err error) {
	if len(in.Input) > enplace.MaxInputBytes {
		return rec, false, enplace.TooLargef("has %d bytes; the limit is %d", len(in.Input), enplace.MaxInputBytes).WithField("input")
	}
	if err := in.Limits.Check(); err != nil {
		return rec, false, err
	}
	environment := in.Metadata.Environment
	if environment == "" {
		environment = h.Environment
	}
	now := s.cfg.Now().UTC()
	rec = store.TaskRecord{
		Task: enplace.Task{
			ID: enplace.NewID(enplace.PrefixTask, now), Status: enplace.TaskQueued, Open: len(h.Command) == 0, Owner: c.Name(), CreatedAt: now,
			Limits:   in.Limits.Or(h.Limits).Or(enplace.DefaultTaskLimits),
			Metadata: enplace.TaskMetadata{Harness: h.ID, Environment: environment},
		},
		Command: h.Command, Instructions: h.Instructions, Egress: enplace.Egress{Policy: enplace.EgressNone}, Input: in.Input,
	}
	if h.Egress != nil {
		rec.Egress = *h.Egress
	}
	n := in.Metadata.EnvironmentVersion
	if environment == "" {
		if n != nil {
			return rec, false, enplace.Invalidf("goes with an environment only").WithField("metadata.environment_version")
		}
		return rec, false, nil
	}
	through := ""
	if h.Environment == environment {
		through = h.ID
	}
	e, err := s.environment(ctx, c, access.Read, environment, through)
	if err != nil {
		return rec, false, err
	}
	rec.Slug = e.Slug
	v, err := enplace.Version{}, store.ErrNotFound
	if n != nil {
		v, err = s.cfg.Store.Version(ctx, environment, *n)
		if errors.Is(err, store.ErrNotFound) {
			rec.Metadata.EnvironmentVersion = n
			return rec, false, noVersion(rec)
		}
	} else if e.ActiveVersion != nil {
		v, err = s.cfg.Store.Version(ctx, environment, *e.ActiveVersion)
	}
	rec, err = pinned(rec, v, err)
	return rec, n != nil, err
}

func noVersion(rec store.TaskRecord) error {
	return enplace.Invalidf("the environment has no version %d", *rec.Metadata.EnvironmentVersion).WithField("metadata.environment_version").WithFix("list its versions")
}

// pinned completes a record with the version that it will read, whatever happens to the environment later.
func pinned(rec store.TaskRecord, v enplace.Version, err error) (store.TaskRecord, error) {
	if rec.Metadata.Environment == "" {
		return rec, nil
	}
	if errors.Is(err, store.ErrNotFound) {
		return rec, enplace.Conflictf("the environment %s has no version yet, so there is nothing to run on", rec.Slug).
			WithFix("build it: enplace env build %s, or POST /v1/environments/%s/build", rec.Slug, rec.Metadata.Environment)
	}
	if err != nil {
		return rec, err
	}
	rec.Metadata.EnvironmentVersion, rec.Metadata.EnvironmentDigest, rec.Manifest = &v.N, v.Digest, needed(v.Manifest)
	return rec, nil
}

// needed is the part of a manifest that a task needs: with all packages it may be megabytes, and it is written at each change
// of the record.
func needed(m enplace.Manifest) *enplace.Manifest {
	n := enplace.Manifest{Base: m.Base, Images: m.Images, Snapshot: m.Snapshot, Interpreters: m.Interpreters, Env: m.Env, Commit: m.Commit}
	for _, p := range m.Packages {
		if p.Direct {
			n.Packages = append(n.Packages, enplace.ResolvedPackage{Manager: p.Manager, Name: p.Name, Version: p.Version, Direct: true})
		}
	}
	return &n
}

// reserve takes a place for a task, unless all are taken or others wait.
func (s *Service) reserve(id string) (*live, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started || len(s.live) >= s.cfg.MaxRunning || len(s.waiting) > 0 {
		return nil, false
	}
	return s.place(id), true
}

// enqueue lets a task wait for a place, unless Start has found it in the store.
func (s *Service) enqueue(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[id] == nil && !slices.Contains(s.waiting, id) {
		s.waiting = append(s.waiting, id)
	}
}

func (s *Service) place(id string) *live {
	l := &live{ready: make(chan struct{}), recorded: make(chan recorded, 1)}
	l.ctx, l.cancel = context.WithCancelCause(s.ctx)
	s.live[id] = l
	return l
}

func (s *Service) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) >= s.cfg.MaxQueued
}

func (s *Service) release(id string) {
	s.mu.Lock()
	delete(s.live, id)
	s.mu.Unlock()
	s.hub.Notify(id)
	s.admit()
}

// admit gives free places to waiting tasks, oldest first.
func (s *Service) admit() {
	for s.ctx.Err() == nil {
		id, place := s.next()
		if place == nil {
			return
		}
		rec, err := s.take(id)
		if err != nil {
			if s.ctx.Err() == nil && !errors.Is(err, store.ErrConflict) {
				s.cfg.Logger.Error("admitting a task", "task", id, "err", err)
				time.AfterFunc(admitAgain, func() { s.enqueue(id); s.admit() })
			}
			s.mu.Lock()
			delete(s.live, id)
			s.mu.Unlock()
			close(place.ready)
			s.hub.Notify(id)
			continue
		}
		place.recorded <- recorded{rec: rec}
		s.done.Go(func() { s.run(rec, place) })
		s.hub.Notify(id) // those who wait for its log or its sandbox
	}
}

// admitAgain is when a task is looked at again that the store could not set running.
const admitAgain = time.Second

// next gives a place to the task that has waited longest; nil when there is no place, or nobody waits.
func (s *Service) next() (string, *live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started || len(s.waiting) == 0 || len(s.live) >= s.cfg.MaxRunning {
		return "", nil
	}
	id := s.waiting[0]
	s.waiting = s.waiting[1:]
	return id, s.place(id)
}

// take sets a queued task running, and gives it with its input. ErrConflict when it was cancelled meanwhile.
func (s *Service) take(id string) (store.TaskRecord, error) {
	full, err := s.cfg.Store.Task(s.ctx, id)
	if err != nil {
		return full, err
	}
	now := s.cfg.Now().UTC()
	rec, err := s.cfg.Store.UpdateTask(s.ctx, id, func(t *store.TaskRecord) error {
		if t.Status != enplace.TaskQueued {
			return store.ErrConflict
		}
		t.Status, t.StartedAt = enplace.TaskRunning, since(now, t)
		return nil
	})
	rec.Input = full.Input // an update does not load it
	return rec, err
}

// List gives the tasks that the caller may know of, newest first.
func (s *Service) List(ctx context.Context, c enplace.Caller, f enplace.TaskQuery, p enplace.Page) (enplace.List[enplace.Task], error) {
	sf := store.TaskFilter{Harness: f.Harness, Environment: f.Environment, Status: f.Status}
	out := enplace.List[enplace.Task]{Items: []enplace.Task{}}
	switch c.Kind {
	case enplace.KeyPerson:
		sf.Owner = c.Name()
	case enplace.KeyHarness:
		if f.Harness != "" && f.Harness != c.Subject {
			return out, nil
		}
		sf.Harness = c.Subject
	case enplace.KeyAgent:
		rec, err := s.load(ctx, c, access.Read, c.Subject)
		if err == nil && matches(rec.Task, f) {
			out.Items = append(out.Items, rec.Task)
		}
		return out, nil
	}
	l, err := s.cfg.Store.ListTasks(ctx, sf, p)
	for _, rec := range l.Items {
		out.Items = append(out.Items, rec.Task)
	}
	out.Next = l.Next
	return out, err
}

// matches reports whether a query lets a task through.
func matches(t enplace.Task, f enplace.TaskQuery) bool {
	return (f.Harness == "" || f.Harness == t.Metadata.Harness) && (f.Environment == "" || f.Environment == t.Metadata.Environment) &&
		(f.Status == "" || f.Status == t.Status)
}

// Get gives a task, once it has ended or when the wait is over.
func (s *Service) Get(ctx context.Context, c enplace.Caller, id string, wait time.Duration) (enplace.Task, error) {
	rec, err := s.load(ctx, c, access.Read, id)
	if err != nil || wait <= 0 || rec.Status.Ended() {
		return rec.Task, err
	}
	err = s.hub.Until(ctx, id, min(wait, enplace.MaxWait), func() (bool, error) {
		var err error
		rec, err = s.cfg.Store.Task(ctx, id)
		return rec.Status.Ended(), err
	})
	return rec.Task, err
}

// Cancel stops a task with everything it started, and gives it once it has stopped.
func (s *Service) Cancel(ctx context.Context, c enplace.Caller, id string) (enplace.Task, error) {
	if _, err := s.load(ctx, c, access.Write, id); err != nil {
		return enplace.Task{}, err
	}
	now, was := s.cfg.Now().UTC(), enplace.TaskQueued
	// The record first: it says whether the task has left the queue, and one that is final there is never admitted.
	_, err := s.cfg.Store.UpdateTask(ctx, id, func(t *store.TaskRecord) error {
		if was = t.Status; was != enplace.TaskQueued {
			return store.ErrConflict
		}
		t.Status, t.Error, t.EndedAt = enplace.TaskCancelled, errCancelled, since(now, t)
		return nil
	})
	switch {
	case err == nil:
		s.unqueue(id)
		s.hub.Notify(id)
	case !errors.Is(err, store.ErrConflict):
		return enplace.Task{}, err
	case was.Ended():
		return enplace.Task{}, enplace.Conflictf("the task has ended: %s", was)
	default:
		s.mu.Lock()
		l := s.live[id]
		s.mu.Unlock()
		if l != nil {
			l.cancel(errCancelled)
		}
	}
	s.cfg.Audit.Record(ctx, c, "task.cancel", id, nil)
	return s.Get(ctx, c, id, 30*time.Second)
}

func (s *Service) unqueue(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(w string) bool { return w == id })
}

// Log opens the log of a task, waiting for one that is queued to start. The caller closes the reader.
func (s *Service) Log(ctx context.Context, c enplace.Caller, id string) (*transcript.Reader, error) {
	rec, err := s.load(ctx, c, access.Read, id)
	if err != nil {
		return nil, err
	}
	if rec.Purged {
		return nil, purged(rec)
	}
	if !rec.Status.Ended() {
		if _, err := s.await(ctx, id); err != nil {
			return nil, err
		}
	}
	r, err := transcript.Open(s.logPath(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil, enplace.NotFoundf("the task ended before it had a log")
	}
	return r, err
}

func purged(rec store.TaskRecord) error {
	return enplace.NotFoundf("the log and files of task %s were collected; they are kept for a limited time", rec.ID)
}

// await gives a running task once its sandbox is there. Of one that ended it gives nil; one that goes on waiting for a place is
// an error.
func (s *Service) await(ctx context.Context, id string) (*live, error) {
	var l *live
	ended := false
	err := s.hub.Until(ctx, id, enplace.MaxWait, func() (bool, error) {
		s.mu.Lock()
		l = s.live[id]
		s.mu.Unlock()
		if l != nil {
			return true, nil
		}
		rec, err := s.cfg.Store.Task(ctx, id)
		ended = rec.Status.Ended()
		return ended, err
	})
	if err == nil && l == nil && !ended {
		err = enplace.Conflictf("the task still waits for a place").WithFix("try again later, or cancel another task")
	}
	if err != nil || l == nil {
		return nil, err
	}
	select {
	case <-l.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l.box == nil {
		return nil, nil
	}
	return l, nil
}
