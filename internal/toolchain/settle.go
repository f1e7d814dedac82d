package toolchain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"enplace"
	"enplace/internal/plugin"
)

// surroundings are what else is declared along the chains that a plugin's scope is part of.
type surroundings struct {
	enplace.Membership
	items   []enplace.Item // of all scopes, without the plugin's own
	choices []enplace.Choice
	plugins map[string]string // the names of the scope's plugins, by id
}

func (s *Service) others(ctx context.Context, p enplace.Plugin) (surroundings, error) {
	declared, err := s.cfg.Store.Declared(ctx, nil)
	if err != nil {
		return surroundings{}, fmt.Errorf("reading what is declared: %w", err)
	}
	teams, err := s.cfg.Store.ListTeams(ctx, enplace.Page{})
	if err != nil {
		return surroundings{}, fmt.Errorf("reading the teams: %w", err)
	}
	plugins, err := s.cfg.Store.ListPlugins(ctx, p.Scope, enplace.Page{})
	if err != nil {
		return surroundings{}, fmt.Errorf("reading the plugins of %s: %w", p.Scope, err)
	}
	o := surroundings{Membership: enplace.Membership{}, choices: declared.Choices, plugins: map[string]string{}}
	for _, other := range plugins.Items {
		o.plugins[other.ID] = other.Name
	}
	for _, t := range teams.Items {
		o.Membership[t.Name] = t.People
	}
	o.items = slices.DeleteFunc(declared.Items, func(i enplace.Item) bool { return i.Plugin == p.ID })
	return o, nil
}

// room refuses items that a scope has no room for: a set holds the files of all of its items, and is read with each command.
func (o surroundings) room(scope enplace.Scope, items []enplace.Item) error {
	count, bytes := 0, 0
	for i := range o.items {
		if o.items[i].Scope == scope {
			count++
			bytes += size(o.items[i].Definition)
		}
	}
	for i := range items {
		count++
		bytes += size(items[i].Definition)
	}
	if count > enplace.MaxScopeItems || bytes > enplace.MaxScopeBytes {
		return enplace.TooLargef("%s would have %d items with %d bytes of files; the limits are %d and %d", scope, count, bytes, enplace.MaxScopeItems, enplace.MaxScopeBytes).
			WithFix("download in %s what is large, and remove plugins that are not needed", enplace.ItemScriptName)
	}
	return nil
}

func size(d enplace.Definition) (n int) {
	for _, f := range d.Files {
		n += len(f.Path) + len(f.Content)
	}
	return n
}

// settle gives the items of a plugin after new content came, and writes into p what is to be said of it. An item that the new
// content breaks keeps its last good definition, be it in its folder or under its key in another; one that is gone goes, and one
// that has another key in the same folder is offered as it was before. Where the folder of all items cannot be read, all that are
// missed are kept.
func settle(p *enplace.Plugin, have []enplace.Item, others surroundings, got received, now time.Time) []enplace.Item {
	first := len(have) == 0
	p.Commit, p.Digest, p.Error = got.commit, got.digest, nil
	p.SyncedAt, p.TriedAt = now, now
	p.Findings = append([]enplace.Finding{}, got.Findings...)
	var items []enplace.Item
	for _, d := range got.Definitions {
		item := enplace.Item{Definition: d, Scope: p.Scope, Plugin: p.ID, Mode: enplace.ItemAdded, Enabled: true, UpdatedAt: now}
		before, isSame := earlier(have, d, got)
		if before != nil {
			item.Mode, item.Enabled, item.Locked = before.Mode, before.Enabled, before.Locked
			if before.Definition.Hash() == d.Hash() {
				item.UpdatedAt = before.UpdatedAt
			}
		}
		if clash, ok := others.clash(p.Scope, d.Key); ok && !isSame {
			finding := others.clashFinding(p.Scope, d, clash, first)
			p.Findings = append(p.Findings, finding)
			if finding.Severity == enplace.FindingError {
				continue
			}
		}
		item.Findings = ofFolder(got.Findings, d.Folder)
		if before != nil && !isSame {
			renamed := enplace.Finding{Severity: enplace.FindingNotice, Item: d.Folder, File: descriptionOf(d), Line: plugin.KeyLine(d), Message: fmt.Sprintf("the key was %s; the item is offered as it was, and what nearer scopes said of %s does not count for it", before.Key, before.Key)}
			item.Findings, p.Findings = append(item.Findings, renamed), append(p.Findings, renamed)
		}
		items = append(items, item)
	}
	items = append(items, kept(p, have, items, got)...)
	p.Items = keys(items)
	return items
}

