package project

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/build"
)

// listScript prints what lies in node_modules, as JSON. It runs inside the sandbox.
//
//go:embed inspect.js
var listScript string

// inspectNPM finds out what was installed. A declared package without the file of its command ends the build: its install script
// failed and said nothing.
func (p *plan) inspectNPM(ctx context.Context, sh *build.Shell, declared, warnings []string) (any, error) {
	raw, err := sh.Output(ctx, build.Cmd{Argv: []string{"node", "-e", listScript, p.root}, Dir: "/", Env: p.buildEnv()})
	if err != nil {
		return nil, err
	}
	var got struct {
		Packages []struct {
			Name, Version, Integrity, Resolved string
			Scripts                            bool
			Hollow                             []string // commands whose file is not there
		} `json:"packages"`
		Caches []string `json:"caches"`
	}
	if err := decodeJSON(raw, &got); err != nil {
		return nil, err
	}
	direct := map[string]bool{}
	for _, entry := range declared {
		if pkg, err := enplace.ParsePackage(enplace.NPM, entry); err == nil {
			direct[pkg.Name] = true
		}
	}
	for _, g := range got.Packages {
		if len(g.Hollow) == 0 {
			continue
		}
		what := fmt.Sprintf("%s declares the command %s, whose file is not there", g.Name, strings.Join(g.Hollow, ", "))
		if direct[g.Name] || slices.Contains(p.npm.Direct, g.Name) {
			return nil, &enplace.Failure{Reason: enplace.ReasonExit, Message: what,
				Fixes: []string{"its install script may have failed without saying so: see the log", "declare another version"}}
		}
		warnings = append(warnings, what)
	}
	found := npmFindings{Packages: []enplace.ResolvedPackage{}, Caches: got.Caches, Warnings: warnings}
	for _, g := range got.Packages {
		found.Packages = append(found.Packages, enplace.ResolvedPackage{
			Manager: enplace.NPM, Name: g.Name, Version: g.Version, Hash: g.Integrity, Source: g.Resolved, Direct: direct[g.Name],
		})
		if g.Scripts && p.scripts() {
			found.Scripts = append(found.Scripts, g.Name+"@"+g.Version)
		}
	}
	return found, nil
}
