// Package first lets a program be a shim before anything else happens in it. Packages are initialised in the order of their
// paths, each after what it imports, so one that imports little comes before all that the guest links for its other work;
// that is half of what a shim costs. The guest's program imports it, and nothing else may.
package first

import (
	"os"

	"enplace/internal/shim"
)

func init() { shim.Become(os.Args, os.Environ()) } //nolint:gochecknoinits // the point of the package
