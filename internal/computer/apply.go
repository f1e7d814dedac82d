package computer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"enplace"
	"enplace/internal/provision"
	"enplace/internal/sandbox"
	"enplace/internal/store"
	"enplace/internal/transcript"
)

// maxErrors bounds the error log of a computer.
const maxErrors = 500

// job is a set being brought onto a computer.
type job struct {
	done chan struct{} // closed at its end
	err  error         // why the set could not be tried at all; read after done

	changed chan struct{} // holds one after a change, for those who show progress
	item    enplace.InstalledItem
}

// apply has a set brought onto the computer, unless that is under way already, and gives the job to wait for.
func (m *machine) apply(set store.SetRecord) *job {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j := m.jobs[set.Hash]; j != nil {
		return j
	}
	j := &job{done: make(chan struct{}), changed: make(chan struct{}, 1)}
	m.jobs[set.Hash] = j
	delete(m.retries, set.Hash)
	m.s.done.Go(func() {
		j.err = m.run(m.s.ctx, set, j)
		if j.err != nil && m.s.ctx.Err() == nil {
			m.s.cfg.Logger.Error("installing a set", "computer", m.id, "set", set.Hash, "err", j.err)
		}
		m.mu.Lock()
		delete(m.jobs, set.Hash)
		m.mu.Unlock()
		close(j.done)
	})
	return j
}

// run installs a set: one at a time on a computer, so that two conversations never install over each other.
func (m *machine) run(ctx context.Context, set store.SetRecord, j *job) error {
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
	rec, err := m.s.cfg.Store.Computer(ctx, m.id)
	if err != nil {
		return unknown(err, m.id)
	}
	log, err := transcript.Create(m.s.logPath(m.id, set.Hash), enplace.MaxLogBytes, m.s.cfg.Toolchain.Redactor().Lines())
	if err != nil {
		return fmt.Errorf("opening the log of an installation: %w", err)
	}
	defer log.Close()
	out := log.Stream()
	defer out.Close()
	work := provision.Job{
		Set: set.Set, Have: have(rec, set), Versions: versions(set.Bundle), Timeout: m.s.cfg.ItemLimit, Log: out, Redact: m.redact,
		Default: slices.Equal(rec.Home, set.Chain), Progress: func(i enplace.InstalledItem) { m.progress(ctx, set.Hash, i, j) },
	}
	restored := rec.Bundle != "" && rec.Bundle == set.Bundle.Image && !applied(rec, set.Hash)
	res, err := m.bring(ctx, box, work, restored)
	if err != nil {
		return err
	}
	return m.record(ctx, set, res)
}

// bring verifies what a bundle brought, and installs what is not there.
func (m *machine) bring(ctx context.Context, box sandbox.Sandbox, work provision.Job, restored bool) (provision.Result, error) {
	if restored {
		res, err := provision.Verify(ctx, box, work)
		if err != nil || allInstalled(res.Items) {
			return res, err
		}
		work.Have = res.Items
	}
	return provision.Apply(ctx, box, work)
}

func allInstalled(items []enplace.InstalledItem) bool {
	return !slices.ContainsFunc(items, func(i enplace.InstalledItem) bool { return i.Status != enplace.ItemInstalled })
}

// have gives how the items of a set stand on the computer, also as other sets of it left them: what one set installed by the
// same definition, another one need not.
func have(rec store.ComputerRecord, set store.SetRecord) []enplace.InstalledItem {
	var all []enplace.InstalledItem
	for _, item := range set.Items {
		definition := item.Hash()
		var best *enplace.InstalledItem
		for _, c := range rec.Sets {
			for _, i := range c.Items {
				same := i.Key == item.Key && i.Scope == item.Scope
				if same && (c.Hash == set.Hash && best == nil || i.Status == enplace.ItemInstalled && i.Definition == definition) {
					best = &i.InstalledItem
				}
			}
		}
		if best != nil {
			all = append(all, *best)
		}
	}
	return all
}

// versions gives the exact versions that the set's bundle has, so that computers that install directly agree with it.
func versions(b enplace.Bundle) map[string]string {
	all := map[string]string{}
	if b.Status != enplace.BundleReady {
		return all
	}
	for _, i := range b.Items {
		for _, t := range i.Tools {
			if t.Resolved != "" {
				all[provision.VersionKey(i.Scope, i.Key, t.Name)] = t.Resolved
			}
		}
	}
	return all
}

func applied(rec store.ComputerRecord, hash string) bool {
	return slices.ContainsFunc(rec.Sets, func(c enplace.ComputerSet) bool { return c.Hash == hash && c.AppliedAt != nil })
}

func (m *machine) redact(text string) string {
	return string(m.s.cfg.Toolchain.Redactor().Bytes([]byte(text)))
}

// progress records how an item stands before anything else is done to it: what was being installed when the server died is not
// taken for installed.
func (m *machine) progress(ctx context.Context, hash string, item enplace.InstalledItem, j *job) {
	if _, err := m.s.cfg.Store.UpdateComputer(context.WithoutCancel(ctx), m.id, func(r *store.ComputerRecord) error {
		c := setOf(r, hash)
		put(c, enplace.ComputerItem{InstalledItem: item, Obtained: obtained(item, c)})
		return nil
	}); err != nil {
		m.s.cfg.Logger.Error("recording an installation", "computer", m.id, "set", hash, "item", item.Key, "err", err)
	}
	m.mu.Lock()
	j.item = item
	m.mu.Unlock()
	select {
	case j.changed <- struct{}{}:
	default:
	}
}

