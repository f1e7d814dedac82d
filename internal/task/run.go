package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"enplace"
	"enplace/internal/command"
	"enplace/internal/durable"
	"enplace/internal/image"
	"enplace/internal/sandbox"
	"enplace/internal/store"
	"enplace/internal/transcript"
)

// logWriter is what a task's output goes to.
type logWriter = *transcript.Writer

// run runs one admitted task to its end. The store may be about to take it, or to refuse it: then there is no task, and
// nothing of it is left.
func (s *Service) run(rec store.TaskRecord, place *live) {
	began := time.Now() // of the monotonic clock: it measures, and is no date
	log := s.cfg.Logger.With("task", rec.ID)
	defer place.cancel(nil)
	ctx, stopClock := context.WithTimeoutCause(place.ctx, rec.Limits.Timeout(), &enplace.Failure{
		Reason: enplace.ReasonTimeout, Message: fmt.Sprintf("the task ran for %s, its limit; everything it started was killed", rec.Limits.Timeout()),
		Fixes: []string{"give its harness a longer limits.timeout_seconds"},
	})
	defer stopClock()

	end, known := s.execute(ctx, &rec, place, began, log)
	if !known {
		s.forget(ctx, rec.ID, log)
		return
	}
	now := s.cfg.Now().UTC()
	s.record(ctx, rec.ID, log, func(t *store.TaskRecord) error {
		t.Status, t.ExitCode, t.Error, t.StartMS, t.EndedAt = end.status, end.code, end.failure, end.startMS, since(now, t)
		return nil
	})
	s.release(rec.ID)
	log.Info("task ended", "status", end.status, "start_ms", end.startMS)
}

// since gives the date of what happens to a task after all that its record has: a clock that was set back makes no task end before it
// began.
func since(now time.Time, t *store.TaskRecord) *time.Time {
	if t.StartedAt != nil && now.Before(*t.StartedAt) {
		now = *t.StartedAt
	}
	if now.Before(t.CreatedAt) {
		now = t.CreatedAt
	}
	return &now
}

// recordPause is how long a store that cannot take a record, as on a full disk, is left alone.
const recordPause = time.Second

// record keeps the end of a task, also when the server is closing. A store that cannot take it now is asked again until then: or
// the task would count as running until the next start.
func (s *Service) record(ctx context.Context, id string, log *slog.Logger, change func(*store.TaskRecord) error) {
	ctx = context.WithoutCancel(ctx)
	for first := true; ; first = false {
		save, done := context.WithTimeout(ctx, 30*time.Second)
		_, err := s.cfg.Store.UpdateTask(save, id, change)
		done()
		if err == nil {
			return
		}
		if first {
			log.Error("recording the end of a task", "err", err)
		}
		if errors.Is(err, store.ErrNotFound) {
			return
		}
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(recordPause):
		}
	}
}

// ending is how a task ended.
type ending struct {
	status  enplace.TaskStatus
	code    *int
	failure *enplace.Failure
	startMS float64
}

// forget drops what a task left that the store refused.
func (s *Service) forget(ctx context.Context, id string, log *slog.Logger) {
	clean, done := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer done()
	if err := errors.Join(s.cfg.Runtime.Discard(clean, id), transcript.Remove(s.logPath(id))); err != nil {
		log.Error("dropping a task that was not recorded", "err", err)
	}
	s.release(id)
}

// execute starts the sandbox, runs the command or holds it open, and stops it. It reports whether the store has the task.
func (s *Service) execute(ctx context.Context, rec *store.TaskRecord, place *live, began time.Time, log *slog.Logger) (end ending, known bool) {
	box, out, err := s.begin(ctx, rec)
	got := <-place.recorded
	known = got.err == nil
	if known && out != nil && !sameVersion(got.rec.Metadata, rec.Metadata) {
		// Another version became the active one meanwhile: the record counts, whatever became of this start.
		_ = s.stopBox(ctx, box, log) // nothing ran in it
		box, err = s.startBox(ctx, &got.rec)
	}
	if out != nil {
		defer s.closeLog(out, &end, log)
	}
	if !known || err != nil {
		_ = s.stopBox(ctx, box, log) // likewise
		close(place.ready)
		if known {
			end = s.notStarted(ctx, err, log)
		}
		return end, known
	}
	*rec = got.rec
	place.box, place.log, place.env = box, out, taskEnv(rec)
	close(place.ready)

	if rec.Open {
		end = s.holdOpen(ctx, box, began)
	} else {
		end = s.command(ctx, rec, box, out, place.env, began, log)
	}
	if err := s.stopBox(ctx, box, log); errors.Is(err, sandbox.ErrNotKept) && end.status == enplace.TaskSucceeded {
		end.status, end.failure = enplace.TaskFailed, &enplace.Failure{Reason: enplace.ReasonDisk,
			Message: "the command succeeded, and what it left could not be kept whole: the disk of the server is full, or broken",
			Fixes:   []string{"make room on the file system of the data directory, then start the task again"}}
	}
	return end, true
}

