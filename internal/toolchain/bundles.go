package toolchain

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/provision"
	"enplace/internal/sandbox"
	"enplace/internal/store"
	"enplace/internal/transcript"
)

const (
	maxWaitingBundles = 10_000
	usedEvery         = time.Minute      // how often the use of a set is written, at most
	bundleDeadline    = time.Hour        // of one bundle, all its items together
	limitSpread       = 20 * time.Second // over how long bundles come back that a source refused
)

// leftOutOfBundles are the folders whose content is no part of an installation. What a script put into a home folder is.
var leftOutOfBundles = []string{"tmp", "run", "task", "var/cache/apt/archives", "root/.npm/_cacache", "root/.cache/pip", "opt/mise/cache", "opt/mise/downloads"}

// noted is when the use of a set was written last, and its bundle.
type noted struct {
	at     time.Time
	bundle enplace.Bundle
}

// Use notes that a computer uses a set, and has its bundle built where there is none yet. It gives the bundle as it stands.
func (s *Service) Use(ctx context.Context, hash string) (enplace.Bundle, error) {
	now := s.cfg.Now().UTC()
	s.mu.Lock()
	have, ok := s.noted[hash]
	s.mu.Unlock()
	if ok && now.Sub(have.at) < usedEvery {
		return have.bundle, nil
	}
	build := false
	rec, err := s.updateSet(ctx, hash, func(r *store.SetRecord) {
		r.UsedAt = now
		prepared, _ := r.Prepared()
		if build = prepared && r.Bundle.Status == enplace.BundleNotPrepared; build {
			r.Bundle = enplace.Bundle{Status: enplace.BundleBuilding}
		}
	})
	if err != nil {
		return enplace.Bundle{}, missing(err, "set", hash)
	}
	if build {
		s.enqueue(rec)
	}
	return rec.Bundle, nil
}

