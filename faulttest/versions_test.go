package faulttest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"enplace"
	"enplace/enplacetest"
)

// readersVar says how many tasks read: ENPLACE_READERS=50 go test ./faulttest -run OldVersion -v
const readersVar = "ENPLACE_READERS"

// reader reads all there is of a version again and again until it is told to stop: names, kinds, modes and bytes by new opens, the
// bytes behind descriptors and mappings that it holds since the beginning, and what Python imports. It prints the hash of each
// round, so that a log has one line for as long as nothing changed.
const reader = `
import hashlib, importlib, mmap, os, sys, time
root = os.environ["PROJECT_ROOT"]
sys.path.insert(0, root)
held = []
for folder, _, files in sorted(os.walk(root)):
    for name in sorted(files):
        f = open(os.path.join(folder, name), "rb")
        held.append((f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) if os.fstat(f.fileno()).st_size else b""))
def look():
    h = hashlib.sha256()
    for folder, folders, files in sorted(os.walk(root, onerror=lambda e: (_ for _ in ()).throw(e))):
        for name in sorted(folders + files):
            path = os.path.join(folder, name)
            st = os.lstat(path)
            h.update(f"{path} {st.st_mode} {st.st_size} {st.st_mtime_ns}\n".encode())
            if name in files:
                with open(path, "rb") as f:
                    h.update(f.read())
    for f, mapping in held:
        f.seek(0)
        h.update(f.read() + mapping[:])
    importlib.invalidate_caches()
    for m in [m for m in sys.modules if m.startswith("pkg")]:
        del sys.modules[m]
    import pkg.sub
    h.update(pkg.sub.WORD.encode())
    return h.hexdigest()
first, rounds = look(), 1
open("reading", "w").close()
while not os.path.exists("/tmp/stop") or rounds < 3:
    if look() != first:
        sys.exit("what it reads has changed")
    rounds += 1
    time.sleep(0.05)
print("same", first, flush=True)
`

