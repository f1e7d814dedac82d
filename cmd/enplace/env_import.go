package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

func newEnvImport(c *cli) *cobra.Command {
	var git enplace.GitSource
	var merge bool
	cmd := &cobra.Command{
		Use:   "import ENV [ARCHIVE|FOLDER|-]",
		Short: "Import a project: an archive, a folder, or a git repository",
		Long: `Import a project into an environment's tree: an archive (zip, tar, tar.gz, tar.bz2, tar.xz, tar.zst),
a folder of this machine, standard input (-), or a git repository (--git).

An import is all or nothing. It replaces the tree, or with --merge adds to it. Never imported:
` + strings.Join(enplace.NeverImported, ", ") + `.`,
		Example: `  enplace env import content-studio ./project.zip
  enplace env import content-studio .
  enplace env import content-studio --git https://github.com/pallets/click --ref 8.1.7`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: thenFiles(completeEnvironments(c)),
	}
	f := cmd.Flags()
	f.StringVar(&git.URL, "git", "", "repository to import, by https")
	f.StringVar(&git.Ref, "ref", "", "branch, tag or commit (default: the default branch)")
	f.StringVar(&git.Subdir, "subdir", "", "folder of the repository to import")
	f.BoolVar(&merge, "merge", false, "keep files that the import does not bring")
	cmd.RunE = withEnvironment(c, func(ctx context.Context, api *client.Client, e enplace.Environment, args []string) error {
		if (git.URL != "") == (len(args) > 0) {
			return usageError(cmd, "name an archive or folder, or a repository with --git")
		}
		var report enplace.ImportReport
		var err error
		if git.URL != "" {
			report, err = api.ImportGit(ctx, e.ID, git, merge)
		} else {
			report, err = importLocal(ctx, c, api, e.ID, args[0], merge)
		}
		if err != nil {
			return err
		}
		return c.print(report, func(w io.Writer) { printImport(w, report) })
	})
	return cmd
}

func importLocal(ctx context.Context, c *cli, api *client.Client, id, name string, merge bool) (enplace.ImportReport, error) {
	archive, err := openArchive(c, name, nil)
	if err != nil {
		return enplace.ImportReport{}, err
	}
	defer archive.Close()
	return api.Import(ctx, id, archive, merge)
}

// packFolder writes a folder as a tar, without what an import would leave out. Of what lies in the folder itself it takes the names
// in only, or everything when there are none. Of what is asked for by name the server gets to know all, so that it says of each
// file what is wrong with it: what cannot be taken is sent as an empty entry.
func packFolder(dir string, out io.Writer, only []string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	tw := tar.NewWriter(out)
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case d.IsDir() && !taken(name, only):
			return fs.SkipDir
		case d.IsDir() && (!fs.ValidPath(name) || len(only) > 0 && enplace.ImportSkips(name) != ""):
			if err := packNameOf(tw, root, name); err != nil {
				return err
			}
			return fs.SkipDir
		case d.IsDir() && enplace.ImportSkips(name) != "":
			return fs.SkipDir
		case d.IsDir() || !taken(name, only):
			return nil
		}
		return packFile(tw, root, name, only)
	})
	if err != nil {
		return err
	}
	return tw.Close()
}

func taken(name string, only []string) bool {
	return len(only) == 0 || strings.Contains(name, "/") || slices.Contains(only, name)
}

// packNameOf tells of a folder that cannot be taken: by the file in it that would make it an item, or by its own bad name, or else by
// any file, since a folder alone is no loss.
func packNameOf(tw *tar.Writer, root *os.Root, dir string) error {
	file := enplace.ItemFileName
	if _, err := root.Lstat(dir + "/" + file); err != nil && !fs.ValidPath(dir) {
		return tw.WriteHeader(&tar.Header{Name: dir + "/", Typeflag: tar.TypeDir})
	} else if err != nil {
		f, err := root.Open(dir)
		if err != nil {
			return err
		}
		defer f.Close()
		names, err := f.Readdirnames(1)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		file = names[0]
	}
	return tw.WriteHeader(&tar.Header{Name: dir + "/" + file, Typeflag: tar.TypeReg})
}

func packFile(tw *tar.Writer, root *os.Root, name string, only []string) error {
	fi, err := root.Lstat(name)
	if err != nil {
		return err
	}
	target := ""
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		if target, err = root.Readlink(name); err != nil {
			return err
		}
	case fi.Mode().IsRegular():
	case len(only) == 0: // a socket or pipe is no part of a project
		return nil
	default: // a tar has no sockets; of an item all of these are wrong alike
		return tw.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeFifo})
	}
	h, err := tar.FileInfoHeader(fi, target)
	if err != nil {
		return err
	}
	h.Name = filepath.ToSlash(name)
	h.Uid, h.Gid, h.Uname, h.Gname = 0, 0, "", ""
	if err := tw.WriteHeader(h); err != nil || !fi.Mode().IsRegular() {
		return err
	}
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyN(tw, f, h.Size)
	return err
}

func printImport(w io.Writer, r enplace.ImportReport) {
	word := "replacing the tree"
	if !r.Replaced {
		word = "merged into the tree"
	}
	fmt.Fprintf(w, "imported %s, %s, %s\n", files(r.Imported), size(r.Bytes), word)
	if r.Commit != "" {
		fmt.Fprintf(w, "commit %s %s\n", r.Commit, r.Describe)
	}
	if r.Unwrapped != "" {
		fmt.Fprintf(w, "the top folder %s was taken off\n", r.Unwrapped)
	}
	for _, list := range []struct {
		what   string
		counts []enplace.Count
	}{{"skipped", r.Skipped}, {"renamed", r.Renamed}} {
		for _, n := range list.counts {
			fmt.Fprintf(w, "%s %d (%s), such as %s\n", list.what, n.Count, n.Rule, strings.Join(n.Examples, ", "))
		}
	}
	for _, n := range r.Notes {
		fmt.Fprintln(w, "note: "+n)
	}
}
