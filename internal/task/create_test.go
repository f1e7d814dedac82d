package task

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"enplace"
	"enplace/internal/audit"
	"enplace/internal/base"
	"enplace/internal/egress"
	"enplace/internal/image"
	"enplace/internal/redact"
	"enplace/internal/sandbox/oci"
	"enplace/internal/sandbox/sandboxtest"
	"enplace/internal/store"
	"enplace/internal/store/sqlite"
)

// meddled is a store to which something happens just before it takes a task.
type meddled struct {
	store.Store
	before func() error
	update func() error // the same, before a task is changed
}

func (m *meddled) UpdateTask(ctx context.Context, id string, change func(*store.TaskRecord) error) (store.TaskRecord, error) {
	if m.update != nil {
		if err := m.update(); err != nil {
			return store.TaskRecord{}, err
		}
	}
	return m.Store.UpdateTask(ctx, id, change)
}

func (m *meddled) CreateTask(ctx context.Context, env string, pin func(enplace.Version, error) (store.TaskRecord, error)) (store.TaskRecord, error) {
	if m.before != nil {
		if err := m.before(); err != nil {
			return store.TaskRecord{}, err
		}
	}
	return m.Store.CreateTask(ctx, env, pin)
}

// house is a service on a real store and real sandboxes, with an environment and a harness that shows its one file.
type house struct {
	*Service
	store   *meddled
	images  *image.Store
	base    enplace.Digest
	env     string
	harness string
}

var operator = enplace.Caller{Kind: enplace.KeyOperator}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := buildHouse(t, 0)
	check(t, h.Service.Start(t.Context()))
	return h
}

// buildHouse gives a house that is not started yet, with places for that many tasks.
func buildHouse(t *testing.T, places int) *house {
	t.Helper()
	if os.Getuid() != 0 {
		sandboxtest.Absent(t, "sandboxes need root")
	}
	dir, quiet := t.TempDir(), slog.New(slog.DiscardHandler)
	images := must(image.Open(filepath.Join(dir, "images")))(t)
	bundle := filepath.Join(dir, "ca.crt")
	sandboxtest.BuildGuest(t, dir)
	check(t, os.WriteFile(bundle, []byte("--- a certificate ---\n"), 0o644))
	rt, err := oci.New(t.Context(), oci.Config{Dir: filepath.Join(dir, "sandboxes"), Guest: dir, Images: images, CABundle: bundle, PoolMax: -1,
		Egress: egress.New(egress.Config{Logger: quiet}), Logger: quiet})
	if enplace.KindOf(err) == enplace.KindUnavailable {
		sandboxtest.Absent(t, "%v", err)
	}
	check(t, err)
	check(t, rt.Recover(t.Context(), func(string) bool { return false }))
	st := must(sqlite.Open(t.Context(), filepath.Join(dir, "db")))(t)
	h := &house{store: &meddled{Store: st}, images: images, base: sandboxtest.Base(t, images)[0], env: enplace.NewID(enplace.PrefixEnvironment, time.Now())}
	h.Service = New(Config{Store: h.store, Runtime: rt, Base: func() (base.Base, bool) { return base.Base{}, false },
		Audit: audit.New(st, quiet, time.Now), Redact: redact.New(), Logger: quiet, Now: time.Now, LogDir: filepath.Join(dir, "logs"), MaxRunning: places})
	t.Cleanup(func() {
		h.Close()
		check(t, rt.Close(context.Background()))
		check(t, errors.Join(st.Close(), images.Close()))
	})
	check(t, st.CreateEnvironment(t.Context(), enplace.Environment{ID: h.env, Name: "Demo", Slug: "demo", Path: "/env/demo", Owner: "operator"}))
	made := must(h.CreateHarness(t.Context(), operator, enplace.CreateHarness{Name: "cat", Environment: h.env, Command: []string{"/bin/cat", "/env/demo/file"}}))(t)
	h.harness = made.ID
	return h
}

// build makes the next version, with that text in its file, and makes it the active one.
func (h *house) build(t *testing.T, text string) int {
	t.Helper()
	ctx, now := context.Background(), time.Now()
	root := t.TempDir()
	check(t, os.WriteFile(filepath.Join(root, "file"), []byte(text), 0o644))
	info := must(h.images.PackDir(ctx, root, image.DirOptions{}))(t)
	must(h.store.QueueBuild(ctx, h.env, "operator", now, func(enplace.Environment, []enplace.TreeEntry, store.TreeInfo) (store.BuildSpec, error) {
		e, err := h.store.Environment(ctx, h.env)
		return store.BuildSpec{Slug: "demo", Active: e.ActiveVersion}, err
	}))(t)
	rec, _, err := h.store.ClaimBuild(ctx, "worker", now, time.Hour)
	check(t, err)
	end := rec.Build
	end.Status, end.EndedAt = enplace.BuildSucceeded, &now
	b, _, err := h.store.FinishBuild(ctx, h.env, rec.N, end, &enplace.Version{
		VersionSummary: enplace.VersionSummary{Build: rec.N, Digest: "of " + string(info.Digest), CreatedAt: now}, Environment: h.env,
		Manifest: enplace.Manifest{Base: string(h.base), Images: []enplace.ManifestImage{{Step: enplace.StepSnapshot, Digest: string(info.Digest), Mount: "/env/demo"}}},
	})
	check(t, err)
	return *b.Version
}

func (h *house) create(ctx context.Context) (enplace.Task, error) {
	return h.Create(ctx, operator, enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: h.harness}})
}

// A sandbox is made ready while the store takes the task. When another version becomes the active one in that moment, the
// task reads the version that its record names.
func TestActivatedWhileRecorded(t *testing.T) {
	h := newHouse(t)
	h.build(t, "old")
	second := 0
	h.store.before = func() error { second = h.build(t, "new"); return nil }
	task := must(h.create(t.Context()))(t)
	task = must(h.Get(t.Context(), operator, task.ID, time.Minute))(t)
	if task.Status != enplace.TaskSucceeded || *task.Metadata.EnvironmentVersion != second {
		t.Fatalf("the task ended as %+v, and was to read version %d", task, second)
	}
	r := must(h.Log(t.Context(), operator, task.ID))(t)
	defer r.Close()
	if text := must(io.ReadAll(r))(t); string(text) != "new\n" {
		t.Errorf("it read %q", text)
	}
}

// Of a task that the store refuses nothing runs and nothing is left.
func TestRefusedByTheStore(t *testing.T) {
	h := newHouse(t)
	h.build(t, "text")
	refused := errors.New("the disk is full")
	h.store.before = func() error { return refused }
	if _, err := h.create(t.Context()); !errors.Is(err, refused) {
		t.Fatalf("the error is %v", err)
	}
	h.Close() // returns when all that was begun is undone
	if left := h.cfg.Runtime.List(); len(left) > 0 {
		t.Errorf("sandboxes are left: %v", left)
	}
	logs := must(os.ReadDir(h.cfg.LogDir))(t)
	if len(logs) > 0 {
		t.Errorf("logs are left: %v", logs)
	}
	if n := len(h.live); n > 0 {
		t.Errorf("%d places are taken", n)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must gives a value, or ends the test with the error.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		check(t, err)
		return v
	}
}
