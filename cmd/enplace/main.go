// Command enplace is the server and its command line: one file per command. All wiring is here, by explicit calls; what it
// wires is in internal/.
//
//go:debug zipinsecurepath=0
//go:debug tarinsecurepath=0
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the build.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
