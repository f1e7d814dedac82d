package computer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"enplace"
	"enplace/internal/provision"
	"enplace/internal/redact"
	"enplace/internal/sandbox"
	"enplace/internal/store"
	"enplace/internal/transcript"
)

// job is a set being brought onto a computer.
type job struct {
	set    store.SetRecord
	cancel context.CancelCauseFunc
	done   chan struct{}   // closed at its end
	err    error           // why the set could not be tried to the end; read after done
	box    sandbox.Sandbox // that it is brought into; read after done, nil where it did not come so far
	again  *retry          // when it failed; not among the machine's until the end, lest a retry be taken for this one
	share  int             // of its deadline that a command waits for it
	once   bool            // more, where it fails: somebody asked for a retry meanwhile
	said   []string        // how far it is, a line for each change; lines are added only
}

// say adds how an item stands to what those are told who wait. That it is there is no news unless it was being installed.
func (j *job) say(item enplace.InstalledItem) {
	name := fmt.Sprintf("%s of %s: ", item.Key, item.Scope)
	line := name + string(item.Status)
	known := slices.ContainsFunc(j.said, func(said string) bool { return strings.HasPrefix(said, name) })
	if item.Status == enplace.ItemInstalled && !known || len(j.said) > 0 && j.said[len(j.said)-1] == line {
		return
	}
	j.said = append(j.said, line)
}

var errReplaced = errors.New("the definitions changed meanwhile")

// apply has a set brought onto the computer, unless that is under way already, and gives the job to wait for: commands do for that
// share of their deadline. What is under way for the same chain is out of date: it ends, lest a script that hangs hold up the one
// that mends it.
func (m *machine) apply(set store.SetRecord, share int) *job {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j := m.jobs[set.Hash]; j != nil {
		j.share = longer(j.share, share)
		return j
	}
	ctx, cancel := context.WithCancelCause(m.s.ctx)
	j := &job{set: set, cancel: cancel, done: make(chan struct{}), share: share}
	for _, other := range m.jobs {
		if slices.Equal(other.set.Chain, set.Chain) {
			other.cancel(errReplaced)
		}
	}
	for hash, r := range m.retries {
		if hash == set.Hash || slices.Equal(r.set.Chain, set.Chain) {
			delete(m.retries, hash)
		}
	}
	if m.ending != nil {
		cancel(m.ending)
	}
	m.jobs[set.Hash] = j
	begun := m.s.spawn(func() {
		err := m.run(ctx, j)
		if err != nil && ctx.Err() != nil { // whatever was under way says only that it was cancelled
			err = context.Cause(ctx)
		}
		m.end(j, err)
	})
	if !begun {
		delete(m.jobs, set.Hash)
		j.err = errClosing
		cancel(errClosing)
		close(j.done)
	}
	return j
}

// end ends a job.
func (m *machine) end(j *job, err error) {
	hash := j.set.Hash
	if err != nil && !slices.ContainsFunc([]error{errReplaced, errReset, errHalted, errClosing, sandbox.ErrStopped}, func(known error) bool { return errors.Is(err, known) }) {
		m.s.cfg.Logger.Error("installing a set", "computer", m.id, "set", hash, "err", err)
	}
	m.mu.Lock()
	j.err = err
	delete(m.jobs, hash)
	if j.again != nil && m.box != nil {
		m.retries[hash] = *j.again
	}
	once := j.once && j.again != nil && m.box != nil
	m.mu.Unlock()
	if once {
		m.apply(j.set, retryWait)
	}
	j.cancel(nil)
	close(j.done)
	m.s.hub.Notify(m.topic(hash))
}

// underWay gives the job that brings a set onto the computer now, nil for none, and the share that commands wait for it.
func (m *machine) underWay(hash string) (j *job, share int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j = m.jobs[hash]; j != nil {
		share = j.share
	}
	return j, share
}

