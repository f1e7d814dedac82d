package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"enplace/internal/doctor"
)

func newDoctor(c *cli) *cobra.Command {
	var runtime string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this host lacks to run the server, and the command that mends it",
		Long: `Look at this host: kernel, tools, data directory. Each thing that is missing comes with what mends it.
Exits 8 when something is missing that the server cannot do without.`,
		Example: `  enplace doctor
  enplace doctor --data /srv/enplace --runtime runsc`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			data := c.data
			if data == "" {
				data = defaultData
			}
			findings := doctor.Check(cmd.Context(), doctor.Config{DataDir: data, Runtime: runtime})
			if err := c.print(findings, func(w io.Writer) { printFindings(w, findings) }); err != nil {
				return err
			}
			if !doctor.OK(findings) {
				return statusError(exitLacks)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&runtime, "runtime", "runc", "OCI runtime that the server is to use: runc, crun, runsc, or a path")
	return cmd
}

func printFindings(w io.Writer, findings []doctor.Finding) {
	lacks := 0
	for _, f := range findings {
		mark := "ok   "
		switch {
		case f.OK:
		case f.Required:
			mark, lacks = "LACKS", lacks+1
		default:
			mark = "note "
		}
		fmt.Fprintf(w, "%s  %s: %s\n", mark, f.Name, f.Detail)
		if !f.OK && f.Fix != "" {
			fmt.Fprintln(w, "       what to do: "+f.Fix)
		}
	}
	switch lacks {
	case 0:
		fmt.Fprintln(w, "this host can run Enplace")
	default:
		fmt.Fprintf(w, "this host lacks %d of what Enplace needs\n", lacks)
	}
	if os.Getuid() != 0 {
		fmt.Fprintln(w, "some of it can be seen by root only: sudo enplace doctor")
	}
}