// setOf gives the record's entry of a set, made where there is none.
func setOf(r *store.ComputerRecord, hash string) *enplace.ComputerSet {
	i := slices.IndexFunc(r.Sets, func(c enplace.ComputerSet) bool { return c.Hash == hash })
	if i < 0 {
		r.Sets = append(r.Sets, enplace.ComputerSet{Hash: hash, Items: []enplace.ComputerItem{}})
		i = len(r.Sets) - 1
	}
	return &r.Sets[i]
}

func put(c *enplace.ComputerSet, item enplace.ComputerItem) {
	i := slices.IndexFunc(c.Items, func(have enplace.ComputerItem) bool { return have.Key == item.Key && have.Scope == item.Scope })
	if i < 0 {
		c.Items = append(c.Items, item)
		return
	}
	c.Items[i] = item
}

// obtained says how the computer came to an item: what a bundle brought stays the bundle's until it is installed again.
func obtained(item enplace.InstalledItem, c *enplace.ComputerSet) enplace.Obtained {
	if item.Status == enplace.ItemInstalling {
		return enplace.FromDirect
	}
	for _, have := range c.Items {
		if have.Key == item.Key && have.Scope == item.Scope && have.Obtained != "" {
			return have.Obtained
		}
	}
	return enplace.FromDirect
}

// maxSets bounds the sets that a computer's record keeps: the oldest go.
const maxSets = 20

// record keeps how a set stands at the end of a pass, and when what failed is tried again.
func (m *machine) record(ctx context.Context, set store.SetRecord, res provision.Result) error {
	ctx = context.WithoutCancel(ctx)
	now := m.s.cfg.Now().UTC()
	failed := slices.DeleteFunc(slices.Clone(res.Items), func(i enplace.InstalledItem) bool { return i.Status == enplace.ItemInstalled })
	var attempt int
	_, err := m.s.cfg.Store.UpdateComputer(ctx, m.id, func(r *store.ComputerRecord) error {
		c := setOf(r, set.Hash)
		was := *c
		c.Items = []enplace.ComputerItem{}
		for _, i := range res.Items {
			c.Items = append(c.Items, enplace.ComputerItem{InstalledItem: i, Obtained: obtained(i, &was)})
		}
		c.Attempts++
		attempt = c.Attempts
		c.RetryAt, c.AppliedAt = nil, &now
		if len(failed) > 0 {
			at := now.Add(m.s.cfg.Retry)
			c.RetryAt, c.AppliedAt = &at, nil
		}
		if r.Exports == nil {
			r.Exports = map[string][]string{}
		}
		r.Exports[set.Hash] = res.Exports
		for _, i := range c.Items {
			if i.Status == enplace.ItemInstalled { // should it fail again, that is news
				delete(r.Reported, reportKey(set.Hash, i))
			}
		}
		dropOldSets(r, set.Hash)
		return nil
	})
	if err != nil {
		return unknown(err, m.id)
	}
	for _, i := range failed {
		if err := m.s.cfg.Store.AppendComputerError(ctx, m.id, enplace.ComputerError{
			At: now, Set: set.Hash, Key: i.Key, Scope: i.Scope, Error: i.Error, ErrorTail: i.ErrorTail, Attempt: attempt,
		}, maxErrors); err != nil {
			return unknown(err, m.id)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(failed) > 0 && m.box != nil {
		m.retries[set.Hash] = retry{set, now.Add(m.s.cfg.Retry)}
	}
	return nil
}

func dropOldSets(r *store.ComputerRecord, keep string) {
	for len(r.Sets) > maxSets {
		i := slices.IndexFunc(r.Sets, func(c enplace.ComputerSet) bool { return c.Hash != keep })
		delete(r.Exports, r.Sets[i].Hash)
		r.Sets = slices.Delete(r.Sets, i, i+1)
	}
}

// retryDue tries again what failed and is due. A computer that was stopped meanwhile tries at its next use.
func (m *machine) retryDue() {
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
	for _, set := range due {
		m.apply(set)
	}
}

// await waits for a job, telling progress, until its end or the time is up; whether it ended is told.
func (m *machine) await(ctx context.Context, j *job, most time.Duration, tell func(string) error) (ended bool, err error) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		select {
		case <-j.done:
			return true, j.err
		case <-timer.C:
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-j.changed:
			m.mu.Lock()
			item := j.item
			m.mu.Unlock()
			if tell != nil {
				if err := tell(fmt.Sprintf("%s of %s: %s", item.Key, item.Scope, item.Status)); err != nil {
					return false, err
				}
			}
		}
	}
}

// logPath is where the log of an installation is kept: of each set the last one's.
func (s *Service) logPath(id, hash string) string {
	return filepath.Join(s.cfg.LogDir, volumeOf(id)+"."+hash+".log")
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
