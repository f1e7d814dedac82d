package toolchain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/store"
)

// ListItems gives the items that a scope declares or inherits, the organisation's first and by key within each scope, with what
// becomes of each in a conversation that reads just this scope and those above it. They come without their files, which may be large.
func (s *Service) ListItems(ctx context.Context, c enplace.Caller, raw enplace.Scope, p enplace.Page) (enplace.List[enplace.ListedItem], error) {
	var l enplace.List[enplace.ListedItem]
	var after struct {
		scope enplace.Scope
		key   string
	}
	if err := store.ParseCursor(p.Cursor, &after.scope, &after.key); err != nil {
		return l, err
	}
	scope, err := enplace.ParseScope(string(raw))
	if err != nil {
		return l, err
	}
	if err := s.mayScope(c, access.Read, scope); err != nil {
		return l, err
	}
	if scope, err = s.knownScope(ctx, scope); err != nil {
		return l, err
	}
	chain, err := s.chainOf(ctx, scope)
	if err != nil {
		return l, err
	}
	declared, err := s.cfg.Store.Declared(ctx, chain)
	if err != nil {
		return l, fmt.Errorf("reading items: %w", err)
	}
	set := enplace.ResolveSet(enplace.SetInput{Chain: chain, Items: declared.Items, Choices: declared.Choices})
	var items []enplace.ListedItem
	for _, item := range declared.Items {
		if p.Cursor != "" && cmp.Or(cmp.Compare(item.Scope.Depth(), after.scope.Depth()), cmp.Compare(item.Key, after.key)) <= 0 {
			continue // a chain has one scope of each depth
		}
		listed := enplace.ListedItem{Item: item}
		listed.InSet, listed.Reason = reasonFor(set, item, declared.Choices)
		listed.Files = []enplace.ItemFile{}
		for _, choice := range declared.Choices {
			if choice.Scope == scope && choice.Key == item.Key {
				listed.Choice = choice.State
			}
		}
		items = append(items, listed)
	}
	return store.PageOf(items, p, func(i enplace.ListedItem) string { return store.Cursor(i.Scope, i.Key) }), nil
}

// chainOf gives the chain of a conversation that reads a scope and those above it.
func (s *Service) chainOf(ctx context.Context, scope enplace.Scope) (enplace.Chain, error) {
	if scope.Person() != "" {
		return s.chain(ctx, enplace.Conversation{Kind: enplace.ConversationDirect, Person: scope.Person()})
	}
	return enplace.NewChain(scope.Team(), ""), nil
}

func reasonFor(set enplace.Set, item enplace.Item, choices []enplace.Choice) (bool, string) {
	for _, left := range set.Left {
		if left.Key == item.Key && left.Scope == item.Scope {
			return false, left.Reason
		}
	}
	for _, clash := range set.Clashes {
		if clash.Key == item.Key && clash.Unused == item.Scope {
			return false, fmt.Sprintf("%s declares this key too: %s", clash.Used, clash.Reason)
		}
	}
	why := fmt.Sprintf("%s in %s", item.Mode, item.Scope)
	for _, scope := range slices.Backward(set.Chain) {
		for _, choice := range choices {
			if item.Mode == enplace.ItemAvailable && choice.Key == item.Key && choice.Scope == scope && choice.State == enplace.ChoiceAdded {
				return true, why + ", added by " + string(scope)
			}
		}
	}
	return true, why
}

// Item gives one item of a scope.
func (s *Service) Item(ctx context.Context, c enplace.Caller, raw enplace.Scope, key string) (enplace.Item, error) {
	scope, err := enplace.ParseScope(string(raw))
	if err != nil {
		return enplace.Item{}, err
	}
	if err := s.mayScope(c, access.Read, scope); err != nil {
		return enplace.Item{}, err
	}
	item, err := s.cfg.Store.Item(ctx, scope, key)
	return item, s.missingItem(ctx, err, scope, key)
}

// UpdateItem changes how an item is offered by its own scope.
func (s *Service) UpdateItem(ctx context.Context, c enplace.Caller, raw enplace.Scope, key string, in enplace.UpdateItem) (enplace.Item, error) {
	scope, err := enplace.ParseScope(string(raw))
	if err != nil {
		return enplace.Item{}, err
	}
	if err := s.mayScope(c, access.Write, scope); err != nil {
		return enplace.Item{}, err
	}
	if in.Mode != nil && *in.Mode != enplace.ItemAdded && *in.Mode != enplace.ItemAvailable {
		return enplace.Item{}, enplace.Invalidf("%q is none of added, available", *in.Mode).WithField("mode")
	}
	if in.Locked != nil && *in.Locked && scope != enplace.Organisation {
		return enplace.Item{}, enplace.Invalidf("only items of the organisation can be locked").WithField("locked")
	}
	item, err := s.cfg.Store.UpdateItem(ctx, scope, key, func(i *enplace.Item) error {
		if in.Mode != nil {
			i.Mode = *in.Mode
		}
		if in.Enabled != nil {
			i.Enabled = *in.Enabled
		}
		if in.Locked != nil {
			i.Locked = *in.Locked
		}
		i.UpdatedAt = s.cfg.Now().UTC()
		return nil
	})
	if err != nil {
		return enplace.Item{}, s.missingItem(ctx, err, scope, key)
	}
	s.cfg.Audit.Record(ctx, c, "item.update", string(scope)+" "+key, map[string]any{"mode": item.Mode, "enabled": item.Enabled, "locked": item.Locked})
	return item, nil
}

