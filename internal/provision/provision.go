// Package provision brings a set onto a sandbox: its tools by mise, its scripts, and the shims through which commands find
// them; then it reads back what is really there. A computer's installation and a bundle's build are the same work, done here.
//
// Whoever calls has the box to itself: two passes at once would install over each other. What runs inside is anyone's; nothing
// that a box answers is believed beyond the state of that box.
package provision

import (
	"context"
	"io"
	"time"

	"enplace"
	"enplace/internal/sandbox"
)

// Box is what provision needs of a sandbox.
type Box interface {
	Exec(ctx context.Context, c sandbox.Command) (sandbox.Exit, error)
}

// Job is a set to bring onto a box.
type Job struct {
	Set enplace.Set

	// Have is how the items stood when this set was last applied to this box, or restored with a bundle: what is installed by
	// the same definition is verified, and installed again only where that fails. What was interrupted or failed is redone.
	Have []enplace.InstalledItem

	// Versions are the exact versions to install instead of those asked for, by VersionKey: those that the set's bundle has.
	// Versions makes it of a bundle's items.
	Versions map[string]string

	// Sources say where those versions are fetched from, and what must come then. SourcesOf makes it of a bundle's items.
	Sources Sources

	// Token is one for GitHub, by which it lets itself be asked more often. Only for a box in which nothing but its base has run:
	// whoever is root in a box can read what a process of it is given. It is used before anything else of the set.
	Token string

	Timeout  time.Duration               // of each script, and of each run of mise; default enplace.DefaultScriptTimeout
	Log      io.Writer                   // what is run and printed, as it comes; nil drops it. It is the caller's to redact, and safe for concurrent use
	Redact   func(string) string         // of what goes into errors and tails; required
	Progress func(enplace.InstalledItem) // called at each change of an item, from one goroutine; may be nil
	Default  bool                        // the box's own set: what a shim without any hint takes
}

// Result is how the items stand, and what their tools export.
type Result struct {
	Items   []enplace.InstalledItem
	Exports []string // KEY=value, ordered; PATH has the folders of items alone

	// Limited is for how long a source refuses to be asked again by something that failed, as it said itself: an hour at most, and
	// zero where none did.
	Limited time.Duration
}

// VersionKey names a tool of an item in Job.Versions.
func VersionKey(scope enplace.Scope, key, tool string) string {
	return string(scope) + " " + key + " " + tool
}

// Versions gives the exact versions of items as they stand, for Job.Versions. Those of a tool that is asked for in several
// versions are separated by spaces.
func Versions(items []enplace.InstalledItem) map[string]string {
	all := map[string]string{}
	for _, i := range items {
		for _, t := range i.Tools {
			k := VersionKey(i.Scope, i.Key, t.Name)
			switch had := all[k]; {
			case t.Resolved == "":
			case had == "":
				all[k] = t.Resolved
			default:
				all[k] = had + " " + t.Resolved
			}
		}
	}
	return all
}
