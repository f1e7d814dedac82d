// Package testscript drives the built programs as a person does: each file of testdata is a script of command lines, and what
// they must print and leave. It is apart from the packages it proves because it may know none of them: a script sees what a
// user sees. Scripts called case_NN prove the behaviour of one case of the field.
package testscript

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"enplace/enplacetest"
)

var update = flag.Bool("update", false, "write what the scripts' golden files must hold")

// kit is the environment that scripts share; none of them changes it.
const kit = "kit"

// TestScripts runs the scripts against one server, each in environments of its own; what needs a server of its own starts one.
func TestScripts(t *testing.T) {
	srv := enplacetest.Start(t)
	buildKit(t, srv)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Deadline:            time.Now().Add(10 * time.Minute),
		Setup: func(env *testscript.Env) error {
			name := strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")
			name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
			env.Setenv("NAME", name)
			env.Setenv("KIT", kit)
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("PATH", srv.Bin+":"+os.Getenv("PATH"))
			pointAt(env.Setenv, srv)
			env.Values["own"] = &ownServer{t: env.T()}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"save":    save,
			"field":   field,
			"archive": archive,
			"server":  server,
			"await":   await,
		},
	})
}

func pointAt(setenv func(name, value string), srv *enplacetest.Server) {
	setenv("ENPLACE_URL", srv.URL)
	setenv("ENPLACE_KEY", srv.Key)
	setenv("OPERATOR_KEY", srv.Key)
}

// buildKit makes the shared environment: small packages of each manager, and a project to read.
func buildKit(t *testing.T, srv *enplacetest.Server) {
	t.Helper()
	for _, args := range [][]string{
		{"env", "create", kit, "--pip", "tabulate==0.9.0", "--npm", "ms@2.1.3", "--npm", "yocto-queue@1.2.1", "--npm", "cowsay@1.6.0", "--apt", "jq"},
		{"env", "import", kit, "kit"},
		{"env", "build", kit},
	} {
		if out, err := srv.Command(t.Context(), args...).CombinedOutput(); err != nil {
			t.Fatalf("enplace %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// exits STATUS PROGRAM ARG… runs a program that must end with just this status.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM ARG…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("running %s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("it ended with %d, and must end with %d", got, want)
	}
}

// save NAME keeps what the last program printed in a variable.
func save(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: save NAME")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// field NAME PATH keeps a field of the JSON that the last program printed in a variable, such as items.0.id.
func field(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: field NAME PATH")
	}
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &v))
	for part := range strings.SplitSeq(args[1], ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(at) {
				ts.Fatalf("there is no %s in %s", part, args[1])
			}
			v = at[i]
		}
	}
	if v == nil {
		ts.Fatalf("there is no %s", args[1])
	}
	ts.Setenv(args[0], fmt.Sprint(v))
}

// ownServer is the server that a script started for itself.
type ownServer struct {
	t   testscript.T
	srv *enplacetest.Server
}

// server start|kill|restart|stop is about a server of the script's own.
func server(ts *testscript.TestScript, neg bool, args []string) {
	own, _ := ts.Value("own").(*ownServer)
	tb, ok := own.t.(testing.TB)
	switch {
	case neg || len(args) != 1:
		ts.Fatalf("usage: server start|kill|restart|stop")
	case args[0] == "start" && ok:
		own.srv = enplacetest.Start(tb)
		pointAt(ts.Setenv, own.srv)
		ts.Setenv("DATA", own.srv.Data)
	case own.srv == nil:
		ts.Fatalf("no server was started")
	case args[0] == "kill":
		own.srv.Kill()
	case args[0] == "restart":
		own.srv.Restart()
	case args[0] == "stop":
		own.srv.Stop()
	default:
		ts.Fatalf("there is no server %s", args[0])
	}
}

// await TEXT PROGRAM ARG… runs a program until its output holds the text: for what another process does in its own time.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await TEXT PROGRAM ARG…")
	}
	for end := time.Now().Add(time.Minute); ; {
		_ = ts.Exec(args[1], args[2:]...) // a failure has no such output
		if strings.Contains(ts.ReadFile("stdout"), args[0]) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%q did not come within a minute", args[0])
		}
		time.Sleep(50 * time.Millisecond)
	}
}
