package faulttest

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"enplace"
	"enplace/enplacetest"
)

// Variables that ask for long runs: ENPLACE_TASKS=1000 ENPLACE_OPEN=400 go test ./faulttest -run Load -timeout 1h -v
const (
	tasksVar = "ENPLACE_TASKS"
	openVar  = "ENPLACE_OPEN"
)

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestLoadTasks runs many tasks, fifty at a time, each with a secret of its own, and looks for anyone's secret anywhere else.
func TestLoadTasks(t *testing.T) {
	const at = 50
	tasks := number(t, tasksVar, 120)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	srv := enplacetest.Start(t)
	h, err := srv.Client.CreateHarness(ctx, enplace.CreateHarness{Name: "sh", Command: []string{"sh", "-s"}, Limits: enplace.Limits{MemoryMiB: 256}})
	if err != nil {
		t.Fatal(err)
	}
	run := func(n int) error {
		secret := fmt.Sprintf("secret-%d-%d", n, time.Now().UnixNano())
		task, err := srv.Client.CreateTask(ctx, enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: h.ID},
			Input: "echo " + secret + " | tee mine /tmp/mine /root/mine; ls /task /tmp /root; ps ax | grep -c init"})
		if err != nil {
			return err
		}
		if task, err = srv.Client.WaitTask(ctx, task.ID); err != nil {
			return err
		}
		if task.Status != enplace.TaskSucceeded {
			return fmt.Errorf("%s: %s %+v", task.ID, task.Status, task.Error)
		}
		log, err := readAll(srv.Client.TaskLog(ctx, task.ID))
		if err != nil {
			return err
		}
		if strings.Count(log, "secret-") != 1 || !strings.Contains(log, secret) {
			return fmt.Errorf("%s saw %q; its own secret is %s", task.ID, log, secret)
		}
		mine, err := readAll(srv.Client.OpenTaskFile(ctx, task.ID, "mine"))
		if strings.TrimSpace(mine) != secret {
			return fmt.Errorf("%s left %q (%v); its own secret is %s", task.ID, mine, err, secret)
		}
		return nil
	}
	first := serverMemory(t, srv.Data)
	start := time.Now()
	queue := make(chan int)
	var wg sync.WaitGroup
	for range at {
		wg.Go(func() {
			for n := range queue {
				if err := run(n); err != nil {
					t.Error(err)
				}
			}
		})
	}
	half := int64(0)
	for n := range tasks {
		queue <- n
		if n == tasks/2 {
			half = serverMemory(t, srv.Data)
		}
	}
	close(queue)
	wg.Wait()
	last := serverMemory(t, srv.Data)
	t.Logf("%d tasks, %d at once, in %s; server memory %d, %d, %d MiB at start, half way and end", tasks, at, time.Since(start).Round(time.Second), first>>20, half>>20, last>>20)
	if last > half+half/2+64<<20 {
		t.Errorf("the server's memory grew from %d to %d MiB over the second half", half>>20, last>>20)
	}
	srv.Stop()
	nothingLeft(t, srv.Data)
}

// TestLoadOpen holds many open sandboxes at once, and measures what they take of the machine's memory.
func TestLoadOpen(t *testing.T) {
	open := number(t, openVar, 40)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	srv := enplacetest.Start(t, "--tasks", fmt.Sprint(open))
	h, err := srv.Client.CreateHarness(ctx, enplace.CreateHarness{Name: "open"})
	if err != nil {
		t.Fatal(err)
	}
	before := available(t)
	start := time.Now()
	ids := make(chan string, open)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range open / 8 {
				task, err := srv.Client.CreateTask(ctx, enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: h.ID}})
				if err != nil {
					t.Error(err)
					return
				}
				if r, err := srv.Client.Exec(ctx, task.ID, enplace.ExecRequest{Command: []string{"true"}}); err != nil || r.ExitCode != 0 {
					t.Errorf("%+v %v", r, err)
				}
				ids <- task.ID
			}
		})
	}
	wg.Wait()
	close(ids)
	took := before - available(t)
	t.Logf("%d open sandboxes in %s take %d MiB, %.1f MiB each", len(ids), time.Since(start).Round(time.Second), took>>20, float64(took)/(1<<20)/float64(len(ids)))
	if each := took / int64(max(len(ids), 1)); each > (6<<30)/400 {
		t.Errorf("an idle sandbox takes %d KiB; 400 of them are to stay within 6 GiB", each>>10)
	}
	for id := range ids {
		wg.Go(func() {
			if _, err := srv.Client.CancelTask(ctx, id); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	srv.Stop()
	nothingLeft(t, srv.Data)
}

func readAll(r io.ReadCloser, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), err
}

// serverMemory gives the resident bytes of the server that uses a data directory.
func serverMemory(t *testing.T, data string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", serverPID(t, data)))
	if err != nil {
		t.Fatal(err)
	}
	return field(t, string(status), "VmRSS:")
}

// available gives the bytes of memory that the machine has left.
func available(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	return field(t, string(b), "MemAvailable:")
}

// field reads a number of KiB from a file of /proc, as bytes.
func field(t *testing.T, text, name string) int64 {
	t.Helper()
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatalf("no %s", name)
	return 0
}
