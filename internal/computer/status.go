package computer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/provision"
	"enplace/internal/store"
	"enplace/internal/transcript"
)

// Get gives a computer as it stands.
func (s *Service) Get(ctx context.Context, c enplace.Caller, id string) (enplace.Computer, error) {
	if err := s.cfg.Toolchain.MayComputer(ctx, c, access.Read, id); err != nil {
		return enplace.Computer{}, err
	}
	rec, err := s.cfg.Store.Computer(ctx, id)
	if err != nil {
		return enplace.Computer{}, unknown(err, id)
	}
	volumes, err := s.cfg.Runtime.Durables(ctx)
	if err != nil {
		return enplace.Computer{}, fmt.Errorf("measuring computers: %w", err)
	}
	out := s.live(rec, volumes)
	if out.State == enplace.ComputerRunning {
		out.Local = s.local(ctx, rec)
	}
	out.Sets, err = s.selected(ctx, id, out.Sets)
	return out, err
}

// local looks at what was installed inside, and keeps it for when the computer is stopped. A computer that does not say is shown as
// it was last seen.
func (s *Service) local(ctx context.Context, rec store.ComputerRecord) []enplace.ToolStatus {
	m := s.machine(rec.ID)
	m.mu.Lock()
	box := m.box
	m.mu.Unlock()
	if box == nil {
		return rec.Local
	}
	tools, err := provision.Local(ctx, box)
	if err != nil {
		s.cfg.Logger.Warn("a computer does not say what is installed inside", "computer", rec.ID, "err", err)
		return rec.Local
	}
	same := func(a, b enplace.ToolStatus) bool {
		return a.Name == b.Name && a.Requested == b.Requested && a.Resolved == b.Resolved
	}
	if !slices.EqualFunc(tools, rec.Local, same) {
		if _, err := m.update(ctx, func(r *store.ComputerRecord) { r.Local = tools }); err != nil {
			s.cfg.Logger.Error("recording what is installed inside", "computer", rec.ID, "err", err)
		}
	}
	return tools
}

// live adds to a record what only the running process knows.
func (s *Service) live(rec store.ComputerRecord, volumes map[string]int64) enplace.Computer {
	out := rec.Computer
	out.DiskBytes = volumes[volumeOf(rec.ID)]
	out.State = enplace.ComputerStopped
	out.Sets = append([]enplace.ComputerSet{}, rec.Sets...)
	if m := s.known(rec.ID); m != nil {
		m.mu.Lock()
		useSets(out.Sets, m.selected)
		for i := range out.Sets {
			out.Sets[i].RetryAt = m.nextTry(out.Sets[i])
		}
		if m.box != nil && !stopped(m.box) {
			out.State = enplace.ComputerRunning
		}
		if m.commands != nil { // newer than the record, or the same
			out.Commands, out.UsedAt = slices.Clone(m.commands), m.used.UTC()
		}
		m.mu.Unlock()
	}
	return out
}

// List gives the computers that the caller may see, by id.
func (s *Service) List(ctx context.Context, c enplace.Caller, p enplace.Page) (enplace.List[enplace.Computer], error) {
	var out enplace.List[enplace.Computer]
	if err := access.CheckList(c, "computers"); err != nil {
		return out, err
	}
	l, err := store.Visible(p,
		func(p enplace.Page) (enplace.List[store.ComputerRecord], error) {
			return s.cfg.Store.ListComputers(ctx, p)
		},
		func(rec store.ComputerRecord) error { return s.cfg.Toolchain.MayComputer(ctx, c, access.Read, rec.ID) },
		func(rec store.ComputerRecord) string { return store.Cursor(rec.ID) })
	if err != nil {
		return out, fmt.Errorf("listing computers: %w", err)
	}
	volumes, err := s.cfg.Runtime.Durables(ctx)
	if err != nil {
		return out, fmt.Errorf("measuring computers: %w", err)
	}
	out.Items, out.Next = []enplace.Computer{}, l.Next
	for _, rec := range l.Items {
		out.Items = append(out.Items, s.live(rec, volumes))
	}
	return out, nil
}

