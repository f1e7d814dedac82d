package access

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"enplace"
	"enplace/internal/audit"
	"enplace/internal/store"
)

// Subjects looks up what a key may belong to; a store.Store is one.
type Subjects interface {
	Harness(ctx context.Context, id string) (enplace.Harness, error)
	Task(ctx context.Context, id string) (store.TaskRecord, error)
	Conversation(ctx context.Context, id string) (enplace.Conversation, error)
}

// touchEvery is how often the time of a key's last use is written, at most.
const touchEvery = time.Minute

// maxKnown bounds the keys held in memory. All are forgotten then, and looked up again when they come.
const maxKnown = 10_000

// Keys makes, lists, revokes and recognises keys. It is safe for concurrent use.
//
// A key that was recognised once is held in memory, so that a request does not wait for the database. All revocations come
// through here, in this process, and take effect before Revoke returns.
type Keys struct {
	store    store.Keys
	subjects Subjects
	now      func() time.Time
	audit    *audit.Log
	touches  sync.WaitGroup

	mu      sync.Mutex
	known   map[string]*known // by the hash of the secret
	revoked int               // how many were, to tell a look-up that a revocation overtook
}

type known struct {
	caller  enplace.Caller
	touched time.Time
}

// NewKeys makes a Keys. All arguments are required.
func NewKeys(keys store.Keys, subjects Subjects, now func() time.Time, trail *audit.Log) *Keys {
	return &Keys{store: keys, subjects: subjects, now: now, audit: trail, known: map[string]*known{}}
}

// Close waits until the last uses are written. Call it before the store is closed.
func (k *Keys) Close() error {
	k.touches.Wait()
	return nil
}

// Create makes a key; the answer alone has its secret. Only an operator may.
func (k *Keys) Create(ctx context.Context, c enplace.Caller, in enplace.CreateKey) (enplace.Key, error) {
	if err := Check(c, Operate, Thing{What: "key", ID: in.Name}); err != nil {
		return enplace.Key{}, err
	}
	if err := enplace.CheckName(in.Name); err != nil {
		return enplace.Key{}, err
	}
	if err := k.checkSubject(ctx, in); err != nil {
		return enplace.Key{}, err
	}
	return k.add(ctx, c, "key.create", in, newSecret())
}

// add keeps a key, and records that it was made by that action.
func (k *Keys) add(ctx context.Context, c enplace.Caller, action string, in enplace.CreateKey, secret string) (enplace.Key, error) {
	now := k.now().UTC().Truncate(time.Microsecond) // as it is kept
	key := enplace.Key{
		ID: enplace.NewID(enplace.PrefixKey, now), Name: in.Name, Kind: in.Kind, Subject: in.Subject,
		CreatedBy: c.Name(), CreatedAt: now,
	}
	if err := k.store.CreateKey(ctx, key, hashOf(secret)); err != nil {
		return enplace.Key{}, fmt.Errorf("keeping a new key: %w", err)
	}
	k.audit.Record(ctx, c, action, key.ID, map[string]any{"name": key.Name, "kind": key.Kind, "subject": key.Subject})
	key.Secret = secret
	return key, nil
}

// checkSubject refuses a key of nobody, and a login that records could take for another caller's name.
func (k *Keys) checkSubject(ctx context.Context, in enplace.CreateKey) error {
	var err error
	switch in.Kind {
	case enplace.KeyOperator:
		if in.Subject != "" {
			return enplace.Invalidf("an operator key belongs to nobody; leave the subject out").WithField("subject")
		}
		return nil
	case enplace.KeyPerson:
		if enplace.CheckLogin(in.Subject) != nil {
			return enplace.Invalidf("must be the person's login: 1 to 63 lowercase letters, digits, dots, hyphens or underscores, a letter or digit first").WithField("subject")
		}
		if in.Subject == operatorName || enplace.ValidID(enplace.PrefixHarness, in.Subject) || enplace.ValidID(enplace.PrefixTask, in.Subject) {
			return enplace.Invalidf("%q is no person's: records use it for another kind of caller; choose another login", in.Subject).WithField("subject")
		}
		return nil
	case enplace.KeyHarness:
		if err = store.ErrNotFound; enplace.ValidID(enplace.PrefixHarness, in.Subject) {
			_, err = k.subjects.Harness(ctx, in.Subject)
		}
	case enplace.KeyAgent:
		if conversation, ok := strings.CutPrefix(in.Subject, conversationPrefix); ok {
			_, err = k.subjects.Conversation(ctx, conversation)
		} else if err = store.ErrNotFound; enplace.ValidID(enplace.PrefixTask, in.Subject) {
			_, err = k.subjects.Task(ctx, in.Subject)
		}
	default:
		return enplace.Invalidf("%q is none of operator, person, harness, agent", in.Kind).WithField("kind")
	}
	if errors.Is(err, store.ErrNotFound) {
		what := map[enplace.KeyKind]string{enplace.KeyHarness: "harness", enplace.KeyAgent: "task or conversation"}[in.Kind]
		e := enplace.Invalidf("there is no %s %q; a key of kind %s belongs to one that exists", what, enplace.Shown(in.Subject, 80), in.Kind).WithField("subject")
		if in.Kind == enplace.KeyAgent {
			return e.WithFix("write the id of a task, or %sID for a conversation", conversationPrefix)
		}
		return e
	}
	return err
}

var operatorName = enplace.Caller{Kind: enplace.KeyOperator}.Name()

