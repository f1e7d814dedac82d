package faulttest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"enplace"
	"enplace/enplacetest"
)

// built makes an environment with one file and a first version.
func built(ctx context.Context, t *testing.T, srv *enplacetest.Server, name string) (enplace.Environment, enplace.Harness, enplace.Version) {
	t.Helper()
	e, err := srv.Client.CreateEnvironment(ctx, enplace.CreateEnvironment{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := srv.Client.PutFile(ctx, e.ID, "data", strings.NewReader(strings.Repeat("content ", 10_000)), false); err != nil {
		t.Fatal(err)
	}
	b, err := srv.Client.StartBuild(ctx, e.ID)
	if err == nil {
		b, err = srv.Client.WaitBuild(ctx, e.ID, b.N)
	}
	if err != nil || b.Version == nil {
		t.Fatalf("%+v %v", b, err)
	}
	v, err := srv.Client.Version(ctx, e.ID, *b.Version)
	if err != nil {
		t.Fatal(err)
	}
	h, err := srv.Client.CreateHarness(ctx, enplace.CreateHarness{Name: "cat", Environment: e.ID, Command: []string{"sh", "-c", "wc -c < $PROJECT_ROOT/data"}})
	if err != nil {
		t.Fatal(err)
	}
	return e, h, v
}

func run(ctx context.Context, t *testing.T, srv *enplacetest.Server, h enplace.Harness) enplace.Task {
	t.Helper()
	task, err := srv.Client.CreateTask(ctx, enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: h.ID}})
	if err == nil {
		task, err = srv.Client.WaitTask(ctx, task.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// One bit of an image that turned on the disk: nothing of it is served, the task says what happened, and a build mends it.
func TestFlippedBit(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	srv := enplacetest.Start(t)
	e, h, v := built(ctx, t, srv, "Flipped")
	if task := run(ctx, t, srv, h); task.Status != enplace.TaskSucceeded {
		t.Fatalf("%+v", task)
	}
	srv.Stop()
	image := v.Manifest.Images[0].Digest
	path := filepath.Join(srv.Data, "images", "sha256", enplace.Digest(image).Hex())
	bytes, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bytes[len(bytes)/2] ^= 1
	if err := os.WriteFile(path, bytes, 0o600); err != nil {
		t.Fatal(err)
	}
	srv.Restart()
	task := run(ctx, t, srv, h)
	if task.Status != enplace.TaskFailed || task.Error == nil || !strings.Contains(task.Error.Message, "damaged") || task.ExitCode != nil {
		t.Errorf("%+v %+v", task, task.Error)
	}
	b, err := srv.Client.StartBuild(ctx, e.ID)
	if err == nil {
		b, err = srv.Client.WaitBuild(ctx, e.ID, b.N)
	}
	if err != nil || b.Status != enplace.BuildSucceeded {
		t.Fatalf("building again: %+v %v", b, err)
	}
	if task := run(ctx, t, srv, h); task.Status != enplace.TaskSucceeded {
		t.Errorf("after building again: %+v %+v", task, task.Error)
	}
}

// An index that is down or answers nonsense: a declaration is accepted unchecked, the build fails and says why, and the version
// before stays the active one.
func TestRegistryDownOrAnsweringNonsense(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	nonsense := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("\x00<html>{]")) // to a client that may have gone
	}))
	defer nonsense.Close()
	srv := enplacetest.Start(t, "--allow-address", "127.0.0.1")
	e, h, _ := built(ctx, t, srv, "Registry")
	for name, index := range map[string]string{"nonsense": nonsense.URL + "/simple", "down": "http://127.0.0.1:9/simple"} {
		pip := []string{"six"}
		if _, err := srv.Client.UpdateEnvironment(ctx, e.ID, enplace.UpdateEnvironment{PipIndexURL: &index, Packages: &enplace.PackageLists{Pip: &pip}}); err != nil {
			t.Errorf("%s: declaring: %v", name, err)
		}
		b, err := srv.Client.StartBuild(ctx, e.ID)
		if err == nil {
			b, err = srv.Client.WaitBuild(ctx, e.ID, b.N)
		}
		if err != nil || b.Status != enplace.BuildFailed || b.Error == nil || b.Error.Step != enplace.StepPython {
			t.Errorf("%s: %+v %+v %v", name, b, b.Error, err)
		}
		log, err := readAll(srv.Client.BuildLog(ctx, e.ID, b.N))
		if err != nil || !strings.Contains(log, "127.0.0.1") && !strings.Contains(log, "six") {
			t.Errorf("%s: the log does not say what failed: %v\n%s", name, err, log)
		}
		if task := run(ctx, t, srv, h); task.Status != enplace.TaskSucceeded || *task.Metadata.EnvironmentVersion != 1 {
			t.Errorf("%s: %+v %+v", name, task, task.Error)
		}
	}
}
