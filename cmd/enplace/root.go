package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

// cli is what every command has.
type cli struct {
	in       io.Reader
	out, err io.Writer
	url      string
	key      string
	data     string
	json     bool
}

// execute runs a command line and gives its exit status.
func execute(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	c := &cli{in: in, out: out, err: errOut}
	root := newRoot(c)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	if err := unknown(root, args); err != nil {
		return c.exit(err)
	}
	return c.exit(root.ExecuteContext(ctx))
}

func newRoot(c *cli) *cobra.Command {
	root := &cobra.Command{
		Use:   "enplace",
		Short: "Puts everything in place before an AI agent starts",
		Long: `Enplace builds a project and its packages once into an immutable version, and mounts it
read only for every task in milliseconds. It keeps computers for people and rooms, with the tools
that their organisation, team and they themselves declare.

Commands that speak to a server find it by --url and --key (or ENPLACE_URL and ENPLACE_KEY),
or on the same machine by its data directory: --data DIR (or ENPLACE_DATA).

Exit status: 0 done; 1 failed; 2 wrong use; 3 not found; 4 not allowed; 5 the state does not allow
it now; 6 over a limit; 7 a registry or another server did not answer; 8 the server cannot be reached,
or its host lacks something.
` + "`enplace task run`, `task exec` and `computer exec`" + ` exit with the status of what they ran,
and, as shells do, with 127 where there is no such program and 126 where it cannot be run.`,
		Example: `  enplace serve --data /var/lib/enplace
  enplace env create "Content Studio"
  enplace env import content-studio ./project.tar.gz
  enplace env packages content-studio --pip pandas --npm typescript --apt jq
  enplace env build content-studio
  enplace task run --env content-studio -- python3 -c 'import pandas; print(pandas.__version__)'
  enplace plugin add organisation base ./base-plugin
  enplace computer exec ann-1 -- node --version`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
	}
	f := root.PersistentFlags()
	f.StringVar(&c.url, "url", os.Getenv("ENPLACE_URL"), "address of the server (default: ENPLACE_URL)")
	f.StringVar(&c.key, "key", "", "API key (better in ENPLACE_KEY, where no process list shows it)")
	f.StringVar(&c.data, "data", os.Getenv("ENPLACE_DATA"), "data directory of a server on this machine (default: ENPLACE_DATA, or "+defaultData+")")
	f.Lookup("url").DefValue, f.Lookup("data").DefValue = "", "" // help is the same for everyone
	f.BoolVar(&c.json, "json", false, "print JSON, errors too")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		switch unknown := strings.HasPrefix(err.Error(), "unknown "); {
		case strings.Contains(err.Error(), "time: missing unit"): // Go's words for it help nobody
			return usageError(cmd, "%v: write 30s, 10m or 2h", err)
		case unknown && strings.Contains(cmd.Use, " -- "):
			return usageError(cmd, "%v%s; flags of what is to be run come behind a --: %s", err, likeFlag(cmd, err), written(cmd))
		}
		return usageError(cmd, "%v%s", err, likeFlag(cmd, err))
	})
	root.AddCommand(newServe(c), newDoctor(c), newBase(c), newEnv(c), newHarness(c), newTask(c), newKey(c), newMCP(c), newPlugin(c), newItem(c), newTeam(c), newPerson(c), newRoom(c),
		newConversation(c), newSet(c), newComputer(c), newKeychain(c), newEgress(c), newAudit(c), newStatus(c), newVersion(c))
	strict(root)
	return root
}

// strict makes a wrong number of arguments a useError that says how the command is written.
func strict(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				if right := scopeAsFlag(cmd, check, args); right != "" {
					return usageError(cmd, "a scope is a flag here; write %s", right)
				}
				return usageError(cmd, "wrong number of arguments; write %s", written(cmd))
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		strict(sub)
	}
}

// written gives a command as it is written, but for its flags.
func written(cmd *cobra.Command) string {
	return cmd.CommandPath() + strings.TrimPrefix(cmd.Use, cmd.Name())
}

// useError is a wrong command line.
type useError struct{ error }

