package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/internal/plugin"
)

// checkedPlugin is what a check says under --json.
type checkedPlugin struct {
	Name     string            `json:"name,omitempty"` // as plugin.json says
	OK       bool              `json:"ok"`
	Items    []checkedItem     `json:"items"` // those without an error
	Findings []enplace.Finding `json:"findings"`
	Errors   int               `json:"errors"`
	Warnings int               `json:"warnings"`
	Notices  int               `json:"notices"`
}

type checkedItem struct {
	Key         string                 `json:"key"`
	Folder      string                 `json:"folder"`
	Description string                 `json:"description"`
	Files       []string               `json:"files"`
	Tools       []enplace.DeclaredTool `json:"tools"`
}

func newPluginCheck(c *cli) *cobra.Command {
	var strictly bool
	cmd := &cobra.Command{
		Use:   "check DIR",
		Short: "Check a plugin's items as a server would, without one",
		Long: `Read the items of the plugin in DIR, which has the folder environments, and say what is wrong
with them: file, line, and what to do. Nothing is run, and no link is followed out of an item.

Exits 1 when there is an error, and 0 with warnings and notices alone. --strict makes warnings errors.`,
		Example: `  enplace plugin check .
  enplace plugin check ./my-plugin --strict
  enplace plugin check . --json | jq '.findings[]'`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(_ *cobra.Command, args []string) error {
			checked, err := checkPlugin(args[0], strictly)
			if err != nil {
				return err
			}
			if err := c.print(checked, func(w io.Writer) { printChecked(w, args[0], checked) }); err != nil {
				return err
			}
			if !checked.OK {
				return statusError(1)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&strictly, "strict", false, "take warnings for errors")
	return cmd
}

func checkPlugin(dir string, strictly bool) (checkedPlugin, error) {
	root, err := openPlugin(dir)
	if err != nil {
		return checkedPlugin{}, err
	}
	defer root.Close()
	res, err := plugin.Read(root.FS())
	if err != nil {
		return checkedPlugin{}, enplace.Invalidf("cannot read the plugin in %s", printable(dir)).WithCause(err)
	}
	checked := checkedPlugin{Name: res.Name, Items: []checkedItem{}, Findings: []enplace.Finding{}}
	for _, d := range res.Definitions {
		item := checkedItem{Key: d.Key, Folder: d.Folder, Description: d.Description, Tools: d.Tools}
		for _, f := range d.Files {
			item.Files = append(item.Files, f.Path)
		}
		checked.Items = append(checked.Items, item)
	}
	for _, f := range res.Findings {
		if strictly && f.Severity == enplace.FindingWarning {
			f.Severity = enplace.FindingError
		}
		switch f.Severity {
		case enplace.FindingError:
			checked.Errors++
		case enplace.FindingWarning:
			checked.Warnings++
		default:
			checked.Notices++
		}
		checked.Findings = append(checked.Findings, f)
	}
	checked.OK = checked.Errors == 0
	return checked, nil
}

// openPlugin opens a plugin's folder, and says where it is when it is somewhere near.
func openPlugin(dir string) (*os.Root, error) {
	fi, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, enplace.NotFoundf("there is no folder %s", printable(dir))
	case err != nil:
		return nil, enplace.Invalidf("cannot open the folder %s", printable(dir)).WithCause(err)
	case !fi.IsDir():
		return nil, enplace.Invalidf("%s is a file; unpack an archive first, and name the plugin's folder", printable(dir))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, enplace.Invalidf("cannot open the folder %s", printable(dir)).WithCause(err)
	}
	if _, err := root.Lstat(enplace.ItemsFolder); !errors.Is(err, fs.ErrNotExist) {
		return root, nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = dir
	}
	up := ""
	if filepath.Base(abs) == enplace.ItemsFolder {
		up = filepath.Dir(abs)
	} else if _, err := root.Lstat(enplace.ItemFileName); err == nil && filepath.Base(filepath.Dir(abs)) == enplace.ItemsFolder {
		up = filepath.Dir(filepath.Dir(abs))
	}
	if up == "" {
		return root, nil // the check says what is missing
	}
	root.Close()
	return nil, enplace.Invalidf("%s is a part of a plugin; name the plugin's folder, which has %s in it", printable(dir), enplace.ItemsFolder).
		WithFix("name %s", printable(up))
}

func printChecked(w io.Writer, dir string, checked checkedPlugin) {
	for _, f := range checked.Findings {
		place := filepath.Join(dir, f.File)
		if f.Line > 0 {
			place = fmt.Sprintf("%s:%d", place, f.Line)
		}
		fmt.Fprintf(w, "%s: %s: %s\n", printable(place), f.Severity, f.Message)
	}
	var keys []string
	for _, i := range checked.Items {
		keys = append(keys, i.Key)
	}
	if len(keys) > 0 {
		fmt.Fprintf(w, "a server takes %s: %s\n", counted(len(keys), "item"), strings.Join(keys, ", "))
	}
	fmt.Fprintf(w, "%s, %s, %s\n", counted(checked.Errors, "error"), counted(checked.Warnings, "warning"), counted(checked.Notices, "notice"))
}

// counted gives a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
