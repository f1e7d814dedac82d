// Command enplace-guest is process 1 of every sandbox, and by the names of links to it the shim of every tool. It is started by
// the host's runtime, and by itself; nobody types it.
package main

import (
	"context"
	"fmt"
	"os"

	"enplace/internal/guest"
	"enplace/internal/shim"
	_ "enplace/internal/shim/first" // whatever is called as a shim comes no further
)

func main() {
	if shim.CalledAs(os.Args) == shim.MiseName {
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