// List gives all keys without their secrets, newest first. Only an operator may.
func (k *Keys) List(ctx context.Context, c enplace.Caller, p enplace.Page) (enplace.List[enplace.Key], error) {
	if err := Check(c, Operate, Thing{What: "key", ID: "list"}); err != nil {
		return enplace.List[enplace.Key]{}, err
	}
	return k.store.ListKeys(ctx, p)
}

// Revoke ends a key, before it returns. A key that was revoked before stays so. Only an operator may.
func (k *Keys) Revoke(ctx context.Context, c enplace.Caller, id string) (enplace.Key, error) {
	t := Thing{What: "key", ID: id}
	if err := Check(c, Operate, t); err != nil {
		return enplace.Key{}, err
	}
	key, err := k.store.RevokeKey(ctx, id, k.now())
	// Also after an error: whether the database has it is not known then.
	k.mu.Lock()
	k.revoked++
	clear(k.known)
	k.mu.Unlock()
	if errors.Is(err, store.ErrNotFound) {
		return enplace.Key{}, Unknown(t)
	}
	if err != nil {
		return enplace.Key{}, fmt.Errorf("revoking a key: %w", err)
	}
	k.audit.Record(ctx, c, "key.revoke", id, map[string]any{"name": key.Name, "kind": key.Kind, "subject": key.Subject})
	return key, nil
}

// Retire revokes the keys of a subject, before it returns: its name is about to be something else's.
func (k *Keys) Retire(ctx context.Context, subject string) error {
	l, err := k.store.ListKeys(ctx, enplace.Page{})
	if err != nil {
		return fmt.Errorf("finding the keys of %s: %w", subject, err)
	}
	for _, key := range l.Items {
		if key.Subject == subject && key.RevokedAt == nil {
			if _, err := k.Revoke(ctx, enplace.Caller{Kind: enplace.KeyOperator}, key.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// Authenticate gives the caller of a secret; an unknown, malformed or revoked one is an error of kind unauthenticated.
func (k *Keys) Authenticate(ctx context.Context, secret string) (enplace.Caller, error) {
	if !wellFormed(secret) {
		return enplace.Caller{}, unauthenticated("this is no key of Enplace, or it was cut or mistyped")
	}
	hash := hashOf(secret)
	if c, ok := k.recall(hash); ok {
		return c, nil
	}
	k.mu.Lock()
	revoked := k.revoked
	k.mu.Unlock()
	key, err := k.store.KeyByHash(ctx, hash)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return enplace.Caller{}, unauthenticated("this server does not know the key")
	case err != nil:
		return enplace.Caller{}, fmt.Errorf("looking up a key: %w", err)
	case key.RevokedAt != nil:
		return enplace.Caller{}, unauthenticated("the key %s was revoked", key.ID)
	}
	n := &known{caller: enplace.Caller{KeyID: key.ID, Kind: key.Kind, Subject: key.Subject}}
	if key.LastUsed != nil {
		n.touched = *key.LastUsed
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if revoked == k.revoked { // else it may be this one: look it up again next time
		if len(k.known) >= maxKnown {
			clear(k.known)
		}
		k.known[hash] = n
	}
	k.touch(n)
	return n.caller, nil
}

// recall gives the caller of a key that was recognised before. A look-up by a hash tells nothing of the secret by its time.
func (k *Keys) recall(hash string) (enplace.Caller, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, ok := k.known[hash]
	if !ok {
		return enplace.Caller{}, false
	}
	k.touch(n)
	return n.caller, true
}

// touch writes the time of use, beside the request and not before it. A touch that is lost leaves a time that is too old
// until the next one. The caller holds mu.
func (k *Keys) touch(n *known) {
	now := k.now()
	if now.Sub(n.touched) < touchEvery {
		return
	}
	n.touched = now
	k.touches.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), touchEvery)
		defer cancel()
		_ = k.store.TouchKey(ctx, n.caller.KeyID, now)
	})
}

// Bootstrap makes the first operator key when none is in force, and reports whether it did. save gets the secret before the
// key counts: a server that dies between the two makes another at its next start, where it would else have locked everyone
// out.
func (k *Keys) Bootstrap(ctx context.Context, save func(secret string) error) (made bool, err error) {
	all, err := k.store.ListKeys(ctx, enplace.Page{})
	if err != nil {
		return false, fmt.Errorf("looking for an operator key: %w", err)
	}
	for _, key := range all.Items {
		if key.Kind == enplace.KeyOperator && key.RevokedAt == nil {
			return false, nil
		}
	}
	_, err = k.saved(ctx, "key.create", "made at the server's start", save)
	return err == nil, err
}

// Recover makes an operator key whatever others are in force, and is asked by nobody's key: it is for whoever has the server's
// data in hand. save gets the secret before the key counts.
func (k *Keys) Recover(ctx context.Context, save func(secret string) error) (enplace.Key, error) {
	return k.saved(ctx, "key.recover", "recovered on the server's machine", save)
}

func (k *Keys) saved(ctx context.Context, action, name string, save func(secret string) error) (enplace.Key, error) {
	secret := newSecret()
	if err := save(secret); err != nil {
		return enplace.Key{}, fmt.Errorf("saving the operator key: %w", err)
	}
	return k.add(ctx, enplace.Caller{Kind: enplace.KeyOperator}, action, enplace.CreateKey{Name: name, Kind: enplace.KeyOperator}, secret)
}

func unauthenticated(format string, args ...any) error {
	return enplace.Errorf(enplace.KindUnauthenticated, format, args...).WithField("Authorization").
		WithFix("set ENPLACE_KEY to a key of this server, whole: enp_ and %d letters and digits", secretLength).
		WithFix("operators find one in operator.key of the server's data directory, and make others with it; enplace key recover writes another")
}
