package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"enplace"
)

func newEnvCreate(c *cli) *cobra.Command {
	var in enplace.CreateEnvironment
	var pip, npm, apt []string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make an environment",
		Example: `  enplace env create "Content Studio"
  enplace env create api --python 3.12 --pip fastapi --pip uvicorn --apt ffmpeg`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.client()
			if err != nil {
				return err
			}
			in.Name = args[0]
			if len(pip)+len(npm)+len(apt) > 0 {
				in.Packages = &enplace.Packages{Pip: pip, NPM: npm, Apt: apt}
			}
			e, err := api.CreateEnvironment(cmd.Context(), in)
			if err != nil {
				return err
			}
			return c.print(e, func(w io.Writer) { fmt.Fprintf(w, "%s  %s\n", e.ID, e.Path) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&in.PythonVersion, "python", "", "Python version, such as 3.12 (default: the base's)")
	f.StringVar(&in.PipIndexURL, "pip-index", "", "package index to use instead of PyPI")
	f.StringArrayVar(&pip, "pip", nil, "Python package (repeat for more)")
	f.StringArrayVar(&npm, "npm", nil, "npm package (repeat for more)")
	f.StringArrayVar(&apt, "apt", nil, "Debian package (repeat for more)")
	return cmd
}
