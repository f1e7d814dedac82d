package computer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"enplace"
	"enplace/internal/sandbox"
	"enplace/internal/store"
)

// start starts the sandbox, and makes the computer where there is none. Power is held.
func (m *machine) start(ctx context.Context, set store.SetRecord) (sandbox.Sandbox, error) {
	if err := context.Cause(m.s.ctx); err != nil {
		return nil, err
	}
	if err := m.s.makeRoom(ctx); err != nil {
		return nil, err
	}
	rec, fresh, err := m.prepare(ctx, set)
	if err != nil {
		return nil, err
	}
	egress := enplace.Strictest(set.Egress)
	box, err := m.s.cfg.Runtime.Start(ctx, m.spec(rec, egress))
	if err != nil && fresh && rec.Bundle != "" && ctx.Err() == nil {
		m.s.cfg.Logger.Error("starting a computer from a bundle; it starts without", "computer", m.id, "bundle", rec.Bundle, "err", err)
		if rec, err = m.update(ctx, func(r *store.ComputerRecord) { r.Bundle, r.Root, r.Sets = "", r.Root[:1], nil }); err != nil {
			return nil, err
		}
		box, err = m.s.cfg.Runtime.Start(ctx, m.spec(rec, egress))
	}
	if err != nil {
		return nil, fmt.Errorf("starting the computer %s: %w", m.id, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.box, m.egress, m.used = box, egress, m.s.cfg.Now()
	if !m.dirty { // else those of a sandbox that died are still to be written
		m.commands = slices.Clone(rec.Commands)
	}
	clear(m.policies)
	if state := find(rec, set.Hash); state.RetryAt != nil {
		m.retries[set.Hash] = retry{set, *state.RetryAt}
	}
	m.s.cfg.Logger.Info("computer started", "computer", m.id)
	return box, nil
}

func (m *machine) spec(rec store.ComputerRecord, egress enplace.Egress) sandbox.Spec {
	// Terminals bring their own variables; these are for whatever else speaks to the guest.
	env := strings.Join(environment(nil, "", nil), "\x00")
	return sandbox.Spec{
		ID: volumeOf(m.id), Root: rec.Root, Durable: volumeOf(m.id), Limits: rec.Limits, Egress: egress,
		Setup: sandbox.Setup{Files: []sandbox.SetupFile{{Path: sandbox.EnvPath, Content: []byte(env), Mode: 0o644}, sandbox.LoginFile(), sandbox.SudoFile()}},
	}
}

// prepare gives the record of the computer, made where there is none. It is fresh as long as it has no volume: one whose volume
// is lost has nothing of what its record says, and gets all of it anew.
func (m *machine) prepare(ctx context.Context, set store.SetRecord) (rec store.ComputerRecord, fresh bool, err error) {
	rec, err = m.record(ctx)
	if enplace.KindOf(err) == enplace.KindNotFound {
		rec, err = m.create(ctx, set)
		return rec, true, err
	}
	if err != nil {
		return rec, false, err
	}
	volumes, err := m.s.cfg.Runtime.Durables(ctx)
	if err != nil {
		return rec, false, fmt.Errorf("looking for the volume of a computer: %w", err)
	}
	if _, ok := volumes[volumeOf(m.id)]; ok {
		return rec, false, nil
	}
	if slices.ContainsFunc(rec.Sets, func(c enplace.ComputerSet) bool { return c.Attempts > 0 }) {
		m.s.cfg.Logger.Error("the volume of a computer is gone; it starts anew", "computer", m.id)
		m.mu.Lock()
		clear(m.told)
		m.mu.Unlock()
		rec, err = m.update(ctx, func(r *store.ComputerRecord) { r.Sets, r.Exports, r.Reported = nil, nil, nil })
	}
	return rec, true, err
}

// create makes the record of a computer: over the base, or over the bundle where that is ready.
func (m *machine) create(ctx context.Context, set store.SetRecord) (store.ComputerRecord, error) {
	// What a reset that was cut short left must not come back.
	if err := m.s.cfg.Runtime.DropDurable(ctx, volumeOf(m.id)); err != nil {
		return store.ComputerRecord{}, fmt.Errorf("removing what an earlier computer %s left: %w", m.id, err)
	}
	now := m.s.cfg.Now().UTC()
	rec := store.ComputerRecord{
		Computer: enplace.Computer{
			ID: m.id, State: enplace.ComputerStopped, Base: set.Base, Limits: m.s.cfg.Limits, Sets: []enplace.ComputerSet{},
			Local: []enplace.ToolStatus{}, Commands: []enplace.LastCommand{}, CreatedAt: now, UsedAt: now,
		},
		Root: []enplace.Digest{set.Base}, Home: set.Chain,
	}
	if set.Bundle.Status == enplace.BundleReady {
		rec.Bundle = set.Bundle.Image
		rec.Root = append(rec.Root, set.Bundle.Image)
		rec.Sets = []enplace.ComputerSet{restored(set)}
	}
	if err := m.s.cfg.Store.CreateComputer(ctx, rec); err != nil {
		if errors.Is(err, store.ErrNotFound) {
			return rec, enplace.NotFoundf("the person or room of the computer %s is gone", m.id)
		}
		return rec, fmt.Errorf("keeping a computer: %w", err)
	}
	m.s.cfg.Logger.Info("computer made", "computer", m.id, "bundle", rec.Bundle)
	return m.record(ctx)
}

// restored is a set as a bundle brings it. It counts as pending until it was verified on the computer.
func restored(set store.SetRecord) enplace.ComputerSet {
	c := enplace.ComputerSet{Hash: set.Hash, Items: []enplace.ComputerItem{}}
	for _, i := range set.Bundle.Items {
		c.Items = append(c.Items, enplace.ComputerItem{InstalledItem: i, Obtained: enplace.FromBundle})
	}
	return c
}

// inUse has halt stop a computer whoever uses it.
const inUse time.Duration = -1

// halt stops a computer that nobody uses, nor has used for that long.
func (m *machine) halt(ctx context.Context, idle time.Duration) error {
	m.power.Lock()
	defer m.power.Unlock()
	return m.stop(ctx, idle)
}

// stop is halt with power held.
func (m *machine) stop(ctx context.Context, idle time.Duration) error {
	m.mu.Lock()
	box := m.box
	busy := idle != inUse && (m.users > 0 || len(m.jobs) > 0 || m.s.cfg.Now().Sub(m.used) < idle)
	if box == nil || busy && !stopped(box) {
		m.mu.Unlock()
		return nil
	}
	m.box = nil
	clear(m.retries) // they are tried at the next use
	m.mu.Unlock()
	m.remember(ctx)
	if err := box.Stop(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	m.s.cfg.Logger.Info("computer stopped", "computer", m.id)
	return nil
}

// reset removes the computer with all its files.
func (m *machine) reset(ctx context.Context) error {
	release, err := m.quiet(ctx, errReset)
	if err != nil {
		return err
	}
	defer release()
	m.power.Lock()
	defer m.power.Unlock()
	m.mu.Lock()
	box := m.box
	m.box = nil
	clear(m.retries)
	clear(m.told)
	m.commands, m.dirty = nil, false
	m.mu.Unlock()
	if box != nil {
		if err := box.Stop(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("stopping the computer %s: %w", m.id, err)
		}
	}
	// The record first: a volume without one is removed by the next start of the server or of the computer.
	m.writing.Lock()
	err = m.s.cfg.Store.DeleteComputer(ctx, m.id)
	m.keep(nil)
	m.writing.Unlock()
	if err != nil {
		return unknown(err, m.id)
	}
	if err := m.s.cfg.Runtime.DropDurable(ctx, volumeOf(m.id)); err != nil {
		return fmt.Errorf("removing the files of the computer %s: %w", m.id, err)
	}
	return m.s.removeLogs(volumeOf(m.id))
}

// shut stops the computer whoever uses it. What is being installed ends first, and is redone at the next use: one that only waits
// for its turn would start the computer again.
func (m *machine) shut(ctx context.Context) error {
	release, err := m.quiet(ctx, errHalted)
	if err != nil {
		return err
	}
	defer release()
	if err := m.halt(ctx, inUse); err != nil {
		return fmt.Errorf("stopping the computer %s: %w", m.id, err)
	}
	return nil
}

var (
	errReset  = enplace.Conflictf("the computer was reset before the command began, so nothing of it ran").WithFix("run the command again: it makes another computer")
	errHalted = enplace.Conflictf("the computer was stopped before the command began, so nothing of it ran").WithFix("run the command again: it starts the computer")
)

// taken says why a command that waited for a job must not begin: its computer is being taken away, or is gone already. Nil where the
// job is under way, and for whatever else ended it. Nothing of that command has run, so that it can safely be run again; what died
// is told when it is over, so that the next command starts the computer and does not find it dying. One that died while the command
// has a computer that was started since is no reason: again says that the set is to be brought onto that.
func (u *use) taken(ctx context.Context, j *job) (again bool, err error) {
	select {
	case <-j.done:
	default:
		return false, nil
	}
	for _, known := range []error{errReset, errHalted} {
		if errors.Is(j.err, known) {
			return false, known
		}
	}
	switch {
	case !errors.Is(j.err, sandbox.ErrStopped):
		return false, nil
	case j.box != u.box && !stopped(u.box):
		return true, nil
	}
	select {
	case <-u.box.Done():
	case <-ctx.Done():
	}
	return false, errHalted
}

// quiet ends every installation, and lets none begin until release is called: after a reset, one that went on would write of the
// old computer into the record of the next.
func (m *machine) quiet(ctx context.Context, why error) (release func(), err error) {
	m.mu.Lock()
	m.ending = why
	m.endings++
	for _, j := range m.jobs {
		j.cancel(why)
	}
	m.mu.Unlock()
	over := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.endings--; m.endings == 0 { // a stop and a reset may come at once
			m.ending = nil
		}
	}
	select {
	case m.install <- struct{}{}:
		return func() { <-m.install; over() }, nil
	case <-ctx.Done():
		over()
		return nil, context.Cause(ctx)
	}
}