// TestOldVersionUnderReaders has many tasks read a version while it is replaced, deactivated, deleted, its environment built anew
// and deleted, and everything collected that nothing needs. None of them may see anything of it; then its images are gone too.
func TestOldVersionUnderReaders(t *testing.T) {
	t.Parallel()
	readers := number(t, readersVar, 12)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	srv := enplacetest.Start(t, "--collect-every", "200ms", "--step-retention", "1ms", "--tasks", fmt.Sprint(max(readers+4, 20)))
	e, old := readable(ctx, t, srv)
	h, err := srv.Client.CreateHarness(ctx, enplace.CreateHarness{Name: "reader", Environment: e.ID, Command: []string{"python3", "-"}, Limits: enplace.Limits{MemoryMiB: 256}})
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, readers)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			task, err := srv.Client.CreateTask(ctx, enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: h.ID}, Input: reader})
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = task.ID
			for { // a file of its own says so
				if _, err := readAll(srv.Client.OpenTaskFile(ctx, task.ID, "reading")); err == nil {
					return
				}
				if task, err = srv.Client.Task(ctx, task.ID, 100*time.Millisecond); err != nil || task.Status.Ended() {
					t.Errorf("%+v %+v %v", task, task.Error, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	change(ctx, t, srv, e, *old.Version)
	age(t, srv.Data)
	time.Sleep(time.Second) // several collections, beside the readers
	for _, id := range ids {
		wg.Go(func() {
			if _, err := srv.Client.Exec(ctx, id, enplace.ExecRequest{Command: []string{"touch", "/tmp/stop"}}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	said := map[string]int{}
	for _, id := range ids {
		task, err := srv.Client.WaitTask(ctx, id)
		log, _ := readAll(srv.Client.TaskLog(ctx, id))
		if err != nil || task.Status != enplace.TaskSucceeded {
			t.Errorf("%s: %s %+v %v\n%s", id, task.Status, task.Error, err, log)
		}
		said[log]++
	}
	if len(said) != 1 {
		t.Errorf("%d readers read different things: %v", readers, said)
	}
	unneeded(ctx, t, srv)
}

// readable makes an environment with some hundred files and a module of Python, and its first version.
func readable(ctx context.Context, t *testing.T, srv *enplacetest.Server) (enplace.Environment, enplace.Build) {
	t.Helper()
	e, err := srv.Client.CreateEnvironment(ctx, enplace.CreateEnvironment{Name: "Read"})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"pkg/__init__.py": "", "pkg/sub.py": "WORD = 'old'\n", "empty": ""}
	for i := range 200 {
		files[fmt.Sprintf("d%d/e/f%d", i%7, i)] = strings.Repeat(fmt.Sprintf("%d old ", i), 1+i*20)
	}
	if _, err := srv.Client.Import(ctx, e.ID, tarOf(files), false); err != nil {
		t.Fatal(err)
	}
	return e, buildNow(ctx, t, srv, e.ID)
}

func buildNow(ctx context.Context, t *testing.T, srv *enplacetest.Server, id string) enplace.Build {
	t.Helper()
	b, err := srv.Client.StartBuild(ctx, id)
	if err == nil {
		b, err = srv.Client.WaitBuild(ctx, id, b.N)
	}
	if err != nil || b.Version == nil {
		t.Fatalf("building: %+v %+v %v", b, b.Error, err)
	}
	return b
}

// change does to an environment all that could take a version away.
func change(ctx context.Context, t *testing.T, srv *enplacetest.Server, e enplace.Environment, old int) {
	t.Helper()
	try := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		age(t, srv.Data)
	}
	_, err := srv.Client.Import(ctx, e.ID, tarOf(map[string]string{"pkg/__init__.py": "", "pkg/sub.py": "WORD = 'new'\n", "d1/e/f1": "new"}), false)
	try("importing", err)
	second := buildNow(ctx, t, srv, e.ID)
	_, err = srv.Client.Activate(ctx, e.ID, old)
	try("activating the old version", err)
	_, err = srv.Client.Activate(ctx, e.ID, *second.Version)
	try("activating the new version", err)
	try("deleting the old version", srv.Client.DeleteVersion(ctx, e.ID, old))
	_, _, err = srv.Client.PutFile(ctx, e.ID, "d2/e/f2", strings.NewReader("newer"), false)
	try("editing", err)
	buildNow(ctx, t, srv, e.ID)
	try("deleting the environment", srv.Client.DeleteEnvironment(ctx, e.ID))
	again, err := srv.Client.CreateEnvironment(ctx, enplace.CreateEnvironment{Name: e.Name})
	try("making another of the same path", err)
	_, err = srv.Client.Import(ctx, again.ID, tarOf(map[string]string{"pkg/__init__.py": "", "pkg/sub.py": "WORD = 'other'\n"}), false)
	try("importing into it", err)
	buildNow(ctx, t, srv, again.ID)
	try("deleting that one", srv.Client.DeleteEnvironment(ctx, again.ID))
}

// age makes every image look as if nobody had used it for long, as collections spare what is new.
func age(t *testing.T, data string) {
	t.Helper()
	images, err := filepath.Glob(filepath.Join(data, "images", "sha256", "*"))
	if err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-2 * time.Hour)
	for _, path := range images {
		_ = os.Chtimes(path, long, long) // it may be collected just now
	}
}

// unneeded waits until collections have left nothing but the base.
func unneeded(ctx context.Context, t *testing.T, srv *enplacetest.Server) {
	t.Helper()
	for {
		age(t, srv.Data)
		left, err := filepath.Glob(filepath.Join(srv.Data, "images", "sha256", "*"))
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 1 {
			return
		}
		select {
		case <-ctx.Done():
			t.Errorf("what nothing needs is still there: %v", left)
			return
		case <-time.After(50 * time.Millisecond): // it collects by itself, and tells nobody
		}
	}
}
