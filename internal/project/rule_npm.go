package project

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"enplace"
)

// The managers of locks whose project names no version: the newest that reads the form of the lock on the base's Node.js.
const (
	pnpmNow = "pnpm@10.34.8"
	pnpm8   = "pnpm@8.15.9"  // lock files of form 6
	pnpm7   = "pnpm@7.33.7"  // lock files of form 5
	yarn1   = "yarn@1.22.22" // the last of Yarn 1
)

// packageManager is the field of package.json by which a project names its manager: with a version, and perhaps a hash.
var packageManager = regexp.MustCompile(`^((?:pnpm|yarn)@([0-9]+)\.[0-9]+\.[0-9]+)(?:\+.*)?$`)

var pnpmForm = regexp.MustCompile(`(?m)^lockfileVersion: *['"]?([0-9]+)`)

// lockManager gives the manager that a lock needs, as name@version: the one that the project names, or else one that reads the
// lock. It is empty for npm's own locks.
func (p *plan) lockManager(ctx context.Context, lock string, named any) (string, error) {
	name, _ := named.(string)
	g := packageManager.FindStringSubmatch(name)
	switch lock {
	case "pnpm-lock.yaml":
		if g != nil && strings.HasPrefix(name, "pnpm@") {
			return g[1], nil
		}
		raw, err := p.file(ctx, lock)
		if form := pnpmForm.FindSubmatch(raw); form != nil {
			switch string(form[1]) {
			case "5":
				return pnpm7, err
			case "6":
				return pnpm8, err
			}
		}
		return pnpmNow, err
	case "yarn.lock":
		raw, err := p.file(ctx, lock)
		if err != nil {
			return "", err
		}
		if !strings.Contains(string(raw), "# yarn lockfile v1") {
			return "", &enplace.Failure{Reason: enplace.ReasonExit, Message: fmt.Sprintf("%s is of Yarn 2 or later, which is not supported", lock),
				Fixes: []string{"add a package-lock.json (npm install --package-lock-only), or remove yarn.lock to install without a lock"}}
		}
		if g != nil && strings.HasPrefix(name, "yarn@") && g[2] == "1" {
			return g[1], nil
		}
		return yarn1, nil
	}
	return "", nil
}
