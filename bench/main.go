// Command bench measures the ratios that the design asks for, each against the thing it is compared with, in one run on one
// machine, the two in turns. It starts a server of its own on a temporary directory and speaks to it as any client does.
//
//	go run ./bench [-quick] [-row NAME] [-json]
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// row is one line of the design's table, or a few that are measured together.
type row struct {
	name string
	run  func(ctx context.Context, l *lab) ([]result, error)
}

var rows = []row{
	{"start", startRow},
	{"alive", aliveRow},
	{"rebuild", rebuildRow},
	{"python", pythonRow},
	{"disk", diskRow},
	{"computer", computerRow},
	{"shim", shimRow},
}

func main() {
	var names []string
	for _, r := range rows {
		names = append(names, r.name)
	}
	quick := flag.Bool("quick", false, "fewer repetitions and a smaller environment, for a first look")
	only := flag.String("row", "", "measure one row: "+strings.Join(names, ", "))
	asJSON := flag.Bool("json", false, "print JSON, with every sample")
	flag.Parse()
	if *only != "" && !slices.Contains(names, *only) {
		fmt.Fprintf(os.Stderr, "bench: there is no row %q; there are %s\n", *only, strings.Join(names, ", "))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx, *quick, *only, *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// measure runs the rows and prints what came out, also when a later row failed.
func measure(ctx context.Context, quick bool, only string, asJSON bool) (err error) {
	l, err := open(ctx, quick)
	if err != nil {
		return err
	}
	defer l.close()
	var all []result
	for _, r := range rows {
		if only != "" && r.name != only {
			continue
		}
		l.progress("%s", r.name)
		var got []result
		if got, err = r.run(ctx, l); err != nil {
			err = fmt.Errorf("%s: %w%s", r.name, err, l.serverSaid())
			break
		}
		for i := range got {
			got[i].Row = r.name
		}
		all = append(all, got...)
	}
	m := describeMachine(l.began)
	if !asJSON {
		printTable(os.Stdout, m, all)
		return err
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	if e := out.Encode(map[string]any{"machine": m, "results": all}); err == nil {
		err = e
	}
	return err
}
