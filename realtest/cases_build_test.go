package realtest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"enplace"
	"enplace/enplacetest"
)

// installing gives a tree whose installation runs a script.
func installing(script string) map[string]string {
	return map[string]string{
		"package.json":        packageJSON(map[string]string{"script": "file:./script"}),
		"script/package.json": `{"name": "script", "version": "1.0.0", "scripts": {"postinstall": "bash run.sh"}}`,
		"script/run.sh":       "set -e\n" + script + "\n",
	}
}

// Case 50: a build says why it failed, changes nothing, and keeps its log.
func TestCase50ReasonsOfFailedBuilds(t *testing.T) {
	t.Parallel()
	small := enplacetest.Start(t, "--build-memory=512", "--build-disk=300")
	for name, c := range map[string]struct {
		script string
		reason enplace.Reason
		says   string
	}{
		"Exit":   {"echo something broke >&2; exit 3", enplace.ReasonExit, "npm ended with status 3"},
		"Memory": {`python3 -c 'a = bytearray(3 << 30); print(len(a))'`, enplace.ReasonMemory, "needed more than the 512 MiB of memory"},
		"Disk":   {"dd if=/dev/zero of=/tmp/fill bs=1M count=1000", enplace.ReasonDisk, "filled the 300 MiB of disk"},
		"Limit":  {"truncate -s 1700M big; sleep 60", enplace.ReasonLimit, "the version grew to 1700 MiB; the limit is 1536 MiB. Largest: "},
	} {
		t.Run(name, func(t *testing.T) {
			files := installing(c.script)
			if name == "Limit" { // into what is kept
				files["script/run.sh"] = "cd $INIT_CWD/node_modules\n" + c.script + "\n"
			}
			e := newEnvOn(t, small, enplace.CreateEnvironment{Name: "Small " + name}, files)
			f, log := e.fail()
			if f.Reason != c.reason || f.Step != enplace.StepNPM {
				t.Errorf("failure: %+v\n%s", f, log)
			}
			want(t, f.Message, c.says)
			want(t, log, "[enplace] step npm", "[enplace] failed: ")
			got, err := small.Client.Environment(t.Context(), e.ID)
			if err != nil || got.ActiveVersion != nil || len(got.Versions) != 0 {
				t.Errorf("the failed build left %v, %v", got.Versions, err)
			}
		})
	}
}

func TestCase50BuildThatRunsTooLong(t *testing.T) {
	t.Parallel()
	short := enplacetest.Start(t, "--build-timeout=20")
	e := newEnvOn(t, short, enplace.CreateEnvironment{Name: "Long"}, installing("echo started; sleep 300"))
	within(t, time.Minute, func() {
		f, log := e.fail()
		if f.Reason != enplace.ReasonTimeout || f.Step != enplace.StepNPM {
			t.Errorf("failure: %+v", f)
		}
		want(t, f.Message, "the build ran for 20s, the limit")
		want(t, log, "started")
	})
}

// A failed build leaves the version before it in place; the next good one follows it; a cached step is not run again.
func TestCase50BuildsInTurn(t *testing.T) {
	t.Parallel()
	e := newEnv(t, enplace.CreateEnvironment{Name: "In turn"}, installing("date +%N > $INIT_CWD/node_modules/when"))
	e.put("notes.txt", "one")
	b, _ := e.build()
	when := e.run(e.task(), "cat $PROJECT_ROOT/node_modules/when")
	e.put("script/run.sh", "echo waiting; sleep 300\n")
	n := e.start().N
	e.waitLog(n, "waiting")
	_, err := e.srv.Client.StartBuild(t.Context(), e.ID)
	if enplace.KindOf(err) != enplace.KindConflict || !strings.Contains(err.Error(), fmt.Sprintf("build %d of this environment is running", n)) {
		t.Errorf("a second build: %v", err)
	}
	// Case 51: what is edited now is of the next build.
	e.put("notes.txt", "two")
	if _, err := e.srv.Client.CancelBuild(t.Context(), e.ID, n); err != nil {
		t.Fatal(err)
	}
	cancelled, log := e.end(n)
	if cancelled.Status != enplace.BuildCancelled || cancelled.Error.Reason != enplace.ReasonCancelled {
		t.Errorf("cancelled: %+v", cancelled)
	}
	want(t, log, "waiting", "[enplace] cancelled: the build was cancelled")
	got, err := e.srv.Client.Environment(t.Context(), e.ID)
	if err != nil || got.ActiveVersion == nil || *got.ActiveVersion != *b.Version {
		t.Errorf("the active version is %v, %v", got.ActiveVersion, err)
	}

	e.put("script/run.sh", installing("date +%N > $INIT_CWD/node_modules/when")["script/run.sh"])
	e.put("notes.txt", "one")
	again, _ := e.build()
	for _, s := range again.Steps {
		if s.Status == enplace.StepSucceeded && !s.Cached && s.Name != enplace.StepSeal {
			t.Errorf("%s ran again", s.Name)
		}
	}
	if got := e.run(e.task(), "cat $PROJECT_ROOT/node_modules/when"); got != when {
		t.Errorf("the script ran again: %s, %s", when, got)
	}
}

