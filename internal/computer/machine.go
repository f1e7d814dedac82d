package computer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"enplace"
	"enplace/internal/sandbox"
	"enplace/internal/store"
)

// machine is the live side of one computer: its sandbox while it runs, who uses it, and what is being installed.
type machine struct {
	s  *Service
	id string

	power sync.Mutex // held while the sandbox is started or stopped

	mu       sync.Mutex
	box      sandbox.Sandbox // nil while it is stopped
	users    int             // commands and connections under way
	used     time.Time
	policies map[string]*policy // of those who use it, by the hash of their set
	jobs     map[string]*job    // installations that wait or run, by the hash of the set
	retries  map[string]retry   // when failed sets are due, by hash
	commands []enplace.LastCommand
	dirty    bool // commands holds what the record does not

	install chan struct{} // holds one while something is installed: one at a time
}

// policy is what the commands of a set may reach, for as long as they run.
type policy struct {
	egress enplace.Egress
	users  int
}

// retry is a failed set that is to be tried again.
type retry struct {
	set store.SetRecord
	at  time.Time
}

// keptCommands is how many of the last commands are shown.
const keptCommands = 10

func newMachine(s *Service, id string) *machine {
	return &machine{
		s: s, id: id, policies: map[string]*policy{}, jobs: map[string]*job{}, retries: map[string]retry{}, install: make(chan struct{}, 1),
	}
}

// volumeOf is the name of a computer's volume and sandbox. Neither kinds nor names hold a colon otherwise.
func volumeOf(id string) string { return "computer_" + strings.Replace(id, ":", "_", 1) }

func (m *machine) runs() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.box != nil
}

// enter gives the computer's sandbox, started where it does not run, under a policy that holds until leave is called. A
// computer that is new is made from the set's bundle where that is ready.
func (m *machine) enter(ctx context.Context, set store.SetRecord) (box sandbox.Sandbox, leave func(), err error) {
	m.power.Lock()
	defer m.power.Unlock()
	m.mu.Lock()
	box = m.box
	m.mu.Unlock()
	if box != nil && stopped(box) {
		box = nil // it died: what was written is on the volume
	}
	if box == nil {
		if box, err = m.start(ctx, set); err != nil {
			return nil, nil, err
		}
	}
	m.mu.Lock()
	m.box = box
	m.users++
	p := m.policies[set.Hash]
	if p == nil {
		p = &policy{egress: set.Egress}
		m.policies[set.Hash] = p
	}
	p.users++
	m.enforce()
	m.mu.Unlock()
	return box, sync.OnceFunc(func() { m.leave(set.Hash, p) }), nil
}

func stopped(box sandbox.Sandbox) bool {
	select {
	case <-box.Done():
		return true
	default:
		return false
	}
}

func (m *machine) leave(hash string, p *policy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users--
	m.used = m.s.cfg.Now()
	// The last one stays in force, for what commands left running. After a restart the policies are others.
	if p.users--; p.users == 0 && len(m.policies) > 1 && m.policies[hash] == p && m.box != nil {
		m.enforce()
	}
}

// enforce puts the strictest policy of all who use the computer in force: what runs there cannot be told apart.
func (m *machine) enforce() {
	all := make([]enplace.Egress, 0, len(m.policies))
	for hash, p := range m.policies {
		if p.users == 0 && len(m.policies) > 1 {
			delete(m.policies, hash)
			continue
		}
		all = append(all, p.egress)
	}
	m.box.Egress(enplace.Strictest(all...))
}

// start starts the sandbox, and makes the computer where there is none.
func (m *machine) start(ctx context.Context, set store.SetRecord) (sandbox.Sandbox, error) {
	if err := context.Cause(m.s.ctx); err != nil {
		return nil, err
	}
	if n := m.s.running(); n >= m.s.cfg.MaxRunning {
		return nil, enplace.Errorf(enplace.KindBusy, "%d computers run, the limit; try again when one has been idle for %s", n, m.s.cfg.Idle)
	}
	rec, err := m.s.cfg.Store.Computer(ctx, m.id)
	if errors.Is(err, store.ErrNotFound) {
		rec, err = m.create(ctx, set)
	}
	if err != nil {
		return nil, err
	}
	box, err := m.s.cfg.Runtime.Start(ctx, sandbox.Spec{
		ID: volumeOf(m.id), Root: rec.Root, Durable: volumeOf(m.id), Limits: rec.Limits, Egress: set.Egress,
		Setup: sandbox.Setup{Files: []sandbox.SetupFile{
			{Path: sandbox.EnvPath, Content: []byte(strings.Join(environment(rec, set.Hash, nil), "\x00")), Mode: 0o600},
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("starting the computer %s: %w", m.id, err)
	}
	m.mu.Lock()
	m.used, m.commands = m.s.cfg.Now(), slices.Clone(rec.Commands)
	clear(m.policies)
	for _, c := range rec.Sets {
		if c.RetryAt != nil && c.Hash == set.Hash {
			m.retries[c.Hash] = retry{set, *c.RetryAt}
		}
	}
	m.mu.Unlock()
	m.s.cfg.Logger.Info("computer started", "computer", m.id)
	return box, nil
}

// create makes the record of a computer: over the base, or over the bundle where that is ready.
func (m *machine) create(ctx context.Context, set store.SetRecord) (store.ComputerRecord, error) {
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
	err := m.s.cfg.Store.CreateComputer(ctx, rec)
	if err != nil {
		return rec, unknown(err, m.id)
	}
	m.s.cfg.Logger.Info("computer made", "computer", m.id, "bundle", rec.Bundle)
	return rec, nil
}

// restored is a set as a bundle brings it. It counts as pending until it was verified on the computer.
func restored(set store.SetRecord) enplace.ComputerSet {
	c := enplace.ComputerSet{Hash: set.Hash}
	for _, i := range set.Bundle.Items {
		c.Items = append(c.Items, enplace.ComputerItem{InstalledItem: i, Obtained: enplace.FromBundle})
	}
	return c
}

// halt stops a computer that nobody has used for that long; 0 stops it whoever uses it.
func (m *machine) halt(ctx context.Context, idle time.Duration) error {
	m.power.Lock()
	defer m.power.Unlock()
	m.mu.Lock()
	box := m.box
	busy := idle > 0 && (m.users > 0 || len(m.jobs) > 0 || m.s.cfg.Now().Sub(m.used) < idle)
	if box == nil || busy && !stopped(box) {
		m.mu.Unlock()
		return nil
	}
	m.box = nil
	clear(m.retries)
	m.mu.Unlock()
	m.remember(ctx)
	if err := box.Stop(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	m.s.cfg.Logger.Info("computer stopped", "computer", m.id)
	return nil
}

// note keeps a command that ended.
func (m *machine) note(c enplace.LastCommand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commands = append([]enplace.LastCommand{c}, m.commands[:min(len(m.commands), keptCommands-1)]...)
	m.dirty = true
}

// remember writes the last commands into the record: behind the commands, which do not wait for it.
func (m *machine) remember(ctx context.Context) {
	m.mu.Lock()
	commands, dirty, used := slices.Clone(m.commands), m.dirty, m.used
	m.dirty = false
	m.mu.Unlock()
	if !dirty {
		return
	}
	if _, err := m.s.cfg.Store.UpdateComputer(context.WithoutCancel(ctx), m.id, func(r *store.ComputerRecord) error {
		r.Commands, r.UsedAt = commands, used.UTC()
		return nil
	}); err != nil && !errors.Is(err, store.ErrNotFound) {
		m.s.cfg.Logger.Error("recording the last commands", "computer", m.id, "err", err)
	}
}