// missingItem answers for an item that its scope does not declare. Where the scope inherits one of that key, it says whose that is: who
// may see a scope may see all that it reads.
func (s *Service) missingItem(ctx context.Context, err error, scope enplace.Scope, key string) error {
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if chain, failed := s.reads(ctx, scope); failed == nil {
		declared, failed := s.cfg.Store.Declared(ctx, chain)
		for _, item := range declared.Items {
			if failed == nil && item.Key == key && item.Scope != scope {
				return enplace.NotFoundf("%s does not declare the item %s: %s does, and %[1]s inherits it", scope, key, item.Scope).
					WithFix("enplace item off %s %s keeps it out of the sets of %[1]s; enplace item add and item inherit take that back", scope, key).
					WithFix("enplace item show %s %s shows it; enplace item set %[1]s %[2]s changes it for all who inherit it", item.Scope, key)
			}
		}
	}
	return missing(err, "item", string(scope)+" "+key)
}

// PutChoice sets what a scope wants of an item that it reads.
func (s *Service) PutChoice(ctx context.Context, c enplace.Caller, raw enplace.Scope, key string, in enplace.PutChoice) error {
	scope, err := enplace.ParseScope(string(raw))
	if err != nil {
		return err
	}
	if err := s.mayScope(c, access.Write, scope); err != nil {
		return err
	}
	if scope, err = s.knownScope(ctx, scope); err != nil {
		return err
	}
	if !slices.Contains([]enplace.ItemChoice{enplace.ChoiceAdded, enplace.ChoiceOff, enplace.ChoiceInherit}, in.State) {
		return enplace.Invalidf("%q is none of added, off, inherit", in.State).WithField("state")
	}
	if in.State != enplace.ChoiceInherit {
		if err := s.checkChoice(ctx, scope, key, in.State); err != nil {
			return err
		}
	}
	if err := s.cfg.Store.PutChoice(ctx, enplace.Choice{Scope: scope, Key: key, State: in.State}, s.cfg.Now().UTC()); err != nil {
		return missing(err, "item", key)
	}
	s.cfg.Audit.Record(ctx, c, "item.choose", string(scope)+" "+key, map[string]any{"state": in.State})
	return nil
}

// checkChoice refuses a choice that could have no effect: about nothing that the scope reads, about what is locked, or "off"
// of what the scope itself declares. A person's choice may be about an item of any of their teams.
func (s *Service) checkChoice(ctx context.Context, scope enplace.Scope, key string, state enplace.ItemChoice) error {
	chain, err := s.reads(ctx, scope)
	if err != nil {
		return err
	}
	declared, err := s.cfg.Store.Declared(ctx, chain)
	if err != nil {
		return fmt.Errorf("reading items: %w", err)
	}
	about := slices.DeleteFunc(declared.Items, func(i enplace.Item) bool { return i.Key != key })
	if len(about) == 0 {
		return enplace.NotFoundf("%s reads no item %s", scope, enplace.Shown(key, 80)).WithFix("enplace item list --scope %s shows those that it reads", scope)
	}
	for _, item := range about {
		if item.Locked && item.Scope == enplace.Organisation && scope != enplace.Organisation {
			return enplace.Errorf(enplace.KindForbidden, "the organisation locked %s, so %s can neither add it nor switch it off", key, scope)
		}
	}
	if state == enplace.ChoiceOff && !slices.ContainsFunc(about, func(i enplace.Item) bool { return i.Scope != scope }) {
		return enplace.Invalidf("%s declares %s itself; disable it instead", scope, key).WithFix("enplace item set %s %s --disable", scope, key)
	}
	return nil
}

// reads gives every scope that some conversation of a scope reads.
func (s *Service) reads(ctx context.Context, scope enplace.Scope) ([]enplace.Scope, error) {
	all := []enplace.Scope{enplace.Organisation}
	if scope.Person() != "" {
		p, err := s.cfg.Store.Person(ctx, scope.Person())
		if err != nil {
			return nil, missing(err, "person", scope.Person())
		}
		for _, team := range p.Teams {
			all = append(all, enplace.TeamScope(team))
		}
	}
	if scope != enplace.Organisation {
		all = append(all, scope)
	}
	return all, nil
}

// PutEgress sets what computers of conversations that read a scope may reach; nil leaves it to the other scopes.
func (s *Service) PutEgress(ctx context.Context, c enplace.Caller, raw enplace.Scope, e *enplace.Egress) error {
	scope, err := enplace.ParseScope(string(raw))
	if err != nil {
		return err
	}
	if err := s.mayScope(c, access.Write, scope); err != nil {
		return err
	}
	if scope, err = s.knownScope(ctx, scope); err != nil {
		return err
	}
	if e != nil {
		if err := e.Check(""); err != nil {
			return err
		}
	}
	if err := s.cfg.Store.PutEgress(ctx, scope, e, s.cfg.Now().UTC()); err != nil {
		return fmt.Errorf("keeping an egress policy: %w", err)
	}
	s.cfg.Audit.Record(ctx, c, "scope.egress", string(scope), map[string]any{"egress": e})
	return nil
}

// Egress gives the policy of a scope; nil when it has none.
func (s *Service) Egress(ctx context.Context, c enplace.Caller, raw enplace.Scope) (*enplace.Egress, error) {
	scope, err := enplace.ParseScope(string(raw))
	if err != nil {
		return nil, err
	}
	if err := s.mayScope(c, access.Read, scope); err != nil {
		return nil, err
	}
	if scope, err = s.knownScope(ctx, scope); err != nil {
		return nil, err
	}
	declared, err := s.cfg.Store.Declared(ctx, []enplace.Scope{scope})
	if err != nil {
		return nil, fmt.Errorf("reading an egress policy: %w", err)
	}
	if e, ok := declared.Egress[scope]; ok {
		return &e, nil
	}
	return nil, nil
}
