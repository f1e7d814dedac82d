package computer

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"enplace"
	"enplace/internal/sandbox"
	"enplace/internal/store"
)

// machine is the live side of one computer: its sandbox while it runs, who uses it, and what is being installed.
type machine struct {
	s  *Service
	id string

	install chan struct{} // holds one while something is installed: one at a time. Taken before power
	power   sync.Mutex    // held while the sandbox is started or stopped
	writing sync.Mutex    // held while the record is written, so that rec is never older than it
	looked  atomic.Bool   // while it is looked after

	mu       sync.Mutex
	rec      *store.ComputerRecord // as it was written last, never changed; nil where it was not read yet
	box      sandbox.Sandbox       // nil while it is stopped
	users    int                   // commands, connections and installations under way
	used     time.Time             // by a command or a connection
	policies map[string]*policy    // of those who use it, by the hash of their set
	egress   enplace.Egress        // in force
	jobs     map[string]*job       // installations that wait or run, by the hash of the set
	ending   error                 // why no installation may begin now; nil while one may
	endings  int                   // stops and resets under way, for which it may not
	retries  map[string]retry      // when failed sets are due, by hash
	current  map[string]string     // the hash of the set that each chain was used with last
	selected map[string]time.Time  // when each set was used last, by hash, as far as the record does not know it
	told     map[string]int        // failures that a command has reported and the record does not know of yet, as in its Reported
	commands []enplace.LastCommand
	dirty    bool // commands, selected or told hold what the record does not
	seen     seen // what the sandbox told until the last command that failed
}

// policy is what the commands of a set may reach, for as long as they run.
type policy struct {
	egress enplace.Egress
	users  int
}

// seen is what a sandbox told of its processes.
type seen struct {
	box     sandbox.Sandbox
	kills   int
	refused []string
}

// keptCommands is how many of the last commands are shown.
const keptCommands = 10

func newMachine(s *Service, id string) *machine {
	return &machine{
		s: s, id: id, policies: map[string]*policy{}, jobs: map[string]*job{}, retries: map[string]retry{}, current: map[string]string{}, selected: map[string]time.Time{}, told: map[string]int{}, install: make(chan struct{}, 1),
	}
}

// volumeOf is the name of a computer's volume and sandbox. Neither kinds nor names hold a colon otherwise.
func volumeOf(id string) string { return volumePrefix + strings.Replace(id, ":", "_", 1) }

const volumePrefix = "computer_"

// roomOf gives the room of a room's computer, and "" for a person's.
func roomOf(id string) string {
	room, _ := strings.CutPrefix(id, "room:")
	if room == id {
		return ""
	}
	return room
}

func (m *machine) runs() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.box != nil
}

// record gives the record of the computer, which nobody changes. Nothing else writes it, so it is read once.
func (m *machine) record(ctx context.Context) (store.ComputerRecord, error) {
	m.mu.Lock()
	rec := m.rec
	m.mu.Unlock()
	if rec != nil {
		return *rec, nil
	}
	m.writing.Lock()
	defer m.writing.Unlock()
	read, err := m.s.cfg.Store.Computer(ctx, m.id)
	if err != nil {
		return read, unknown(err, m.id)
	}
	m.keep(&read)
	return read, nil
}

// update changes the record. What is acknowledged is kept, whatever becomes of the caller.
func (m *machine) update(ctx context.Context, change func(*store.ComputerRecord)) (store.ComputerRecord, error) {
	m.writing.Lock()
	defer m.writing.Unlock()
	rec, err := m.s.cfg.Store.UpdateComputer(context.WithoutCancel(ctx), m.id, func(r *store.ComputerRecord) error {
		change(r)
		return nil
	})
	if err != nil {
		m.keep(nil) // whether it was written is not known
		return rec, unknown(err, m.id)
	}
	m.keep(&rec)
	return rec, nil
}

func (m *machine) keep(rec *store.ComputerRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rec = rec
}

// enter gives the computer's sandbox, started where it does not run, under a policy that holds until leave is called. A
// computer that is new is made from the set's bundle where that is ready.
func (m *machine) enter(ctx context.Context, set store.SetRecord) (box sandbox.Sandbox, leave func(), err error) {
	m.power.Lock()
	defer m.power.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	case !m.s.started.Load():
		return nil, nil, errStarting
	}
	m.mu.Lock()
	box = m.box
	m.mu.Unlock()
	if box == nil || stopped(box) { // one that died has its files on the volume
		if box, err = m.start(ctx, set); err != nil {
			return nil, nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users++
	p := m.policies[set.Hash]
	if p == nil {
		p = &policy{egress: set.Egress}
		m.policies[set.Hash] = p
	}
	p.users++
	m.enforce()
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
	p.users--
	if m.policies[hash] == p { // after a restart the policies are others
		m.enforce()
	}
}

// enforce puts the strictest policy of all who use the computer in force: what runs there cannot be told apart. That of the last
// user stays, for what commands left running. A policy that does not change is left alone: setting it cuts connections.
func (m *machine) enforce() {
	var all []enplace.Egress
	for hash, p := range m.policies {
		if p.users == 0 && len(m.policies) > 1 {
			delete(m.policies, hash)
			continue
		}
		all = append(all, p.egress)
	}
	now := enplace.Strictest(all...)
	if m.box == nil || now.Policy == m.egress.Policy && slices.Equal(now.Hosts, m.egress.Hosts) {
		return
	}
	m.egress = now
	m.box.Egress(now)
}

func (m *machine) lastUsed() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// touch notes that the computer was used now.
func (m *machine) touch() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used = m.s.cfg.Now()
}

// note keeps a command that ended.
func (m *machine) note(c enplace.LastCommand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commands = append([]enplace.LastCommand{c}, m.commands[:min(len(m.commands), keptCommands-1)]...)
	m.dirty = true
}

// remember writes the last commands, and the failures that they have told, into the record: behind the commands, which do not wait
// for it.
func (m *machine) remember(ctx context.Context) {
	m.mu.Lock()
	commands, dirty, used, selected := slices.Clone(m.commands), m.dirty, m.used, maps.Clone(m.selected)
	m.dirty = false
	m.mu.Unlock()
	if !dirty {
		return
	}
	rec, err := m.update(ctx, func(r *store.ComputerRecord) {
		r.Commands, r.UsedAt = commands, used.UTC()
		m.keepTold(r)
		useSets(r.Sets, selected)
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		maps.DeleteFunc(m.selected, func(hash string, at time.Time) bool { // but for a set that is only just being brought onto it
			return at.Equal(selected[hash]) && slices.ContainsFunc(rec.Sets, func(c enplace.ComputerSet) bool { return c.Hash == hash })
		})
		maps.DeleteFunc(m.told, func(key string, attempt int) bool {
			kept, ok := rec.Reported[key]
			return ok && kept == attempt
		})
	} else if enplace.KindOf(err) != enplace.KindNotFound {
		m.dirty = true
		m.s.cfg.Logger.Error("recording the last commands", "computer", m.id, "err", err)
	}
}