// topic is what those wait for who wait for a set on this computer.
func (m *machine) topic(hash string) string { return m.id + " " + hash }

// run installs a set: one at a time on a computer, so that two conversations never install over each other.
func (m *machine) run(ctx context.Context, j *job) error {
	set := j.set
	select {
	case m.install <- struct{}{}:
		defer func() { <-m.install }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	box, leave, err := m.enter(ctx, set)
	if err != nil {
		return err
	}
	defer leave()
	j.box = box
	rec, err := m.record(ctx)
	if err != nil {
		return err
	}
	home, err := m.s.cfg.Toolchain.SetOf(ctx, m.conversation(rec.Home))
	if err != nil {
		return err
	}
	secrets, err := m.s.cfg.Toolchain.Redactor(ctx, m.id)
	if err != nil {
		return err
	}
	log, err := m.s.openLog(m.id, set.Hash, secrets)
	if err != nil {
		return err
	}
	defer log.Close()
	work := provision.Job{
		Set: set.Set, Have: have(rec, set), Timeout: m.s.cfg.ItemLimit, Log: log, Redact: func(text string) string { return string(secrets.Bytes([]byte(text))) },
		Default: home.Hash == set.Hash, Progress: func(i enplace.InstalledItem) { m.progress(ctx, set.Hash, i, j) },
	}
	// Computers that install directly agree with the bundle; of one that failed, in what it has.
	work.Versions, work.Sources = provision.Versions(set.Bundle.Items), provision.SourcesOf(set.Bundle.Items)
	restored := rec.Bundle != "" && rec.Bundle == set.Bundle.Image && find(rec, set.Hash).AppliedAt == nil
	res, err := bring(ctx, box, work, restored)
	if err != nil {
		return err
	}
	dropped, err := m.finish(ctx, j, res, work.Default)
	if err != nil {
		return err
	}
	return m.forget(ctx, box, dropped)
}

// conversation is the one that reads a chain on this computer.
func (m *machine) conversation(chain enplace.Chain) enplace.Conversation {
	if room := roomOf(m.id); room != "" {
		return enplace.Conversation{Kind: enplace.ConversationRoom, Room: room}
	}
	conv := enplace.Conversation{Kind: enplace.ConversationDirect, Person: enplace.Scope(m.id).Person()}
	for _, scope := range chain {
		if team := scope.Team(); team != "" {
			conv.Team = team
		}
	}
	return conv
}

// bring verifies what a bundle brought, and has what is not whole installed again.
func bring(ctx context.Context, box sandbox.Sandbox, work provision.Job, restored bool) (provision.Result, error) {
	if restored {
		res, err := provision.Verify(ctx, box, work)
		if err != nil || !slices.ContainsFunc(res.Items, notInstalled) {
			return res, err
		}
	}
	return provision.Apply(ctx, box, work)
}

func notInstalled(i enplace.InstalledItem) bool { return i.Status != enplace.ItemInstalled }

// progress records how an item stands before anything else is done to it: what was being installed when the server died is not
// taken for installed.
func (m *machine) progress(ctx context.Context, hash string, item enplace.InstalledItem, j *job) {
	if _, err := m.update(ctx, func(r *store.ComputerRecord) { put(r, hash, item) }); err != nil {
		m.s.cfg.Logger.Error("recording an installation", "computer", m.id, "set", hash, "item", item.Key, "err", err)
	}
	m.mu.Lock()
	j.say(item)
	m.mu.Unlock()
	m.s.hub.Notify(m.topic(hash))
}

// finish keeps how a set stands at the end of a pass, and when what failed is tried again. It gives the sets that the record
// knows no more.
func (m *machine) finish(ctx context.Context, j *job, res provision.Result, byDefault bool) (dropped []string, err error) {
	set, now := j.set, m.s.cfg.Now().UTC()
	due := now.Add(afterLimit(m.s.cfg.Retry, res.Limited))
	failed := slices.ContainsFunc(res.Items, notInstalled)
	rec, err := m.update(ctx, func(r *store.ComputerRecord) {
		for _, i := range res.Items {
			put(r, set.Hash, i)
		}
		c := setOf(r, set.Hash)
		c.Attempts++
		c.TriedAt, c.RetryAt, c.AppliedAt = &now, nil, &now
		if failed {
			c.RetryAt, c.AppliedAt = &due, nil
		}
		if byDefault {
			r.Default = set.Hash
		}
		if r.Exports == nil {
			r.Exports = map[string][]string{}
		}
		if r.Locks == nil {
			r.Locks = map[string][]string{}
		}
		r.Exports[set.Hash], r.Locks[set.Hash] = res.Exports, locks(set.Set)
		for _, i := range c.Items {
			if i.Status == enplace.ItemInstalled { // should it fail again, that is news
				m.forgetTold(r, reportKey(set.Hash, i))
			}
		}
		dropped = dropOld(r, set.Hash)
	})
	if err != nil {
		return nil, err
	}
	for _, i := range res.Items {
		if i.Status == enplace.ItemInstalled {
			continue
		}
		if err := m.s.cfg.Store.AppendComputerError(context.WithoutCancel(ctx), m.id, enplace.ComputerError{
			At: now, LastAt: now, Count: 1, Set: set.Hash, Key: i.Key, Scope: i.Scope, Definition: i.Definition,
			Error: i.Error, ErrorTail: i.ErrorTail, Attempt: find(rec, set.Hash).Attempts,
		}, maxErrors); err != nil {
			return nil, unknown(err, m.id)
		}
	}
	if failed {
		j.again = &retry{set, due}
	}
	return dropped, nil
}

// forget removes what is left of sets that the record knows no more: their logs, and their indexes inside.
func (m *machine) forget(ctx context.Context, box sandbox.Sandbox, hashes []string) error {
	for _, hash := range hashes {
		if err := transcript.Remove(m.s.logPath(m.id, hash)); err != nil {
			return fmt.Errorf("removing the log of a forgotten set: %w", err)
		}
		if err := provision.Forget(ctx, box, hash); err != nil {
			return err
		}
	}
	return nil
}

// await waits for a job until its end or the time is up, and tells all that it says, however fast that comes; whether the set was
// tried to the end is told. The error is the caller's: the end of ctx, or that of tell.
func (m *machine) await(ctx context.Context, hash string, j *job, most time.Duration, tell func(string) error) (ended bool, err error) {
	told := 0
	err = m.s.hub.Until(ctx, m.topic(hash), most, func() (over bool, err error) {
		select {
		case <-j.done: // first: nothing is said after it
			over, ended = true, j.err == nil
		default:
		}
		m.mu.Lock()
		fresh := j.said[told:]
		m.mu.Unlock()
		for ; tell != nil && len(fresh) > 0; fresh = fresh[1:] {
			if err := tell(fresh[0]); err != nil {
				return false, err
			}
			told++
		}
		return over, nil
	})
	return ended, err
}

// logPath is where the log of an installation is kept: of each set the last one's.
func (s *Service) logPath(id, hash string) string {
	return filepath.Join(s.cfg.LogDir, volumeOf(id), hash+".log")
}

func (s *Service) openLog(id, hash string, secrets *redact.Redactor) (*transcript.Writer, error) {
	path := s.logPath(id, hash)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of a computer's logs: %w", err)
	}
	log, err := transcript.Create(path, enplace.MaxLogBytes, secrets.Lines())
	if err != nil {
		return nil, fmt.Errorf("opening the log of an installation: %w", err)
	}
	return log, nil
}

// removeLogs removes the logs of a computer's installations.
func (s *Service) removeLogs(volume string) error {
	if err := os.RemoveAll(filepath.Join(s.cfg.LogDir, volume)); err != nil {
		return fmt.Errorf("removing the logs of %s: %w", volume, err)
	}
	return nil
}