// earlier gives the item that a definition takes the place of: the one of its key, or else one of its folder whose key is not
// declared any more.
func earlier(have []enplace.Item, d enplace.Definition, got received) (before *enplace.Item, isSame bool) {
	for i := range have {
		if have[i].Key == d.Key {
			return &have[i], true
		}
	}
	for i := range have {
		declared := slices.ContainsFunc(got.Definitions, func(o enplace.Definition) bool { return o.Key == have[i].Key })
		if have[i].Folder == d.Folder && !declared {
			return &have[i], false
		}
	}
	return nil, false
}

// kept gives the items whose last good definition is kept, and says so: also where the new one is refused for its key.
func kept(p *enplace.Plugin, have, items []enplace.Item, got received) []enplace.Item {
	var all []enplace.Item
	findings := slices.Clone(p.Findings)
	for _, h := range have {
		broken := append(ofFolder(findings, ""), ofFolder(findings, h.Folder)...)
		for folder, key := range got.Broken {
			if key == h.Key && folder != h.Folder {
				broken = append(broken, ofFolder(findings, folder)...)
			}
		}
		if slices.ContainsFunc(items, func(i enplace.Item) bool { return i.Key == h.Key }) || !slices.ContainsFunc(broken, isError) {
			continue
		}
		keeps := enplace.Finding{Severity: enplace.FindingNotice, Item: h.Folder, File: descriptionOf(h.Definition), Message: fmt.Sprintf("the last good definition of %s is kept until this is mended", h.Key)}
		h.Findings = append(broken, keeps)
		p.Findings = append(p.Findings, keeps)
		all = append(all, h)
	}
	return all
}

// descriptionOf gives the file of a plugin that describes an item.
func descriptionOf(d enplace.Definition) string {
	return enplace.Shown(enplace.ItemsFolder+"/"+d.Folder+"/"+enplace.ItemFileName, 400)
}

// clash finds who uses a key in the scope or along a chain already.
func (o surroundings) clash(scope enplace.Scope, key string) (enplace.Item, bool) {
	if i := slices.IndexFunc(o.items, func(i enplace.Item) bool { return i.Scope == scope && i.Key == key }); i >= 0 {
		return o.items[i], true
	}
	return enplace.KeyInUse(scope, key, o.items, o.choices, o.Membership)
}

// clashFinding says what a repeated key means: one that is declared anew is refused, as is one that another plugin of the scope
// has or that the organisation locked; one that comes with a sync is taken, and the nearer definition is used.
func (o surroundings) clashFinding(scope enplace.Scope, d enplace.Definition, other enplace.Item, first bool) enplace.Finding {
	f := enplace.Finding{Severity: enplace.FindingError, Item: d.Folder, File: descriptionOf(d), Line: plugin.KeyLine(d)}
	switch {
	case other.Scope == scope:
		f.Message = fmt.Sprintf("the key %s is used by the plugin %s of this scope; where that is an earlier state of this one, sync it (enplace plugin sync %s/%[2]s), and else choose another name", d.Key, cmp.Or(o.plugins[other.Plugin], other.Plugin), scope)
	case other.Locked:
		f.Message = fmt.Sprintf("the key %s is locked by %s; choose another name", d.Key, other.Scope)
	case first && other.Scope.Depth() > scope.Depth(): // that scope's choices are not this one's
		f.Message = fmt.Sprintf("the key %s is used by an item of %s, and a key can be used once along a chain; choose another name, or have that item renamed or removed first", d.Key, other.Scope)
	case first:
		f.Message = fmt.Sprintf("the key %s is used by an item of %s, and a key can be used once along a chain; choose another name, or switch that item off for this scope first", d.Key, other.Scope)
	default:
		f.Severity = enplace.FindingWarning
		f.Message = fmt.Sprintf("the key %s is used by an item of %s as well; conversations that read both use the nearer one", d.Key, other.Scope)
	}
	return f
}

// ofFolder gives the findings of an item's folder; for "" those of the folder of all items.
func ofFolder(findings []enplace.Finding, folder string) []enplace.Finding {
	var of []enplace.Finding
	for _, f := range findings {
		if f.Item == folder && (folder != "" || f.File == enplace.ItemsFolder) {
			of = append(of, f)
		}
	}
	return of
}

func isError(f enplace.Finding) bool { return f.Severity == enplace.FindingError }
