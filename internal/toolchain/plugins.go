package toolchain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/store"
)

// mayScope says whether the caller may do that to what a scope declares: operators everything, a person everything to their own
// scope, and whoever belongs to the organisation may look.
func (s *Service) mayScope(c enplace.Caller, a access.Action, scope enplace.Scope) error {
	return access.Check(c, a, access.Thing{What: "scope", ID: string(scope), Owner: scope.Person(), Shared: scope.Person() == ""})
}

// knownScope reads a scope and refuses one whose team or person is not there.
func (s *Service) knownScope(ctx context.Context, raw enplace.Scope) (enplace.Scope, error) {
	scope, err := enplace.ParseScope(string(raw))
	if err != nil {
		return "", err
	}
	switch {
	case scope.Team() != "":
		_, err = s.cfg.Store.Team(ctx, scope.Team())
		err = absent(err, "team", scope.Team(), "scope", "make it first: enplace team put NAME --person LOGIN")
	case scope.Person() != "":
		_, err = s.cfg.Store.Person(ctx, scope.Person())
		err = absent(err, "person", scope.Person(), "scope", "make them first: enplace person put LOGIN")
	}
	return scope, err
}

// CreatePlugin attaches a git repository to a scope and takes its items. Items that cannot be taken are told in the findings;
// a plugin of which none can be is refused.
func (s *Service) CreatePlugin(ctx context.Context, c enplace.Caller, in enplace.CreatePlugin) (enplace.Plugin, error) {
	p, err := s.newPlugin(ctx, c, in.Scope, in.Name)
	if err != nil {
		return enplace.Plugin{}, err
	}
	p.Source = trimmed(in.Source)
	got, err := s.fetch(ctx, p.Source)
	if err != nil {
		return enplace.Plugin{}, err
	}
	return s.attach(ctx, c, p, got)
}

// CreatePluginArchive does the same with an archive.
func (s *Service) CreatePluginArchive(ctx context.Context, c enplace.Caller, scope enplace.Scope, name string, archive io.Reader) (enplace.Plugin, error) {
	p, err := s.newPlugin(ctx, c, scope, name)
	if err != nil {
		return enplace.Plugin{}, err
	}
	got, err := s.unpack(ctx, archive)
	if err != nil {
		return enplace.Plugin{}, err
	}
	return s.attach(ctx, c, p, got)
}

func (s *Service) newPlugin(ctx context.Context, c enplace.Caller, raw enplace.Scope, name string) (enplace.Plugin, error) {
	scope, err := enplace.ParseScope(string(raw))
	if err != nil {
		return enplace.Plugin{}, err
	}
	if err := s.mayScope(c, access.Write, scope); err != nil {
		return enplace.Plugin{}, err
	}
	if scope, err = s.knownScope(ctx, scope); err != nil {
		return enplace.Plugin{}, err
	}
	if err := enplace.CheckHandle("name", name); err != nil {
		return enplace.Plugin{}, err
	}
	named, err := s.cfg.Store.PluginsNamed(ctx, name)
	if err != nil {
		return enplace.Plugin{}, fmt.Errorf("looking for the plugin's name: %w", err)
	}
	if named[scope] != "" { // before anything is fetched
		return enplace.Plugin{}, taken(enplace.Conflictf("%s has a plugin %s", scope, name).WithField("name"), scope, name)
	}
	now := s.cfg.Now().UTC().Truncate(time.Microsecond) // as it is kept
	return enplace.Plugin{ID: enplace.NewID(enplace.PrefixPlugin, now), Name: name, Scope: scope, CreatedAt: now}, nil
}

func (s *Service) attach(ctx context.Context, c enplace.Caller, p enplace.Plugin, got received) (enplace.Plugin, error) {
	others, err := s.others(ctx, p)
	if err != nil {
		return enplace.Plugin{}, err
	}
	items := settle(&p, nil, others, got, p.CreatedAt)
	if len(items) == 0 {
		return enplace.Plugin{}, refused(p.Findings)
	}
	if err := others.room(p.Scope, items); err != nil {
		return enplace.Plugin{}, err
	}
	err = s.cfg.Store.CreatePlugin(ctx, p, items)
	if errors.Is(err, store.ErrExists) {
		return enplace.Plugin{}, taken(enplace.Conflictf("%s has a plugin %s, or an item of one of these keys: %s", p.Scope, p.Name, strings.Join(p.Items, ", ")), p.Scope, "NAME")
	}
	if err != nil {
		return enplace.Plugin{}, absent(err, "scope", string(p.Scope), "scope", "make its team or person first")
	}
	s.cfg.Audit.Record(ctx, c, "plugin.create", p.ID, map[string]any{"scope": p.Scope, "name": p.Name, "items": p.Items, "commit": p.Commit})
	return p, nil
}

