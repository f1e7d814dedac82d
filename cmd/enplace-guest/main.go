// Command enplace-guest is process 1 of every sandbox. It is started by the host's runtime, and by itself; nobody types it.
package main

import (
	"context"
	"fmt"
	"os"

	"enplace/internal/guest"
)

func main() {
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
	}
	return fmt.Errorf("wants one of init, run, sftp: it is started by Enplace, inside a sandbox")
}