func usageError(cmd *cobra.Command, format string, args ...any) error {
	return useError{fmt.Errorf(format+"; see %s --help", append(args, cmd.CommandPath())...)}
}

// statusError ends the program with a status of its own, saying nothing.
type statusError int

func (s statusError) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// exitLacks is the status when this host lacks something.
const exitLacks = 8

// exitCodes is the one table of kinds and exit statuses; the help of the root command lists it.
var exitCodes = map[enplace.Kind]int{
	enplace.KindMalformed: 2, enplace.KindInvalid: 2, enplace.KindNotFound: 3, enplace.KindUnauthenticated: 4, enplace.KindForbidden: 4,
	enplace.KindConflict: 5, enplace.KindTooLarge: 6, enplace.KindBusy: 6, enplace.KindUpstream: 7, enplace.KindUnavailable: exitLacks, enplace.KindInternal: 1,
}

// exit prints an error and gives the exit status.
func (c *cli) exit(err error) int {
	var status statusError
	var use useError
	var e *enplace.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &e):
	case errors.As(err, &use):
		e = enplace.Errorf(enplace.KindMalformed, "%v", err)
	case errors.Is(err, context.Canceled):
		return 130
	default:
		e = enplace.Errorf(enplace.KindInternal, "%v", err)
	}
	if c.json {
		_ = json.NewEncoder(c.err).Encode(map[string]any{"kind": e.Kind, "detail": e.Message, "field": e.Field, "fixes": append([]string{}, e.Fixes...)})
	} else {
		message := e.Message
		if e.Field != "" {
			message = e.Field + ": " + message
		}
		if e.Err != nil {
			message += " (" + reason(e.Err) + ")"
		}
		fmt.Fprintln(c.err, "enplace: "+message)
		for _, f := range e.Fixes {
			fmt.Fprintln(c.err, "  what to do: "+f)
		}
	}
	if code, ok := exitCodes[e.Kind]; ok {
		return code
	}
	return 1
}

// reason says a cause in a few words. An error that came from a server has none; this one arose here, and is ours to tell.
func reason(err error) string {
	var file *fs.PathError
	var web *url.Error
	switch {
	case errors.As(err, &file):
		err = file.Err
	case errors.As(err, &web):
		err = web.Err
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

// client gives the client of the server that flags, environment or data directory name.
func (c *cli) client() (*client.Client, error) {
	url, key := c.url, c.key
	if key == "" {
		key = os.Getenv("ENPLACE_KEY")
	}
	data := c.data
	if url == "" && data == "" {
		data = defaultData
	}
	if data != "" && (url == "" || key == "") {
		local, localKey, err := readLocal(data)
		if err != nil && url == "" {
			return nil, enplace.Errorf(enplace.KindUnavailable, "no server is named, and %s holds none", data).WithCause(err).
				WithFix("set ENPLACE_URL and ENPLACE_KEY, or name the data directory of a server on this machine: --data DIR").
				WithFix("start one: enplace serve --data DIR")
		}
		if url == "" {
			url = local
		}
		if key == "" {
			key = localKey
		}
	}
	return client.New(client.Config{URL: url, Key: key})
}

const (
	defaultData  = "/var/lib/enplace"
	databaseFile = "enplace.db"
	keyFile      = "operator.key"
	addressFile  = "address"
)

// readLocal finds the address and the operator's key of a server by its data directory.
func readLocal(data string) (url, key string, err error) {
	address, err := os.ReadFile(filepath.Join(data, addressFile))
	if err != nil {
		return "", "", err
	}
	secret, err := os.ReadFile(filepath.Join(data, keyFile))
	if err != nil {
		return "", "", err
	}
	host, port, err := net.SplitHostPort(strings.TrimSpace(string(address)))
	if err != nil {
		return "", "", err
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port), strings.TrimSpace(string(secret)), nil
}

// print writes v as JSON under --json, and otherwise calls text.
func (c *cli) print(v any, text func(w io.Writer)) error {
	if !c.json {
		text(c.out)
		return nil
	}
	enc := json.NewEncoder(c.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