// Errors gives the error log of a computer, newest first.
func (s *Service) Errors(ctx context.Context, c enplace.Caller, id string, p enplace.Page) (enplace.List[enplace.ComputerError], error) {
	if err := s.cfg.Toolchain.MayComputer(ctx, c, access.Read, id); err != nil {
		return enplace.List[enplace.ComputerError]{}, err
	}
	l, err := s.cfg.Store.ListComputerErrors(ctx, id, p)
	return l, unknown(err, id)
}

// Reset removes a computer with all its files. The next command of one of its conversations makes another.
func (s *Service) Reset(ctx context.Context, c enplace.Caller, id string) error {
	if err := s.cfg.Toolchain.MayComputer(ctx, c, access.Write, id); err != nil {
		return err
	}
	if !s.started.Load() {
		return errStarting
	}
	if err := s.machine(id).reset(ctx); err != nil {
		return err
	}
	s.cfg.Audit.Record(ctx, c, "computer.reset", id, nil)
	return nil
}

// Stop stops a computer, whoever uses it; the next command starts it with its files and tools as they were. Commands that run are
// ended, and answer that the computer stopped. One that is stopped stays so. Whoever may run commands there may stop it: root
// inside could end all of them anyway.
func (s *Service) Stop(ctx context.Context, c enplace.Caller, id string) (enplace.Computer, error) {
	if err := s.cfg.Toolchain.MayComputer(ctx, c, access.Run, id); err != nil {
		return enplace.Computer{}, err
	}
	if !s.started.Load() {
		return enplace.Computer{}, errStarting
	}
	if _, err := s.cfg.Store.Computer(ctx, id); err != nil {
		return enplace.Computer{}, unknown(err, id)
	}
	m := s.machine(id)
	ran := m.runs()
	if err := m.shut(ctx); err != nil {
		return enplace.Computer{}, err
	}
	if ran {
		s.cfg.Audit.Record(ctx, c, "computer.stop", id, nil)
	}
	return s.Get(ctx, c, id)
}

// Set gives the set of a conversation as it stands on its computer.
func (s *Service) Set(ctx context.Context, c enplace.Caller, conversation string) (enplace.ConversationSet, error) {
	set, have, err := s.state(ctx, c, conversation)
	if err != nil {
		return enplace.ConversationSet{}, err
	}
	out := enplace.ConversationSet{
		Hash: set.Hash, Chain: set.Chain, Items: []enplace.InstalledItem{}, RetryAt: have.RetryAt, Bundle: set.Bundle, Egress: set.Egress, Left: set.Left, Clashes: set.Clashes,
	}
	for _, item := range set.Items {
		out.Items = append(out.Items, standing(have, item))
	}
	return out, nil
}

// state gives a conversation's set, and how it stands on the computer.
func (s *Service) state(ctx context.Context, c enplace.Caller, conversation string) (set store.SetRecord, have enplace.ComputerSet, err error) {
	conv, err := s.cfg.Toolchain.Conversation(ctx, c, access.Read, conversation)
	if err != nil {
		return set, have, err
	}
	if set, err = s.cfg.Toolchain.SetOf(ctx, conv); err != nil {
		return set, have, err
	}
	stored, err := s.cfg.Toolchain.Stored(ctx, set.Hash)
	if err != nil {
		return set, have, err
	}
	set.Bundle = stored.Bundle
	rec, err := s.cfg.Store.Computer(ctx, conv.ComputerID())
	if err != nil && !errors.Is(err, store.ErrNotFound) { // of one that is not made yet everything is pending
		return set, have, fmt.Errorf("reading a computer: %w", err)
	}
	have = find(rec, set.Hash)
	if m := s.known(conv.ComputerID()); m != nil {
		m.mu.Lock()
		have.RetryAt = m.nextTry(have)
		m.mu.Unlock()
	}
	return set, have, nil
}

// standing gives an item as it stands: pending where nothing was done for it yet.
func standing(have enplace.ComputerSet, item enplace.SetItem) enplace.InstalledItem {
	if i := same(have.Items, item.Key, item.Scope); i >= 0 {
		return have.Items[i].InstalledItem
	}
	i := enplace.InstalledItem{Key: item.Key, Scope: item.Scope, Status: enplace.ItemPending, Tools: []enplace.ToolStatus{}}
	for _, t := range item.Tools {
		i.Tools = append(i.Tools, enplace.ToolStatus{Name: t.Name, Requested: t.Version, Status: enplace.ItemPending})
	}
	return i
}

