package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"enplace"
	"enplace/internal/base"
	"enplace/internal/egress"
	"enplace/internal/image"
	"enplace/internal/pkgindex"
)

// baseOptions say what the base is made from, and where packages come from.
type baseOptions struct {
	source     string
	suite      string
	mirror     string
	security   string
	components []string
	pypi       string
	npm        string
}

func (o *baseOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.source, "base", "debian", "what the base is made from: debian, oci:REFERENCE, tarball:PATH or dir:PATH")
	f.StringVar(&o.suite, "suite", "stable", "Debian release of the base")
	f.StringVar(&o.mirror, "mirror", "", "Debian mirror")
	f.StringVar(&o.security, "security-mirror", "", "mirror of Debian's security updates, or none")
	f.StringSliceVar(&o.components, "components", []string{"main"}, "components of the Debian archive")
	f.StringVar(&o.pypi, "pypi", "", "simple index to use instead of PyPI")
	f.StringVar(&o.npm, "npm-registry", "", "registry to use instead of npm's")
}

func (o *baseOptions) builder(data string, images *image.Store, log *slog.Logger) (*base.Builder, error) {
	source, err := base.ParseSource(o.source)
	if err != nil {
		return nil, err
	}
	return base.New(base.Config{
		Dir: filepath.Join(data, "base"), Images: images, Source: source, Suite: o.suite, Mirror: o.mirror, Security: o.security,
		Components: o.components, PyPI: o.pypi, NPM: o.npm, Logger: log,
	})
}

// index gives the registries that packages are looked up in: those that builds install from.
func (o *baseOptions) index(cache string, archives []base.Archive, proxy *egress.Proxy) pkgindex.Config {
	c := pkgindex.Config{PyPI: o.pypi, NPM: o.npm, CacheDir: cache, Foreign: proxy.DialContext}
	for _, a := range archives {
		c.Apt = append(c.Apt, pkgindex.AptSource(a))
	}
	return c
}

func newBase(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "base",
		Short: "Make or show the base system that every sandbox starts from",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newBaseBuild(c), newBaseShow(c))
	return cmd
}

func newBaseBuild(c *cli) *cobra.Command {
	var o baseOptions
	var again bool
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Make the base; quick when nothing that it is made from has changed",
		Long: `Make the base in a data directory. A server makes it at its first start; this makes it ahead of that,
or again for Debian's updates (--again). A running server takes up a new base when it is restarted.`,
		Example: `  enplace base build --data /var/lib/enplace
  enplace base build --data /var/lib/enplace --base dir:/srv/rootfs`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, done, err := localBase(c, o)
			if err != nil {
				return err
			}
			defer done()
			run := b.Ensure
			if again {
				run = b.Rebuild
			}
			made, err := run(cmd.Context(), c.err)
			if err != nil {
				return err
			}
			return c.print(made, func(w io.Writer) { printBase(w, made) })
		},
	}
	o.flags(cmd.Flags())
	cmd.Flags().BoolVar(&again, "again", false, "make it although nothing has changed here")
	return cmd
}

func newBaseShow(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Show the base of a data directory",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if _, err := os.Stat(filepath.Join(dataDir(c), "base")); errors.Is(err, fs.ErrNotExist) {
				return noBaseYet(c) // and a look leaves no folder behind
			}
			b, done, err := localBase(c, baseOptions{})
			if err != nil {
				return err
			}
			defer done()
			made, ok := b.Current()
			if !ok {
				return noBaseYet(c)
			}
			return c.print(made, func(w io.Writer) { printBase(w, made) })
		},
	}
}

func noBaseYet(c *cli) error {
	return enplace.NotFoundf("%s has no base yet", c.data).WithFix("enplace base build --data %s", c.data)
}

// dataDir settles the data directory of a command that works in it.
func dataDir(c *cli) string {
	c.data = cmp.Or(c.data, defaultData)
	return c.data
}

func localBase(c *cli, o baseOptions) (*base.Builder, func(), error) {
	images, err := image.Open(filepath.Join(dataDir(c), "images"))
	if err != nil {
		return nil, nil, fmt.Errorf("opening the images of %s: %w", c.data, err)
	}
	b, err := o.builder(c.data, images, slog.New(slog.DiscardHandler))
	return b, func() { images.Close() }, err
}

func printBase(w io.Writer, b base.Base) {
	fmt.Fprintf(w, "digest   %s\nsource   %s %s\nsize     %d MiB, %d files\nmade     %s\n", b.Digest, b.Source, b.Suite, b.Bytes>>20, b.Files, b.CreatedAt.Format("2006-01-02 15:04"))
	for _, t := range [][2]string{{"python", b.Python}, {"node", b.Node}, {"npm", b.NPM}, {"uv", b.UV}, {"mise", b.Mise}, {"git", b.Git}} {
		if t[1] != "" {
			fmt.Fprintf(w, "%-8s %s\n", t[0], t[1])
		}
	}
	for _, warning := range b.Warnings {
		fmt.Fprintln(w, "warning: "+warning)
	}
}