// updateSet changes what is kept of a set. Nothing else does, so that what is noted of it holds.
func (s *Service) updateSet(ctx context.Context, hash string, change func(*store.SetRecord)) (store.SetRecord, error) {
	s.sets.Lock()
	defer s.sets.Unlock()
	rec, err := s.cfg.Store.UpdateSet(ctx, hash, func(r *store.SetRecord) error {
		change(r)
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.noted, hash)
	if prepared, _ := rec.Prepared(); err == nil && !(prepared && rec.Bundle.Status == enplace.BundleNotPrepared) { // its use is to come
		s.noted[hash] = noted{rec.UsedAt, rec.Bundle}
	}
	return rec, err
}

// enqueue has a bundle built. Those with a person's own items wait for each other and for nobody else: what hangs in them holds up
// no bundle of a team or the organisation.
func (s *Service) enqueue(rec store.SetRecord) {
	queue := s.bundles
	if slices.ContainsFunc(rec.Items, func(i enplace.SetItem) bool { return i.Scope.Person() != "" }) {
		queue = s.personal
	}
	select {
	case queue <- rec.Hash:
	default: // the record says building, so the next start builds it
		s.cfg.Logger.Error("more bundles wait than can be remembered", "set", rec.Hash)
	}
}

// RetryBundle builds a bundle again that failed, or waits until a source lets itself be asked. What was resolved stays so: computers
// that install directly have it already.
func (s *Service) RetryBundle(ctx context.Context, c enplace.Caller, hash string) (enplace.Bundle, error) {
	if err := access.Check(c, access.Run, access.Thing{What: "set", ID: hash, Shared: true}); err != nil {
		return enplace.Bundle{}, err
	}
	again := false
	rec, err := s.updateSet(ctx, hash, func(r *store.SetRecord) {
		if again = r.Bundle.Status == enplace.BundleFailed || r.Bundle.Reason != "" && r.Bundle.Status == enplace.BundleBuilding; again {
			r.Bundle = enplace.Bundle{Status: enplace.BundleBuilding, Items: r.Bundle.Items}
		}
	})
	if err != nil {
		return enplace.Bundle{}, missing(err, "set", hash)
	}
	if again {
		if err := transcript.Remove(s.logPath(hash)); err != nil { // or it would be read as that of the new attempt
			s.cfg.Logger.Warn("removing the log of a failed bundle", "set", hash, "err", err)
		}
		s.cfg.Audit.Record(ctx, c, "bundle.retry", hash, nil)
		s.enqueue(rec)
	}
	return rec.Bundle, nil
}

// resumeBundles queues what an earlier process had not built to its end.
func (s *Service) resumeBundles(ctx context.Context) error {
	l, err := s.cfg.Store.ListSets(ctx, enplace.Page{})
	if err != nil {
		return fmt.Errorf("finding the bundles to build: %w", err)
	}
	for _, r := range l.Items {
		if r.Bundle.Status == enplace.BundleBuilding {
			s.enqueue(r)
		}
	}
	return nil
}

// buildLoop builds one bundle of a queue after another: they are for later computers, and must not take the machine from the present ones.
func (s *Service) buildLoop(queue <-chan string) {
	for {
		select {
		case <-s.ctx.Done():
			return
		case hash := <-queue:
			if err := s.build(s.ctx, hash); err != nil && s.ctx.Err() == nil {
				s.cfg.Logger.Error("building a bundle", "set", hash, "err", err)
			}
			s.hub.Notify(hash)
		}
	}
}

// build makes a set's bundle and records how it ended. Only the end of the service leaves it as building.
func (s *Service) build(ctx context.Context, hash string) error {
	rec, err := s.cfg.Store.Set(ctx, hash)
	if err != nil || rec.Bundle.Status != enplace.BundleBuilding {
		return ignoreMissing(err)
	}
	if rec.Bundle.Reason != "" { // it waits no more, and a retry has nothing to begin
		if rec, err = s.updateSet(ctx, hash, func(r *store.SetRecord) { r.Bundle.Reason = "" }); err != nil {
			return ignoreMissing(err)
		}
	}
	bundle, limited, err := s.logged(ctx, rec)
	if ctx.Err() != nil {
		return nil
	}
	now := s.cfg.Now().UTC()
	switch {
	case err == nil:
		bundle.BuiltAt = &now
	case limited > 0:
		s.cfg.Logger.Info("a bundle waits until a source lets itself be asked again", "set", hash, "wait", limited, "err", err)
		bundle.Status, bundle.Reason = enplace.BundleBuilding, reason(err)+"; it is built again after that"
		defer s.buildAfter(rec, limited)
	default:
		s.cfg.Logger.Warn("a bundle failed", "set", hash, "err", err)
		bundle.Status, bundle.Reason, bundle.BuiltAt = enplace.BundleFailed, reason(err), &now
	}
	_, err = s.updateSet(ctx, hash, func(r *store.SetRecord) { r.Bundle = bundle })
	return ignoreMissing(err)
}

// buildAfter has a bundle built when a source lets itself be asked again. After a restart of the server it is tried at once.
func (s *Service) buildAfter(rec store.SetRecord, wait time.Duration) {
	s.done.Go(func() {
		select {
		case <-s.ctx.Done():
		case <-time.After(wait + rand.N(limitSpread)):
			s.enqueue(rec)
		}
	})
}

// logged is install with a log.
func (s *Service) logged(ctx context.Context, rec store.SetRecord) (_ enplace.Bundle, limited time.Duration, err error) {
	set := rec.Set
	log, err := transcript.Create(s.logPath(set.Hash), enplace.MaxLogBytes, s.redactor(set.Chain).Lines())
	if err != nil {
		return enplace.Bundle{}, 0, fmt.Errorf("opening the log of a bundle: %w", err)
	}
	defer log.Close()
	s.hub.Notify(set.Hash) // there is a log to follow
	bundle, limited, err := s.install(ctx, rec, log)
	switch {
	case ctx.Err() != nil:
		log.Note("interrupted by the server's end; it is built anew")
	case err != nil:
		log.Note("failed: %s", reason(err))
	}
	return bundle, limited, err
}

func ignoreMissing(err error) error {
	if errors.Is(err, store.ErrNotFound) { // forgotten meanwhile
		return nil
	}
	return err
}

func reason(err error) string {
	var told *enplace.Error
	if errors.As(err, &told) {
		return told.Message
	}
	return "the server could not build it; its log says why"
}

// install brings the set onto a clean sandbox and keeps what that changed, in and outside of mise's directory. A set of which
// an item failed has no bundle: each computer installs it, and says what is wrong. What an earlier attempt resolved stays so. Where a
// source was asked too often, limited says for how long it refuses.
func (s *Service) install(ctx context.Context, rec store.SetRecord, log *transcript.Writer) (_ enplace.Bundle, limited time.Duration, err error) {
	set := rec.Set
	ctx, cancel := context.WithTimeoutCause(ctx, bundleDeadline, enplace.Errorf(enplace.KindUnavailable, "the installation took longer than %s", bundleDeadline))
	defer cancel()
	box, err := s.cfg.Runtime.Start(ctx, sandbox.Spec{
		ID: "bundle_" + set.Hash[:16], Root: []enplace.Digest{set.Base}, Limits: s.cfg.Limits, Egress: set.Egress,
	})
	if err != nil {
		return enplace.Bundle{}, 0, fmt.Errorf("starting the sandbox of a bundle: %w", err)
	}
	defer func() {
		if err := box.Stop(context.WithoutCancel(ctx)); err != nil {
			s.cfg.Logger.Error("stopping the sandbox of a bundle", "set", set.Hash, "err", err)
		}
	}()
	redactor := s.redactor(set.Chain)
	res, err := provision.Apply(ctx, box, provision.Job{
		Set: set, Log: log, Redact: func(text string) string { return string(redactor.Bytes([]byte(text))) },
		Versions: provision.Versions(rec.Bundle.Items), Sources: provision.SourcesOf(rec.Bundle.Items), Token: s.cfg.GitHubToken,
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		return enplace.Bundle{}, 0, err
	}
	bundle := enplace.Bundle{Status: enplace.BundleReady, Items: res.Items}
	if failed := failures(res.Items); failed != "" {
		return bundle, res.Limited, enplace.Errorf(enplace.KindInvalid, "could not be installed: %s", failed)
	}
	info, err := box.Capture(ctx, "/", "", leavesOut)
	if err != nil {
		return bundle, 0, fmt.Errorf("keeping the installed set: %w", err)
	}
	bundle.Image, bundle.Bytes = info.Digest, info.Bytes
	return bundle, 0, nil
}

func failures(items []enplace.InstalledItem) string {
	var failed []string
	for _, i := range items {
		if i.Status != enplace.ItemInstalled {
			failed = append(failed, fmt.Sprintf("%s of %s (%s)", i.Key, i.Scope, i.Error))
		}
	}
	return strings.Join(failed, ", ")
}

// leavesOut says what of a path is no part of an installation. The folders themselves stay.
func leavesOut(path string) bool {
	for _, dir := range leftOutOfBundles {
		if strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

func (s *Service) logPath(hash string) string { return filepath.Join(s.cfg.LogDir, hash+".log") }

// Log opens the log of a set's bundle. While the bundle waits for its turn the log is waited for, at most enplace.MaxWait.
func (s *Service) Log(ctx context.Context, c enplace.Caller, hash string) (*transcript.Reader, error) {
	var r *transcript.Reader
	err := s.hub.Until(ctx, hash, enplace.MaxWait, func() (bool, error) {
		rec, err := s.Set(ctx, c, hash)
		if err != nil {
			return false, err
		}
		r, err = transcript.Open(s.logPath(hash))
		if errors.Is(err, os.ErrNotExist) {
			return rec.Bundle.Status != enplace.BundleBuilding, nil
		}
		return true, err
	})
	if err == nil && r == nil {
		err = enplace.NotFoundf("no bundle of this set was built here, so there is no log of one")
	}
	return r, err
}

// WaitBundle waits until a set's bundle is not being built any more, or the time is up, and gives it.
func (s *Service) WaitBundle(ctx context.Context, c enplace.Caller, hash string, wait time.Duration) (enplace.Bundle, error) {
	var rec store.SetRecord
	err := s.hub.Until(ctx, hash, wait, func() (bool, error) {
		var err error
		rec, err = s.Set(ctx, c, hash)
		return rec.Bundle.Status != enplace.BundleBuilding, err
	})
	return rec.Bundle, err
}

// sweepLogs removes the logs of sets that are gone.
func (s *Service) sweepLogs(ctx context.Context) error {
	entries, err := os.ReadDir(s.cfg.LogDir)
	if err != nil {
		return fmt.Errorf("finding the logs of bundles: %w", err)
	}
	for _, e := range entries {
		hash, ok := strings.CutSuffix(e.Name(), ".log")
		if !ok {
			continue
		}
		if _, err := s.cfg.Store.Set(ctx, hash); errors.Is(err, store.ErrNotFound) {
			if err := transcript.Remove(s.logPath(hash)); err != nil {
				return fmt.Errorf("removing the log of a forgotten set: %w", err)
			}
		}
	}
	return nil
}