// sameVersion reports whether two records read the same version, by number as well: the sandbox is told it.
func sameVersion(a, b enplace.TaskMetadata) bool {
	if a.EnvironmentVersion == nil || b.EnvironmentVersion == nil {
		return a.EnvironmentVersion == b.EnvironmentVersion
	}
	return *a.EnvironmentVersion == *b.EnvironmentVersion && a.EnvironmentDigest == b.EnvironmentDigest
}

// begin opens the log and starts the sandbox. Along with an error it gives the log, if there is one.
func (s *Service) begin(ctx context.Context, rec *store.TaskRecord) (box sandbox.Sandbox, out logWriter, err error) {
	var group sync.WaitGroup
	var logErr error
	group.Go(func() { out, logErr = transcript.Create(s.logPath(rec.ID), enplace.MaxLogBytes, s.cfg.Redact.Lines()) })
	box, err = s.startBox(ctx, rec)
	group.Wait()
	if logErr != nil {
		return box, nil, errors.Join(fmt.Errorf("opening the log of a task: %w", logErr), err)
	}
	return box, out, err
}

func (s *Service) closeLog(out logWriter, end *ending, log *slog.Logger) {
	if end.failure != nil {
		out.Note("%s: %s", end.status, end.failure.Message)
	}
	if err := out.Close(); err != nil {
		log.Error("closing the log of a task", "err", err)
	}
}

func (s *Service) startBox(ctx context.Context, rec *store.TaskRecord) (sandbox.Sandbox, error) {
	spec, err := s.spec(rec)
	if err != nil {
		return nil, err
	}
	return s.cfg.Runtime.Start(ctx, spec)
}

func (s *Service) stopBox(ctx context.Context, box sandbox.Sandbox, log *slog.Logger) error {
	if box == nil {
		return nil
	}
	stop, done := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer done()
	err := box.Stop(stop)
	if err != nil {
		log.Error("stopping the sandbox of a task", "err", err)
	}
	return err
}

// spec is the sandbox of a task.
func (s *Service) spec(rec *store.TaskRecord) (sandbox.Spec, error) {
	spec := sandbox.Spec{ID: rec.ID, Limits: rec.Limits, Egress: rec.Egress, Keep: true}
	spec.Setup.Files = []sandbox.SetupFile{
		{Path: enplace.InstructionsPath, Content: []byte(instructions(rec)), Mode: 0o644},
		{Path: sandbox.EnvPath, Content: []byte(strings.Join(taskEnv(rec), "\x00")), Mode: 0o644},
		sandbox.LoginFile(),
	}
	if rec.Manifest == nil {
		b, ok := s.cfg.Base()
		if !ok {
			return spec, enplace.Errorf(enplace.KindUnavailable, "the base system is not there yet").WithFix("wait for /readyz, or run enplace base build on the server")
		}
		spec.Root = []enplace.Digest{b.Digest}
		return spec, nil
	}
	root := enplace.EnvironmentPath(rec.Slug)
	mount := sandbox.Mount{Path: root}
	spec.Root = []enplace.Digest{enplace.Digest(rec.Manifest.Base)}
	for _, m := range rec.Manifest.Images {
		if m.Mount == "/" {
			spec.Root = append(spec.Root, enplace.Digest(m.Digest))
		} else {
			mount.Images = append(mount.Images, enplace.Digest(m.Digest))
		}
	}
	spec.Mounts = []sandbox.Mount{mount}
	spec.Setup.ReadOnly = []string{root}
	if rec.Manifest.HasModules() {
		// Node looks for packages in the folders above the script, import as well as require: this one stands above /task, where
		// it is never among the files that the task leaves.
		spec.Setup.Links = []sandbox.SetupLink{{Path: "/node_modules", Target: root + "/node_modules"}}
	}
	return spec, nil
}

// taskEnv are the variables of a task's commands.
func taskEnv(rec *store.TaskRecord) []string {
	vars := map[string]string{"ENPLACE_TASK": rec.ID, "ENPLACE_INSTRUCTIONS": enplace.InstructionsPath}
	var bin []string
	if rec.Manifest != nil {
		root := enplace.EnvironmentPath(rec.Slug)
		bin = rec.Manifest.Bin(root)
		for name, value := range rec.Manifest.Vars(root) {
			vars[name] = value
		}
	}
	return sandbox.Env(bin, vars)
}

