package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"enplace"
	"enplace/internal/sandbox"
	"enplace/internal/store"
	"enplace/internal/transcript"
)

// Run is one build being run. Its methods are called from one goroutine, but for Warn.
type Run struct {
	store.BuildRecord
	Log *transcript.Writer

	q        *Queue
	mu       sync.Mutex
	steps    []enplace.BuildStep
	step     string
	started  time.Time
	warnings []string
	boxes    int
}

// open gives a claimed build its log, unless its environment was deleted in that moment: nobody would remove the log.
func (q *Queue) open(ctx context.Context, rec store.BuildRecord) (*Run, error) {
	if _, err := q.cfg.Store.Build(ctx, rec.Environment, rec.N); errors.Is(err, store.ErrNotFound) {
		return nil, errGone
	}
	path := q.logPath(rec.Environment, rec.N)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of logs: %w", err)
	}
	log, err := transcript.Create(path, enplace.MaxLogBytes, q.cfg.Redact.Lines())
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	r := &Run{BuildRecord: rec, Log: log, q: q}
	for _, name := range enplace.Steps {
		r.steps = append(r.steps, enplace.BuildStep{Name: name, Status: enplace.StepPending})
	}
	return r, nil
}

// Outcome is how a step ended when it did not fail.
type Outcome string

// The outcomes.
const (
	Ran     Outcome = "ran"
	Cached  Outcome = "cached"  // every part of it was in the step cache
	Skipped Outcome = "skipped" // there was nothing to do
)

// Step runs one step of the build and records how long it took and how it ended.
func (r *Run) Step(ctx context.Context, name string, do func(ctx context.Context) (Outcome, error)) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	start := time.Now() // measures, and is no date
	r.mu.Lock()
	r.step, r.started = name, start
	r.mu.Unlock()
	r.record(ctx, name, func(s *enplace.BuildStep) { s.Status = enplace.StepRunning })
	r.Log.Note("step %s", name)

	outcome, err := do(ctx)
	var failed *enplace.Failure
	if errors.As(err, &failed) && failed.Step == "" && context.Cause(ctx) == nil { // a cause is shared by all builds
		failed.Step = name
	}
	took := time.Since(start).Milliseconds()
	r.record(ctx, name, func(s *enplace.BuildStep) {
		s.ElapsedMS = took
		switch {
		case err != nil:
			s.Status = enplace.StepFailed
		case outcome == Skipped:
			s.Status = enplace.StepSkipped
		default:
			s.Status, s.Cached = enplace.StepSucceeded, outcome == Cached
		}
	})
	if err == nil {
		r.Log.Note("step %s: %s in %s", name, outcome, elapsed(took))
	}
	return err
}

// record changes one step here and in the store. A store that does not answer does not stop the build.
func (r *Run) record(ctx context.Context, name string, change func(*enplace.BuildStep)) {
	r.mu.Lock()
	i := slices.IndexFunc(r.steps, func(s enplace.BuildStep) bool { return s.Name == name })
	change(&r.steps[i])
	steps, warnings := slices.Clone(r.steps), slices.Clone(r.warnings)
	r.mu.Unlock()
	_, err := r.q.cfg.Store.UpdateBuild(context.WithoutCancel(ctx), r.Environment, r.N, func(b *enplace.Build) {
		b.Step, b.Steps, b.Warnings = name, steps, warnings
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) { // deleted: Abandon comes
		r.q.cfg.Logger.Error("recording a step", "environment", r.Environment, "build", r.N, "step", name, "err", err)
	}
	r.q.hub.Notify(key(r.Environment, r.N))
}

// closeSteps ends the step that was cut off, and gives what the record keeps.
func (r *Run) closeSteps(f *enplace.Failure) ([]enplace.BuildStep, string, []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.steps {
		if s := &r.steps[i]; s.Status == enplace.StepRunning {
			s.Status, s.ElapsedMS = enplace.StepFailed, time.Since(r.started).Milliseconds()
		}
	}
	if f != nil && f.Step == "" {
		f.Step = r.step
	}
	return r.steps, r.step, r.warnings
}

// Durations gives the milliseconds of each step so far.
func (r *Run) Durations() map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := map[string]int64{}
	for _, s := range r.steps {
		if s.Status == enplace.StepSucceeded {
			d[s.Name] = s.ElapsedMS
		}
	}
	return d
}

// Bounds of warnings, which repeat what packages say of themselves.
const (
	maxWarnings     = 100
	maxWarningBytes = 2000
)

// Warn adds a warning to the build, its version and its log. Beyond a hundred they are dropped.
func (r *Run) Warn(format string, args ...any) {
	w := enplace.Shown(fmt.Sprintf(format, args...), maxWarningBytes)
	r.mu.Lock()
	known := slices.Contains(r.warnings, w) || len(r.warnings) >= maxWarnings
	if !known {
		r.warnings = append(r.warnings, w)
	}
	r.mu.Unlock()
	if !known {
		r.Log.Note("warning: %s", w)
	}
}

// Warnings gives the warnings so far.
func (r *Run) Warnings() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.warnings)
}

// Layer is work whose result is an image, or findings without one.
type Layer struct {
	// Key is everything that the result depends on. It is hashed as JSON; the same key is never run twice while its result is
	// kept.
	Key any
	// Spec is the sandbox: its id, and the limits that it leaves out, are filled in.
	Spec sandbox.Spec
	// Run does the work and gives the findings, kept as JSON.
	Run func(ctx context.Context, sh *Shell) (findings any, err error)
	// Capture is the path whose writable layer becomes the image; empty for none.
	Capture string
	// Below, where it is set, is asked when the layer is run, and gives an image that lies below what Run writes at Capture, under
	// whatever Spec mounts there. The image that the layer gives has it in it.
	Below func(ctx context.Context) (enplace.Digest, error)
	// Exclude refuses paths of what was written; nil refuses none. It is asked of every path while the layer is captured.
	Exclude func(path string) bool
}