// taken says what to do about a plugin that is there already.
func taken(e *enplace.Error, scope enplace.Scope, name string) error {
	return e.WithFix("choose another name, or send the new content to the plugin that is there: enplace plugin sync %s/%s", scope, name)
}

// maxRefusals is how many findings an error names, so that it can be read.
const maxRefusals = 10

// refused is the error for a plugin without any item that can be taken. The message has what is wrong first; each of the others
// says what to do about it.
func refused(findings []enplace.Finding) error {
	e := enplace.Invalidf("the plugin declares no item that can be taken")
	wrong := slices.DeleteFunc(slices.Clone(findings), func(f enplace.Finding) bool { return f.Severity != enplace.FindingError })
	for n, f := range wrong[:min(len(wrong), maxRefusals)] {
		at := f.File
		if f.Line > 0 {
			at = fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if at = strings.TrimPrefix(at+": "+f.Message, ": "); n == 0 {
			e.Message += "; " + at
		} else {
			e = e.WithFix("%s", at)
		}
	}
	if more := len(wrong) - maxRefusals; more > 0 {
		e = e.WithFix("the same for %d more", more)
	}
	return e.WithFix("enplace plugin check DIR says what is wrong with the files, before they are sent")
}

// SyncPlugin reads the repository of a plugin, named as for Plugin, again, or takes the archive given for one that came as an archive.
// An item that the new content breaks keeps its last good definition, and the findings say so.
func (s *Service) SyncPlugin(ctx context.Context, c enplace.Caller, ref string, archive io.Reader) (enplace.Plugin, error) {
	p, err := s.plugin(ctx, c, access.Write, ref)
	if err != nil {
		return enplace.Plugin{}, err
	}
	switch {
	case archive != nil && p.Source.GitURL != "":
		return enplace.Plugin{}, enplace.Invalidf("this plugin is synced from %s; send no archive", p.Source.GitURL)
	case archive == nil && p.Source.GitURL == "":
		return enplace.Plugin{}, enplace.Invalidf("this plugin came as a folder or an archive, which the server cannot read again; send it").WithFix("enplace plugin sync %s/%s DIR", p.Scope, p.Name)
	case archive == nil:
		return s.sync(ctx, c, p)
	}
	over, err := s.turn(ctx, p.ID)
	if err != nil {
		return enplace.Plugin{}, err
	}
	defer over()
	got, err := s.unpack(ctx, archive)
	if err != nil {
		return enplace.Plugin{}, err
	}
	return s.store(ctx, c, p.ID, got)
}

// sync fetches a plugin. A source that cannot be read changes nothing but the record of it.
func (s *Service) sync(ctx context.Context, c enplace.Caller, p enplace.Plugin) (enplace.Plugin, error) {
	over, err := s.turn(ctx, p.ID)
	if err != nil {
		return enplace.Plugin{}, err
	}
	defer over()
	got, err := s.fetch(ctx, p.Source)
	if err == nil {
		return s.store(ctx, c, p.ID, got)
	}
	var told *enplace.Error
	if ctx.Err() == nil && errors.As(err, &told) {
		_, e := s.cfg.Store.SyncPlugin(ctx, p.ID, func(p *enplace.Plugin, have []enplace.Item) ([]enplace.Item, error) {
			p.TriedAt = s.cfg.Now().UTC()
			p.Error = &enplace.Failure{Reason: enplace.ReasonSource, Message: told.Message, Fixes: told.Fixes}
			return have, nil
		})
		err = errors.Join(err, missing(e, "plugin", p.ID))
	}
	return enplace.Plugin{}, err
}

// turn waits until nobody else syncs a plugin: what was fetched first must not be stored last.
func (s *Service) turn(ctx context.Context, id string) (over func(), err error) {
	for {
		s.mu.Lock()
		busy := s.syncing[id]
		if busy == nil {
			done := make(chan struct{})
			s.syncing[id] = done
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.syncing, id)
				close(done)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// store puts what was received in the place of a plugin's content.
func (s *Service) store(ctx context.Context, c enplace.Caller, id string, got received) (enplace.Plugin, error) {
	var before string
	p, err := s.cfg.Store.Plugin(ctx, id)
	if err != nil {
		return p, missing(err, "plugin", id)
	}
	others, err := s.others(ctx, p)
	if err != nil {
		return p, err
	}
	p, err = s.cfg.Store.SyncPlugin(ctx, id, func(p *enplace.Plugin, have []enplace.Item) ([]enplace.Item, error) {
		before = p.Commit + string(p.Digest)
		items := settle(p, have, others, got, s.cfg.Now().UTC())
		return items, others.room(p.Scope, items)
	})
	if errors.Is(err, store.ErrExists) {
		return p, enplace.Conflictf("another plugin of this scope took one of its keys meanwhile; sync again")
	}
	if err != nil {
		return p, missing(err, "plugin", id)
	}
	if p.Commit+string(p.Digest) != before {
		s.cfg.Audit.Record(ctx, c, "plugin.sync", p.ID, map[string]any{"items": p.Items, "commit": p.Commit, "digest": p.Digest})
	}
	return p, nil
}

// syncAll syncs every plugin of a repository, one after another: those of people, or all others. Repositories that people name may
// answer slowly, and then hold up those of people alone.
func (s *Service) syncAll(ctx context.Context, people bool) error {
	l, err := s.cfg.Store.ListPlugins(ctx, "", enplace.Page{})
	if err != nil {
		return fmt.Errorf("finding the plugins to sync: %w", err)
	}
	for _, p := range l.Items {
		if p.Source.GitURL == "" || people != (p.Scope.Person() != "") {
			continue
		}
		if _, err := s.sync(ctx, operator, p); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Warn("a plugin could not be synced", "plugin", p.ID, "name", p.Name, "scope", p.Scope, "err", err)
		}
	}
	return nil
}

// Plugin gives a plugin, by its id, its name where that is enough, or SCOPE/NAME.
func (s *Service) Plugin(ctx context.Context, c enplace.Caller, ref string) (enplace.Plugin, error) {
	return s.plugin(ctx, c, access.Read, ref)
}

// ListPlugins gives the plugins of a scope, or for none all that the caller may see, newest first.
func (s *Service) ListPlugins(ctx context.Context, c enplace.Caller, scope enplace.Scope, p enplace.Page) (enplace.List[enplace.Plugin], error) {
	if scope == "" {
		if err := access.CheckList(c, "plugins"); err != nil {
			return enplace.List[enplace.Plugin]{}, err
		}
		return store.Visible(p,
			func(p enplace.Page) (enplace.List[enplace.Plugin], error) { return s.cfg.Store.ListPlugins(ctx, "", p) },
			func(p enplace.Plugin) error { return mayPlugin(c, access.Read, p.Scope, p.ID) },
			func(p enplace.Plugin) string { return store.Cursor(p.ID) })
	}
	scope, err := enplace.ParseScope(string(scope))
	if err != nil {
		return enplace.List[enplace.Plugin]{}, err
	}
	if err := s.mayScope(c, access.Read, scope); err != nil {
		return enplace.List[enplace.Plugin]{}, err
	}
	if scope, err = s.knownScope(ctx, scope); err != nil {
		return enplace.List[enplace.Plugin]{}, err
	}
	return s.cfg.Store.ListPlugins(ctx, scope, p)
}

// DeletePlugin removes a plugin, named as for Plugin, with its items. What they installed stays on computers.
func (s *Service) DeletePlugin(ctx context.Context, c enplace.Caller, ref string) error {
	p, err := s.plugin(ctx, c, access.Write, ref)
	if err != nil {
		return err
	}
	err = missing(s.cfg.Store.DeletePlugin(ctx, p.ID), "plugin", ref)
	if err == nil {
		s.cfg.Audit.Record(ctx, c, "plugin.delete", p.ID, map[string]any{"scope": p.Scope, "name": p.Name})
	}
	return err
}

// keys of definitions, in order.
func keys(items []enplace.Item) []string {
	all := make([]string, 0, len(items))
	for _, i := range items {
		all = append(all, i.Key)
	}
	slices.Sort(all)
	return all
}
