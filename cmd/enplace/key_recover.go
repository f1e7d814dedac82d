package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/audit"
	"enplace/internal/durable"
	"enplace/internal/store/sqlite"
)

func newKeyRecover(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "recover",
		Short: "Make an operator key on the server's machine, when all others are lost",
		Long: `Make another operator key, with the data directory in place of a key: when the last one is lost. It is written to
DIR/operator.key, which only root can read, and counts at once, whether the server runs or not. It is on record as key.recover.
Keys that are in force stay so: revoke with it those that are lost.`,
		Example: `  enplace key recover --data /var/lib/enplace
  enplace key list && enplace key revoke key_…`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.data == "" {
				c.data = defaultData
			}
			return recoverKey(cmd.Context(), c)
		},
	}
}

// recovered is what key recover did. The secret is in the file alone.
type recovered struct {
	enplace.Key
	File   string        `json:"file"`
	Others []enplace.Key `json:"others"` // operator keys that are in force beside it
}

// recoverKey needs no lock of the data directory: a key is one record, which the database keeps apart from a server's writes, and
// a server looks up keys that it does not know.
func recoverKey(ctx context.Context, c *cli) (err error) {
	if os.Getuid() != 0 {
		return enplace.Errorf(enplace.KindForbidden, "the data directory is root's, and whoever makes a key from it must be").WithFix("sudo enplace key recover --data %s", c.data)
	}
	st, err := sqlite.OpenBeside(ctx, filepath.Join(c.data, databaseFile))
	if errors.Is(err, fs.ErrNotExist) {
		return enplace.NotFoundf("%s holds no data of a server", c.data).WithFix("name the directory that enplace serve is given: --data DIR")
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if err := laterIDs(ctx, st); err != nil {
		return err
	}
	trail := audit.New(st, slog.New(slog.NewTextHandler(c.err, &slog.HandlerOptions{Level: slog.LevelWarn})), time.Now)
	keys := access.NewKeys(st, st, time.Now, trail)
	defer func() { err = errors.Join(err, keys.Close()) }()
	out := recovered{File: filepath.Join(c.data, keyFile), Others: []enplace.Key{}}
	if err := lost(ctx, keys, out.File); err != nil {
		return err
	}
	all, err := st.ListKeys(ctx, enplace.Page{})
	if err != nil {
		return fmt.Errorf("looking for operator keys: %w", err)
	}
	for _, k := range all.Items {
		if k.Kind == enplace.KeyOperator && k.RevokedAt == nil {
			out.Others = append(out.Others, k)
		}
	}
	out.Key, err = keys.Recover(ctx, func(secret string) error { return durable.WriteFile(out.File, []byte(secret+"\n"), 0o600) })
	if err != nil {
		return err
	}
	out.Secret = ""
	return c.print(out, func(w io.Writer) { printRecovered(w, c.err, out) })
}

// lost refuses where the file that is to be written holds an operator key that is in force.
func lost(ctx context.Context, keys *access.Keys, file string) error {
	secret, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for an operator key: %w", err)
	}
	switch caller, err := keys.Authenticate(ctx, strings.TrimSpace(string(secret))); {
	case err == nil && caller.Kind == enplace.KeyOperator:
		return enplace.Conflictf("no operator key is lost: %s holds %s, which is in force", file, caller.KeyID).
			WithFix("the command line on this machine uses it; it makes others: enplace key create NAME --kind operator")
	case err != nil && enplace.KindOf(err) != enplace.KindUnauthenticated:
		return err
	}
	return nil
}

func printRecovered(w, notes io.Writer, r recovered) {
	fmt.Fprintln(w, r.File)
	fmt.Fprintf(notes, "%s is the operator key in it\n", r.ID)
	for _, k := range r.Others {
		fmt.Fprintf(notes, "%s (%s, made %s) is in force too; if it is lost: enplace key revoke %s\n", k.ID, printable(k.Name), ago(k.CreatedAt), k.ID)
	}
}
