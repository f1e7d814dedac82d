package toolchain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/store"
)

// maxCandidates is how many plugins an error names that a name could stand for, so that it can be read.
const maxCandidates = 10

// mayPlugin says whether the caller may do that to a plugin of a scope; ref is how the caller named it.
func mayPlugin(c enplace.Caller, a access.Action, scope enplace.Scope, ref string) error {
	return access.Check(c, a, access.Thing{What: "plugin", ID: ref, Owner: scope.Person(), Shared: scope.Person() == ""})
}

// plugin gives a plugin that the caller may do an action to. ref is its id, its name where no other plugin that the caller may see
// has it, or SCOPE/NAME.
func (s *Service) plugin(ctx context.Context, c enplace.Caller, a access.Action, ref string) (enplace.Plugin, error) {
	id, err := s.pluginID(ctx, c, ref)
	if err != nil {
		return enplace.Plugin{}, err
	}
	p, err := s.cfg.Store.Plugin(ctx, id)
	if err != nil {
		return enplace.Plugin{}, missing(err, "plugin", ref)
	}
	if scope, _, ok := strings.Cut(ref, "/"); ok && p.Scope != enplace.Scope(scope) {
		return enplace.Plugin{}, missing(store.ErrNotFound, "plugin", ref)
	}
	return p, mayPlugin(c, a, p.Scope, ref)
}

// pluginID gives the id that a ref stands for. No name has the form of an id.
func (s *Service) pluginID(ctx context.Context, c enplace.Caller, ref string) (string, error) {
	raw, name, scoped := strings.Cut(ref, "/")
	if !scoped {
		name = raw
	} else if _, err := enplace.ParseScope(raw); err != nil {
		return "", err
	}
	if enplace.ValidID(enplace.PrefixPlugin, name) {
		return name, nil
	}
	if enplace.CheckHandle("plugin", name) != nil {
		return "", missing(store.ErrNotFound, "plugin", ref)
	}
	found, err := s.cfg.Store.PluginsNamed(ctx, name)
	if err != nil {
		return "", fmt.Errorf("finding a plugin: %w", err)
	}
	var scopes []enplace.Scope
	for scope := range found {
		if (!scoped || scope == enplace.Scope(raw)) && mayPlugin(c, access.Read, scope, ref) == nil {
			scopes = append(scopes, scope)
		}
	}
	switch len(scopes) {
	case 0:
		return "", missing(store.ErrNotFound, "plugin", ref)
	case 1:
		return found[scopes[0]], nil
	}
	return "", ambiguous(name, scopes)
}

// ambiguous is the error for a name that plugins of several scopes have.
func ambiguous(name string, scopes []enplace.Scope) error {
	slices.SortFunc(scopes, func(a, b enplace.Scope) int { return cmp.Or(cmp.Compare(a.Depth(), b.Depth()), cmp.Compare(a, b)) })
	var refs []string
	for _, scope := range scopes[:min(len(scopes), maxCandidates)] {
		refs = append(refs, string(scope)+"/"+name)
	}
	if more := len(scopes) - maxCandidates; more > 0 {
		refs = append(refs, fmt.Sprintf("and %d more", more))
	}
	return enplace.Invalidf("%d plugins are called %s: %s", len(scopes), name, strings.Join(refs, ", ")).WithField("plugin").
		WithFix("say which: write %s, or give the scope beside the name", refs[0])
}
