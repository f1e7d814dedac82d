package computer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"enplace"
	"enplace/internal/store"
)

// Of its deadline a command spends so much on waiting for its set, at most: the first time, and while what failed before is
// tried again. Where nothing but time has changed, and little of that, it does not wait.
const (
	firstWait = 2 // a half
	retryWait = 8 // an eighth
	noWait    = 0
)

// longer gives the share of those two that is the larger part.
func longer(a, b int) int {
	if a == noWait || b != noWait && b < a {
		return b
	}
	return a
}

// retry is a failed set that is to be tried again.
type retry struct {
	set store.SetRecord
	at  time.Time
}

// due says whether a set is brought onto the computer now, and which share of its deadline the command waits for that. What is in
// place needs nothing, unless other items of it are locked now, and have their way with commands; what failed is tried again when
// its time has come, when the chain has come to this set from another, and for a live person. A set without items is brought onto a
// computer, too: with it come the shims, mise's own among them, and what other sets selected is selected no more.
func (u *use) due(ctx context.Context, changed bool) (start bool, share int, err error) {
	state := find(u.rec, u.set.Hash)
	switch {
	case state.Attempts > 0 && !slices.Equal(u.rec.Locks[u.set.Hash], locks(u.set.Set)):
		return true, firstWait, nil
	case state.AppliedAt != nil:
		start, err = u.dueAsDefault(ctx)
		return start, firstWait, err
	case state.Attempts == 0, slices.ContainsFunc(state.Items, untried):
		return true, firstWait, nil
	case changed:
		return true, retryWait, nil
	}
	now := u.m.s.cfg.Now()
	share = awaited(state, now)
	if state.RetryAt == nil || !now.Before(*state.RetryAt) {
		return true, share, nil
	}
	u.m.hasten(u.set, *state.RetryAt) // not known where another set started the computer
	if !u.live {
		return false, noWait, nil
	}
	if internal, err := u.m.s.cfg.Toolchain.Internal(ctx, u.conv); err != nil || !internal {
		return false, noWait, err
	}
	if next := u.m.s.nextLive(state); now.Before(next) {
		u.m.hasten(u.set, next)
		return false, noWait, nil
	}
	return true, share, nil
}

// nextLive is when a set that failed may be tried again for a live person: a moment after the last try, and a longer one where its
// retry was put off because a source refuses to be asked.
func (s *Service) nextLive(state enplace.ComputerSet) time.Time {
	if state.TriedAt == nil {
		return time.Time{}
	}
	if state.RetryAt.Sub(*state.TriedAt) > s.cfg.Retry {
		return state.TriedAt.Add(s.cfg.Retry)
	}
	return state.TriedAt.Add(enplace.LiveRetry)
}

// awaited gives the share that commands wait for a retry of a set that failed: none where it was tried a moment ago, with nothing
// changed since.
func awaited(state enplace.ComputerSet, now time.Time) int {
	if state.TriedAt != nil && now.Sub(*state.TriedAt) < enplace.AwaitedRetry {
		return noWait
	}
	return retryWait
}

// dueAsDefault is due for a set that is in place: as that of the computer's home, it must also be what a shim without any hint
// takes, which after a change and back is another one.
func (u *use) dueAsDefault(ctx context.Context) (bool, error) {
	if u.rec.Default == u.set.Hash {
		return false, nil
	}
	home, err := u.m.s.cfg.Toolchain.SetOf(ctx, u.m.conversation(u.rec.Home))
	return err == nil && home.Hash == u.set.Hash, err
}

// locks gives the keys of a set's locked items.
func locks(set enplace.Set) (keys []string) {
	for _, item := range set.Items {
		if item.Locked {
			keys = append(keys, item.Key)
		}
	}
	return keys
}

// turned notes which set a chain has now, and that it is used, and reports whether it had another when it was used last:
// definitions or the egress policy have changed since.
func (m *machine) turned(set store.SetRecord) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	chain := fmt.Sprint(set.Chain)
	last := m.current[chain]
	m.current[chain] = set.Hash
	if m.box != nil {
		m.selected[set.Hash], m.dirty = m.s.cfg.Now().UTC(), true
	}
	return last != "" && last != set.Hash
}

// hasten has a failed set tried again at that time, where it would be later.
func (m *machine) hasten(set store.SetRecord, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.retries[set.Hash]; m.box != nil && (!ok || at.Before(r.at)) {
		m.retries[set.Hash] = retry{set, at}
	}
}

// nextTry gives when a set that failed is tried again: sooner than its record says where a live person used it, and by now while
// it is being tried. Nil for one that did not fail, and for one that nobody has used since the computer started or that another has
// taken the place of: these wait for a command. The machine is locked.
func (m *machine) nextTry(state enplace.ComputerSet) *time.Time {
	if state.RetryAt == nil {
		return nil
	}
	at, now := state.RetryAt.UTC(), m.s.cfg.Now().UTC()
	switch r, ok := m.retries[state.Hash]; {
	case m.jobs[state.Hash] != nil:
		if now.Before(at) {
			at = now
		}
	case ok:
		if r.at.Before(at) {
			at = r.at.UTC()
		}
	case m.box != nil:
		return nil
	}
	return &at
}

// retryDue tries again what failed and is due, as it is declared by now. A computer that was stopped meanwhile tries at its
// next use.
func (m *machine) retryDue(ctx context.Context) {
	now := m.s.cfg.Now()
	var due []store.SetRecord
	m.mu.Lock()
	for hash, r := range m.retries {
		if m.box != nil && !now.Before(r.at) {
			due = append(due, r.set)
			delete(m.retries, hash)
		}
	}
	m.mu.Unlock()
	for _, failed := range due {
		if err := m.retryAsDeclared(ctx, failed, now); err != nil {
			m.s.cfg.Logger.Error("trying a set again", "computer", m.id, "set", failed.Hash, "err", err)
		}
	}
}

func (m *machine) retryAsDeclared(ctx context.Context, failed store.SetRecord, now time.Time) error {
	set, err := m.s.use(ctx, m.conversation(failed.Chain))
	if err != nil {
		return err
	}
	rec, err := m.record(ctx)
	if err != nil {
		return err
	}
	m.apply(set, awaited(find(rec, set.Hash), now))
	return nil
}

// retryNow tries a failed set again at once, where it is known to have failed since the computer runs. One that is being tried may
// have passed what was mended, and is tried once more when it fails.
func (m *machine) retryNow(hash string) bool {
	m.mu.Lock()
	r, ok := m.retries[hash]
	j := m.jobs[hash]
	if j != nil {
		j.once, j.share = true, longer(j.share, retryWait)
	}
	m.mu.Unlock()
	if ok {
		m.apply(r.set, retryWait)
	}
	return ok || j != nil
}
