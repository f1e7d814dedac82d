package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
	"enplace/internal/plugin"
)

func newPluginAdd(c *cli) *cobra.Command {
	var source enplace.PluginSource
	cmd := &cobra.Command{
		Use:   "add SCOPE NAME [DIR|ARCHIVE|-]",
		Short: "Attach a plugin to a scope: a folder, an archive, or a git repository",
		Long: `Attach a plugin to a scope: a folder of this machine, an archive (zip, tar, tar.gz, tar.bz2, tar.xz, tar.zst), standard
input (-), or a git repository (--git), which is synced by itself from then on. Its items are in force at once.
` + aboutScopes,
		Example: `  enplace plugin add organisation base ./base-plugin
  enplace plugin add team:web web-tools --git https://github.com/example/tools --ref main --path plugins/web
  enplace plugin add person:ann mine ./mine.tar.gz`,
		Args:              cobra.RangeArgs(2, 3),
		ValidArgsFunction: thenLocal(completeEach(c, offerScopes, nothing), 2),
	}
	f := cmd.Flags()
	f.StringVar(&source.GitURL, "git", "", "repository to read it from, by https")
	f.StringVar(&source.Ref, "ref", "", "branch, tag or commit (default: the default branch)")
	f.StringVar(&source.Path, "path", "", "the plugin's folder in the repository")
	cmd.RunE = withScope(c, func(ctx context.Context, api *client.Client, scope enplace.Scope, args []string) error {
		if (source.GitURL != "") == (len(args) > 1) || source.GitURL == "" && source != (enplace.PluginSource{}) {
			return usageError(cmd, "name a folder or archive, or a repository with --git")
		}
		p, err := addPlugin(ctx, c, api, enplace.CreatePlugin{Scope: scope, Name: args[0], Source: source}, args[1:])
		if err != nil {
			return err
		}
		return c.print(p, func(w io.Writer) { printTaken(w, c.err, p) })
	})
	return cmd
}

func addPlugin(ctx context.Context, c *cli, api *client.Client, in enplace.CreatePlugin, from []string) (enplace.Plugin, error) {
	if len(from) == 0 {
		return api.CreatePlugin(ctx, in)
	}
	archive, err := openPluginArchive(c, from[0])
	if err != nil {
		return enplace.Plugin{}, err
	}
	defer archive.Close()
	return api.CreatePluginArchive(ctx, in.Scope, in.Name, archive)
}

// openPluginArchive is openArchive of a plugin. Of a folder it sends what a plugin is: the rest, which may be large, is not looked at.
func openPluginArchive(c *cli, name string) (io.ReadCloser, error) {
	if fi, err := os.Stat(name); err == nil && fi.IsDir() {
		root, err := openPlugin(name)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		if _, err := root.Lstat(enplace.ItemsFolder); errors.Is(err, fs.ErrNotExist) {
			return nil, enplace.Invalidf("%s is no plugin: it has no folder %s, which holds a plugin's items", printable(name), enplace.ItemsFolder)
		}
	}
	return openArchive(c, name, []string{enplace.ItemsFolder, plugin.ManifestName})
}

// openArchive opens an archive of this machine: a file, standard input for -, or a folder, which is packed as it is read, and of
// which only names what is taken, or nothing when that is everything.
func openArchive(c *cli, name string, only []string) (io.ReadCloser, error) {
	if name == "-" {
		if in, ok := c.in.(io.ReadCloser); ok { // a file's size is told to the server
			return in, nil
		}
		return io.NopCloser(c.in), nil
	}
	fi, err := os.Stat(name)
	if err != nil {
		return nil, enplace.Invalidf("cannot read %s", name).WithCause(err)
	}
	if fi.IsDir() {
		r, w := io.Pipe()
		go func() { w.CloseWithError(packFolder(name, w, only)) }()
		return r, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, enplace.Invalidf("cannot read %s", name).WithCause(err)
	}
	return f, nil
}

// nothing offers no word.
func nothing(context.Context, *client.Client, []string) []string { return nil }

// thenLocal lets files of this machine follow so many other arguments.
func thenLocal(others cobra.CompletionFunc, n int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == n {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return others(cmd, args, word)
	}
}

// printTaken says what was taken of a plugin; the id alone goes to standard output, where scripts want it.
func printTaken(w, notes io.Writer, p enplace.Plugin) {
	fmt.Fprintln(w, p.ID)
	fmt.Fprintf(notes, "%s of %s, with: %s\n", p.Name, p.Scope, listed(p.Items, "no item"))
	printPluginFindings(notes, p.Findings)
}

// printFindings writes what a check said, a line each.
func printPluginFindings(w io.Writer, findings []enplace.Finding) {
	for _, f := range findings {
		place := f.File
		if f.Line > 0 {
			place = fmt.Sprintf("%s:%d", place, f.Line)
		}
		fmt.Fprintln(w, printable(strings.TrimPrefix(fmt.Sprintf("%s: %s: %s", place, f.Severity, f.Message), ": ")))
	}
}