// Explain gives for each tool of a conversation's set which scope, item and line gave it, and why the set is what it is.
func (s *Service) Explain(ctx context.Context, c enplace.Caller, conversation string) (enplace.ExplainedSet, error) {
	set, have, err := s.state(ctx, c, conversation)
	if err != nil {
		return enplace.ExplainedSet{}, err
	}
	out := enplace.ExplainedSet{
		Hash: set.Hash, Chain: set.Chain, Tools: []enplace.ExplainedTool{}, Scripts: []enplace.SetScript{}, Egress: set.Egress, Left: set.Left, Clashes: set.Clashes,
	}
	if out.From, err = s.cfg.Toolchain.Policies(ctx, set.Chain); err != nil {
		return out, err
	}
	items := []enplace.InstalledItem{}
	for _, item := range set.Items {
		items = append(items, standing(have, item))
	}
	overridden := provision.Overridden(set.Set, items)
	for n, item := range set.Items {
		now := items[n]
		for _, t := range item.Tools {
			status := enplace.ToolStatus{Name: t.Name, Requested: t.Version, Status: now.Status}
			if i := slices.IndexFunc(now.Tools, func(have enplace.ToolStatus) bool { return have.Name == t.Name && have.Requested == t.Version }); i >= 0 {
				status = now.Tools[i]
				status.Status = cmp.Or(status.Status, now.Status) // older records have none
			}
			out.Tools = append(out.Tools, enplace.ExplainedTool{
				ToolStatus: status, Item: item.Key, Scope: item.Scope, Line: t.Line, ItemStatus: now.Status,
				File:       enplace.ItemsFolder + "/" + item.Folder + "/" + enplace.ItemMiseName,
				Overridden: overridden[provision.VersionKey(item.Scope, item.Key, t.Name)],
			})
		}
		if _, ok := item.File(enplace.ItemScriptName); ok {
			out.Scripts = append(out.Scripts, enplace.SetScript{Item: item.Key, Scope: item.Scope, State: now.Status})
		}
	}
	return out, nil
}

// Retry tries a set again at once on every running computer where it failed; on others it is tried at their next use. Where it is
// in place it is looked at again at the next use, and what is gone is installed: whoever is root inside can remove anything. It
// says on how many.
func (s *Service) Retry(ctx context.Context, c enplace.Caller, hash string) (int, error) {
	if err := access.Check(c, access.Run, access.Thing{What: "set", ID: hash, Shared: true}); err != nil {
		return 0, err
	}
	if _, err := s.cfg.Toolchain.Stored(ctx, hash); err != nil {
		return 0, err
	}
	l, err := s.cfg.Store.ListComputers(ctx, enplace.Page{})
	if err != nil {
		return 0, fmt.Errorf("finding the computers of a set: %w", err)
	}
	n := 0
	for _, rec := range l.Items {
		state := find(rec, hash)
		switch err := s.cfg.Toolchain.MayComputer(ctx, c, access.Run, rec.ID); enplace.KindOf(err) {
		case "":
		case enplace.KindNotFound, enplace.KindForbidden:
			continue
		default:
			return n, err
		}
		m := s.machine(rec.ID)
		if !m.retryNow(hash) {
			if state.Attempts == 0 { // its first try is to come
				continue
			}
			if _, err := m.update(ctx, func(r *store.ComputerRecord) {
				state := setOf(r, hash)
				state.AppliedAt, state.TriedAt, state.RetryAt = nil, nil, nil
			}); err != nil {
				return n, err
			}
		}
		n++
	}
	if n > 0 {
		s.cfg.Audit.Record(ctx, c, "set.retry", hash, map[string]any{"computers": n})
	}
	return n, nil
}

// Log opens the log of the last installation of a set on a computer.
func (s *Service) Log(ctx context.Context, c enplace.Caller, id, hash string) (*transcript.Reader, error) {
	if _, err := s.Get(ctx, c, id); err != nil {
		return nil, err
	}
	if enplace.Digest("sha256:"+hash).Hex() == "" {
		return nil, enplace.Invalidf("%q is no hash of a set", enplace.Shown(hash, 80)).WithField("set")
	}
	r, err := transcript.Open(s.logPath(id, hash))
	if errors.Is(err, os.ErrNotExist) {
		return nil, enplace.NotFoundf("this set was not installed on %s", id)
	}
	return r, err
}
