package testscript

import (
	"bufio"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/creack/pty"

	"enplace"
	"enplace/enplacetest"
)

// TestTerminal opens a shell in a sandbox from a terminal: it has one of the same size, and its status comes back.
func TestTerminal(t *testing.T) {
	t.Parallel()
	srv := enplacetest.Start(t)
	h, err := srv.Client.CreateHarness(t.Context(), enplace.CreateHarness{Name: "open"})
	if err != nil {
		t.Fatal(err)
	}
	task, err := srv.Client.CreateTask(t.Context(), enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: h.ID}})
	if err != nil {
		t.Fatal(err)
	}
	cmd := srv.Command(t.Context(), "task", "ssh", task.ID)
	cmd.Env = append(cmd.Env, "TERM=vt100")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 33, Cols: 99})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	if _, err := tty.WriteString("echo is $(tty) $(stty size) $TERM; exit 3\n"); err != nil {
		t.Fatal(err)
	}
	said := false
	for lines := bufio.NewScanner(tty); lines.Scan(); { // ends with an error: the terminal is gone
		said = said || strings.Contains(lines.Text(), "is /dev/pts/0 33 99 vt100")
	}
	if !said {
		t.Error("the shell has not the terminal that it was given")
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("it ended with %v", err)
	}
}
