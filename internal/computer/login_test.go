package computer_test

import "testing"

// After su - and sudo -i nothing of a conversation is left in the environment, and such a shell had the system's programs only. A
// PATH that a caller chose stays as it is.
func TestShellsAfterSuFindTheTools(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	with := h.Direct("lou")
	h.exec(with, `useradd -m one && su - one -c 'echo ${PATH%%:*}'; env -i bash -lc 'echo ${PATH%%:*}'`).want("/opt/mise/shims\n/opt/mise/shims")
	h.exec(with, `PATH=/usr/bin:/bin bash -lc 'echo $PATH'`).want("/usr/bin:/bin")
}
