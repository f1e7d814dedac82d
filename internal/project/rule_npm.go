package project

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"enplace"
)

// npmRule is what a tree says of its Node packages.
type npmRule struct {
	Package bool     `json:"package,omitempty"` // there is a package.json
	Lock    string   `json:"lock,omitempty"`    // the lock file that is honoured
	Manager string   `json:"manager,omitempty"` // whose lock it is, with its version, when it is not npm's
	Inputs  []string `json:"inputs,omitempty"`
	Direct  []string `json:"-"` // what package.json depends on
}

// readNPM finds out the rule. A lock of another manager is that manager's: npm is never run over it.
func (p *plan) readNPM(ctx context.Context) (npmRule, error) {
	var r npmRule
	raw, err := p.file(ctx, "package.json")
	if err != nil || raw == nil {
		return r, err
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		return r, &enplace.Failure{Reason: enplace.ReasonExit, Message: fmt.Sprintf("package.json is not valid JSON: %v", err), Fixes: []string{"correct the file and build again"}}
	}
	r.Package = true
	for _, lock := range []string{"npm-shrinkwrap.json", "package-lock.json", "pnpm-lock.yaml", "yarn.lock"} {
		if p.isFile(lock) {
			r.Lock = lock
			break
		}
	}
	if r.Manager, err = p.lockManager(ctx, r.Lock, doc["packageManager"]); err != nil {
		return r, err
	}
	// The whole tree counts where folders of it are packages, or where what runs at an install may read anything.
	local := doc["workspaces"] != nil || p.isFile("binding.gyp") // which npm compiles
	for _, field := range []string{"dependencies", "devDependencies", "optionalDependencies"} {
		deps, _ := doc[field].(map[string]any)
		for name, spec := range deps {
			local = local || inTree(spec)
			if field != "optionalDependencies" {
				r.Direct = append(r.Direct, name)
			}
		}
	}
	for _, f := range []string{"package.json", r.Lock, ".npmrc", "pnpm-workspace.yaml", ".yarnrc", ".pnpmfile.cjs"} {
		text, err := p.file(ctx, f)
		if err != nil {
			return r, err
		}
		if text == nil {
			continue
		}
		r.Inputs = append(r.Inputs, f+" "+string(p.has[f].Digest))
		for _, mark := range []string{`"file:`, `"link:`, `"link": true`, `"patchedDependencies"`} {
			local = local || strings.Contains(string(text), mark)
		}
		local = local || f == "pnpm-workspace.yaml"
	}
	scripts, _ := doc["scripts"].(map[string]any)
	for _, hook := range installHooks {
		local = local || scripts[hook] != nil // the project's own scripts read its files
	}
	if local {
		r.Inputs = append(r.Inputs, "tree "+string(p.run.Spec.Snapshot))
	}
	return r, nil
}

// installHooks are the scripts of a project that an install of its packages runs. Source: npm's documentation of scripts.
var installHooks = []string{"preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare", "pnpm:devPreinstall"}

// inTree reports whether a dependency is a folder or an archive of the tree. Source: npm's package-spec.
func inTree(spec any) bool {
	s, _ := spec.(string)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "/") || strings.HasPrefix(s, "~/") {
		return true
	}
	return !strings.Contains(s, "://") && (strings.HasSuffix(s, ".tgz") || strings.HasSuffix(s, ".tar.gz") || strings.HasSuffix(s, ".tar"))
}

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
