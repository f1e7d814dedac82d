// Command enplace-guest is process 1 of every sandbox, and by the name of a link to it what mise is called through there. It is
// started by the host's runtime, and by itself; nobody types it.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"enplace/internal/guest"
)

func main() {
	if filepath.Base(os.Args[0]) == guest.MiseName {
		os.Exit(guest.Mise(os.Args[1:]))
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "enplace-guest:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	what := ""
	if len(args) == 1 {
		what = args[0]
	}
	switch what {
	case "init": // process 1
		return guest.Init(context.Background())
	case "run": // the supervisor of one command at a time
		return guest.Supervise()
	case "sftp": // file transfer on standard input and output
		return guest.SFTP()
	case "shims": // writes an index of shims
		return guest.Shims(os.Stdin, os.Stdout)
	}
	return fmt.Errorf("wants one of init, run, sftp, shims: it is started by Enplace, inside a sandbox")
}