// waitLog follows the log of a build until it has a line.
func (e *env) waitLog(n int, line string) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), 2*time.Minute)
	defer cancel()
	seen := &until{line: line, cancel: cancel}
	_, _ = e.srv.Client.FollowBuildLog(ctx, e.ID, n, seen) // ended by the line
	if !seen.found {
		e.Fatalf("the log never said %q", line)
	}
}

type until struct {
	line   string
	text   strings.Builder
	cancel func()
	found  bool
}

func (u *until) Write(p []byte) (int, error) {
	u.text.Write(p)
	if strings.Contains(u.text.String(), "\n"+u.line) {
		u.found = true
		u.cancel()
	}
	return len(p), nil
}

func TestCase50ServerKilledWhileItBuilds(t *testing.T) {
	t.Parallel()
	srv := enplacetest.Start(t)
	e := newEnvOn(t, srv, enplace.CreateEnvironment{Name: "Killed"}, installing("echo waiting; sleep 300"))
	n := e.start().N
	e.waitLog(n, "waiting")
	srv.Kill()
	srv.Restart()
	b, log := e.end(n)
	if b.Status != enplace.BuildInterrupted || b.Error == nil || b.Error.Reason != enplace.ReasonInterrupted {
		t.Errorf("after a restart: %+v", b)
	}
	want(t, log, "waiting")
	e.put("script/run.sh", "true\n")
	e.build()
}

// Case 26, of builds: what an install script asks for goes through the proxy, which names what it refused.
func TestCase26HostsThatABuildMayNotReach(t *testing.T) {
	t.Parallel()
	only := enplace.Egress{Policy: enplace.EgressAllowlist, Hosts: []string{"registry.npmjs.org"}}
	e := newEnv(t, enplace.CreateEnvironment{Name: "Allowlist", Egress: &only}, installing("curl -fsS https://example.org/tool"))
	f, _ := e.fail()
	if f.Reason != enplace.ReasonEgress || f.Step != enplace.StepNPM {
		t.Errorf("failure: %+v", f)
	}
	want(t, f.Message, "example.org")
	// An address inside is refused whatever the policy.
	inside := serve(t, http.NotFoundHandler())
	open := newEnv(t, enplace.CreateEnvironment{Name: "Inside"}, installing("curl -fsS http://169.254.169.254/latest/meta-data; curl -fsS "+strings.Replace(inside, registryAddress, "127.0.0.3", 1)))
	f, _ = open.fail()
	if f.Reason != enplace.ReasonEgress {
		t.Errorf("failure: %+v", f)
	}
	want(t, f.Message, "169.254.169.254")
}

// A running task keeps the version it started with, also when another is made active and its own is deleted.
func TestCase51VersionsUnderRunningTasks(t *testing.T) {
	t.Parallel()
	e := newEnv(t, enplace.CreateEnvironment{Name: "Versions"}, map[string]string{"a.txt": "one", "old/b.txt": "b"})
	first, _ := e.build()
	old := e.task()
	e.run(old, "exec 3< $PROJECT_ROOT/a.txt; cat <&3")
	e.put("a.txt", "two")
	if err := e.srv.Client.DeleteFile(t.Context(), e.ID, "old"); err != nil {
		t.Fatal(err)
	}
	e.build()
	if err := e.srv.Client.DeleteVersion(t.Context(), e.ID, *first.Version); err != nil {
		t.Fatal(err)
	}
	if got := e.run(old, "cat $PROJECT_ROOT/a.txt $PROJECT_ROOT/old/b.txt"); got != "oneb" {
		t.Errorf("the running task reads %q", got)
	}
	if got := e.run(e.task(), "cat $PROJECT_ROOT/a.txt; ls $PROJECT_ROOT"); got != "twoa.txt" {
		t.Errorf("a new task reads %q", got)
	}
	// Case 36: nobody writes there, at any depth.
	for _, path := range []string{"x", "old/x", "old/b.txt"} {
		if code, out := e.try(old, "touch $PROJECT_ROOT/"+path); code == 0 || !strings.Contains(out, "Read-only file system") {
			t.Errorf("%s: status %d, %s", path, code, out)
		}
	}
	task, err := e.srv.Client.Task(t.Context(), old, 0)
	if err != nil || task.Metadata.EnvironmentVersion == nil || *task.Metadata.EnvironmentVersion != *first.Version || task.Metadata.EnvironmentDigest == "" {
		t.Errorf("the record: %+v, %v", task.Metadata, err)
	}
}