// Layer gives the result of a layer, from the step cache or by running it. Findings are decoded into found, a pointer or nil.
func (r *Run) Layer(ctx context.Context, l Layer, found any) (store.StepResult, Outcome, error) {
	hash, err := hashKey(l.Key)
	if err != nil {
		return store.StepResult{}, "", fmt.Errorf("encoding the key of a layer: %w", err)
	}
	res, err := r.cached(ctx, hash)
	outcome := Cached
	if errors.Is(err, store.ErrNotFound) {
		outcome = Ran
		res, err = r.runLayer(ctx, l, hash)
	}
	if err != nil {
		return store.StepResult{}, "", err
	}
	if found != nil && len(res.Data) > 0 {
		if err := json.Unmarshal(res.Data, found); err != nil {
			return store.StepResult{}, "", fmt.Errorf("decoding the findings of a layer: %w", err)
		}
	}
	return res, outcome, nil
}

// cached gives a kept result whose image is still there and whole.
func (r *Run) cached(ctx context.Context, hash string) (store.StepResult, error) {
	res, err := r.q.cfg.Store.CachedStep(ctx, hash, r.q.cfg.Now())
	if err != nil || res.Image == "" {
		return res, err
	}
	if err := r.q.cfg.Images.Verify(ctx, res.Image); err != nil {
		r.q.cfg.Logger.Warn("a cached layer cannot be used and is made again", "image", res.Image, "err", err)
		return store.StepResult{}, store.ErrNotFound
	}
	return res, nil
}

func hashKey(key any) (string, error) {
	raw, err := json.Marshal(key)
	return string(enplace.DigestOf(raw)), err
}

// Remember keeps a value, as JSON, beside the results of layers: under a key of the same kind, and for as long. It keeps no image.
func (r *Run) Remember(ctx context.Context, key, value any) error {
	hash, err := hashKey(key)
	if err != nil {
		return fmt.Errorf("encoding what a value is kept by: %w", err)
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding a value to keep: %w", err)
	}
	return r.q.cfg.Store.PutStep(ctx, hash, store.StepResult{Data: data}, r.q.cfg.Now())
}

// Recall gives what was last remembered under the key, and false where nothing was.
func (r *Run) Recall(ctx context.Context, key, into any) (bool, error) {
	hash, err := hashKey(key)
	if err != nil {
		return false, fmt.Errorf("encoding what a value is kept by: %w", err)
	}
	res, err := r.q.cfg.Store.CachedStep(ctx, hash, r.q.cfg.Now())
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, json.Unmarshal(res.Data, into)
}

// startBox starts the sandbox of a layer, with the image that lies below at the bottom of what is captured.
func (r *Run) startBox(ctx context.Context, l *Layer) (box sandbox.Sandbox, below enplace.Digest, err error) {
	if l.Below != nil {
		if below, err = l.Below(ctx); err != nil {
			return nil, "", err
		}
		l.Spec.Mounts = slices.Clone(l.Spec.Mounts)
		for i := range l.Spec.Mounts {
			if m := &l.Spec.Mounts[i]; m.Path == l.Capture {
				m.Images = append([]enplace.Digest{below}, m.Images...)
			}
		}
	}
	r.boxes++
	l.Spec.ID = fmt.Sprintf("build_%s_%d_%d", r.Environment, r.N, r.boxes)
	l.Spec.Limits = l.Spec.Limits.Or(r.q.cfg.Limits)
	if box, err = r.q.cfg.Runtime.Start(ctx, l.Spec); err != nil {
		return nil, "", fmt.Errorf("starting the sandbox of a step: %w", err)
	}
	return box, below, nil
}

func (r *Run) stopBox(ctx context.Context, box sandbox.Sandbox) {
	if err := box.Stop(context.WithoutCancel(ctx)); err != nil {
		r.q.cfg.Logger.Error("stopping the sandbox of a step", "sandbox", box.ID(), "err", err)
	}
}

// runLayer runs a layer in a sandbox of its own. One that has done its work is stopped behind the step's end, as what it wrote to
// its cache may take a while to reach the disk; whoever needs that cache waits for it, and so does Close.
func (r *Run) runLayer(ctx context.Context, l Layer, hash string) (res store.StepResult, err error) {
	box, below, err := r.startBox(ctx, &l)
	if err != nil {
		return store.StepResult{}, err
	}
	defer func() {
		if err != nil {
			r.stopBox(ctx, box)
			return
		}
		r.q.done.Go(func() { r.stopBox(ctx, box) })
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if l.Capture != "" {
		go watchSize(ctx, cancel, box, l.Capture, l.Exclude)
	}

	sh := &Shell{run: r, box: box, limits: l.Spec.Limits}
	findings, err := l.Run(ctx, sh)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		return store.StepResult{}, err
	}
	if res.Data, err = json.Marshal(findings); err != nil {
		return store.StepResult{}, fmt.Errorf("encoding the findings of a layer: %w", err)
	}
	if l.Capture != "" {
		info, err := box.Capture(ctx, l.Capture, below, l.Exclude)
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause
		}
		if err != nil {
			return store.StepResult{}, fmt.Errorf("capturing %s: %w", l.Capture, err)
		}
		res.Image, res.Bytes = info.Digest, info.Bytes
	}
	if err := r.q.cfg.Store.PutStep(ctx, hash, res, r.q.cfg.Now()); err != nil {
		return store.StepResult{}, fmt.Errorf("keeping the result of a layer: %w", err)
	}
	return res, nil
}