// command runs the harness's command and says how it ended.
func (s *Service) command(ctx context.Context, rec *store.TaskRecord, box sandbox.Sandbox, out logWriter, env []string, began time.Time, log *slog.Logger) (end ending) {
	both := out.Stream() // one for both, as on a terminal: what was printed first stands first
	defer both.Close()
	cmd := sandbox.Command{Argv: rec.Command, Env: env, Dir: enplace.WorkDir, Stdout: both, Stderr: both, Sole: true,
		Started: func() { end.startMS = float64(time.Since(began).Microseconds()) / 1000 }}
	if rec.Input != "" {
		cmd.Stdin = strings.NewReader(rec.Input)
	}
	exit, err := box.Exec(ctx, cmd)
	startMS := end.startMS
	if cause := s.cause(ctx); cause != nil {
		end = stopped(cause)
		end.startMS = startMS
		return end
	}
	if err != nil && !errors.Is(err, sandbox.ErrStopped) {
		end = s.notStarted(ctx, err, log)
		if status, _ := command.NotRun(err); status != 0 {
			end.code = &status
		}
		return end
	}
	if err != nil {
		exit.Code = 137
	}
	end = ending{status: enplace.TaskSucceeded, code: &exit.Code, startMS: startMS}
	stats, statErr := box.Stats(context.WithoutCancel(ctx))
	if statErr != nil {
		log.Warn("the use of a task is not known", "err", statErr)
	}
	if len(stats.Refused) > 0 {
		out.Note("the egress policy (%s) refused: %s", rec.Egress.Policy, strings.Join(stats.Refused[:min(10, len(stats.Refused))], ", "))
	}
	if exit.Code != 0 || err != nil {
		end.status, end.failure = enplace.TaskFailed, explain(rec, exit, stats)
	}
	return end
}

// explain says why a command failed: what the kernel did to it comes before its exit status.
func explain(rec *store.TaskRecord, exit sandbox.Exit, st sandbox.Stats) *enplace.Failure {
	switch {
	case st.OOMKills > 0:
		return &enplace.Failure{Reason: enplace.ReasonMemory, Message: fmt.Sprintf("the task needed more than its %d MiB of memory", rec.Limits.MemoryMiB),
			Fixes: []string{"give its harness a larger limits.memory_mib"}}
	case st.DiskLimitBytes > 0 && st.DiskUsedBytes > st.DiskLimitBytes-st.DiskLimitBytes/32:
		return &enplace.Failure{Reason: enplace.ReasonDisk, Message: fmt.Sprintf("the task filled its %d MiB of disk", rec.Limits.DiskMiB),
			Fixes: []string{"give its harness a larger limits.disk_mib"}}
	case exit.Signal != "":
		return &enplace.Failure{Reason: enplace.ReasonExit, Message: "the command was ended by SIG" + exit.Signal}
	}
	return &enplace.Failure{Reason: enplace.ReasonExit, Message: fmt.Sprintf("the command ended with status %d", exit.Code)}
}

// holdOpen keeps an open sandbox until it is cancelled, its time is up, or it stops by itself.
func (s *Service) holdOpen(ctx context.Context, box sandbox.Sandbox, began time.Time) ending {
	startMS := float64(time.Since(began).Microseconds()) / 1000
	select {
	case <-ctx.Done():
		end := stopped(s.cause(ctx))
		end.code, end.startMS = nil, startMS // it had no command of its own
		return end
	case <-box.Done():
		return ending{status: enplace.TaskFailed, startMS: startMS, failure: &enplace.Failure{Reason: enplace.ReasonExit, Message: "the sandbox stopped by itself"}}
	}
}

// cause gives the failure that stopped the task, or nil.
func (s *Service) cause(ctx context.Context) *enplace.Failure {
	var f *enplace.Failure
	if errors.As(context.Cause(ctx), &f) {
		return f
	}
	return nil
}

func stopped(f *enplace.Failure) ending {
	killed := 137
	end := ending{status: enplace.TaskFailed, failure: f, code: &killed}
	if f.Reason == enplace.ReasonCancelled {
		end.status = enplace.TaskCancelled
	}
	return end
}

// notStarted is the end of a task whose command never ran.
func (s *Service) notStarted(ctx context.Context, err error, log *slog.Logger) ending {
	if f := s.cause(ctx); f != nil {
		end := stopped(f)
		end.code = nil
		return end
	}
	var e *enplace.Error
	if errors.As(err, &e) && e.Kind != enplace.KindInternal {
		log.Warn("task not started", "err", err)
		reason := enplace.ReasonExit
		if durable.IsFull(err) {
			reason = enplace.ReasonDisk
		}
		return ending{status: enplace.TaskFailed, failure: &enplace.Failure{Reason: reason, Message: (&enplace.Error{Message: e.Message, Field: e.Field}).Error(), Fixes: e.Fixes}}
	}
	log.Error("task not started", "err", err)
	if errors.Is(err, image.ErrNotFound) { // as after a backup that left them out
		return ending{status: enplace.TaskFailed, failure: &enplace.Failure{Reason: enplace.ReasonInterrupted,
			Message: "an image of the version that the task reads is not on the server's disk", Fixes: []string{"build the environment again, or restore images/ of the data directory"}}}
	}
	return failedInside()
}

func failedInside() ending {
	return ending{status: enplace.TaskFailed, failure: &enplace.Failure{Reason: enplace.ReasonInterrupted,
		Message: "the server could not run the task; its log has the cause", Fixes: []string{"start the task again; if it stays, run enplace doctor on the server"}}}
}
