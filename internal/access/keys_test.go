package access_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/audit"
	"enplace/internal/store"
	"enplace/internal/store/sqlite"
)

var operator = enplace.Caller{KeyID: "key_op", Kind: enplace.KeyOperator}

// counting is a store that counts the look-ups of keys.
type counting struct {
	store.Store
	mu      sync.Mutex
	lookups int
	looked  func() // called after a look-up, when not nil
}

func (c *counting) KeyByHash(ctx context.Context, hash string) (enplace.Key, error) {
	k, err := c.Store.KeyByHash(ctx, hash)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lookups++
	if c.looked != nil {
		c.looked()
	}
	return k, err
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newKeys(t *testing.T) (*access.Keys, *counting, *clock) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "enplace.db"))
	if err != nil {
		t.Fatal(err)
	}
	st := &counting{Store: s}
	c := &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	k := access.NewKeys(st, s, c.Now, audit.New(s, slog.New(slog.NewTextHandler(io.Discard, nil)), c.Now))
	t.Cleanup(func() {
		if err := errors.Join(k.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return k, st, c
}

func create(t *testing.T, k *access.Keys, in enplace.CreateKey) enplace.Key {
	t.Helper()
	key, err := k.Create(t.Context(), operator, in)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func ann(t *testing.T, k *access.Keys) enplace.Key {
	t.Helper()
	return create(t, k, enplace.CreateKey{Name: "laptop", Kind: enplace.KeyPerson, Subject: "ann"})
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	k, _, _ := newKeys(t)
	key := ann(t, k)
	for range 2 {
		c, err := k.Authenticate(t.Context(), key.Secret)
		if err != nil || c != (enplace.Caller{KeyID: key.ID, Kind: enplace.KeyPerson, Subject: "ann"}) {
			t.Errorf("the caller is %+v, %v", c, err)
		}
	}
	list, err := k.List(t.Context(), operator, enplace.Page{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Secret != "" || list.Items[0].ID != key.ID {
		t.Errorf("the list is %+v, %v", list, err)
	}
}

func TestUnknownSecrets(t *testing.T) {
	t.Parallel()
	k, st, _ := newKeys(t)
	secret := ann(t, k).Secret
	other, _, _ := newKeys(t)
	for name, s := range map[string]string{
		"of another server": ann(t, other).Secret,
		"empty":             "",
		"prefix only":       "enp_",
		"cut":               secret[:len(secret)-1],
		"longer":            secret + "0",
		"upper case":        strings.ToUpper(secret),
		"with space":        " " + secret,
		"two swapped":       secret[:10] + swap(secret[10:]),
		"hostile":           "enp_'; DROP TABLE keys; --" + strings.Repeat("\x00", 32),
		"huge":              "enp_" + strings.Repeat("a", 1<<20),
	} {
		_, err := k.Authenticate(t.Context(), s)
		var e *enplace.Error
		if !errors.As(err, &e) || e.Kind != enplace.KindUnauthenticated || !strings.Contains(strings.Join(e.Fixes, " "), "ENPLACE_KEY") || !strings.Contains(strings.Join(e.Fixes, " "), "operator.key") {
			t.Errorf("%s: %v", name, err)
		}
		if s != "" && strings.Contains(err.Error(), s) {
			t.Errorf("%s: the error repeats the secret", name)
		}
	}
	if st.lookups != 1 {
		t.Errorf("%d look-ups; only a well-formed key needs one", st.lookups)
	}
}

// swap exchanges the first two digits that differ.
func swap(s string) string {
	b := []byte(s)
	for i := range b[1:] {
		if b[i] != b[i+1] {
			b[i], b[i+1] = b[i+1], b[i]
			break
		}
	}
	return string(b)
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	k, st, c := newKeys(t)
	key, kept := ann(t, k), create(t, k, enplace.CreateKey{Name: "ci", Kind: enplace.KeyOperator})
	for _, s := range []string{key.Secret, kept.Secret} {
		if _, err := k.Authenticate(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	got, err := k.Revoke(t.Context(), operator, key.ID)
	if err != nil || got.RevokedAt == nil || !got.RevokedAt.Equal(c.Now()) {
		t.Errorf("revoked: %+v, %v", got, err)
	}
	if _, err := k.Authenticate(t.Context(), key.Secret); enplace.KindOf(err) != enplace.KindUnauthenticated {
		t.Errorf("a revoked key: %v", err)
	}
	if _, err := k.Authenticate(t.Context(), kept.Secret); err != nil {
		t.Errorf("another key: %v", err)
	}
	if _, err := k.Revoke(t.Context(), operator, "key_none"); enplace.KindOf(err) != enplace.KindNotFound {
		t.Errorf("an unknown key: %v", err)
	}
	entries, err := st.ListAudit(t.Context(), key.ID, enplace.Page{})
	if err != nil {
		t.Fatal(err)
	}
	var actions []string
	for _, e := range entries.Items {
		actions = append(actions, e.Actor+" "+e.Action)
	}
	slices.Sort(actions)
	if !slices.Equal(actions, []string{"operator key.create", "operator key.revoke"}) {
		t.Errorf("the audit says %v", actions)
	}
}

// A revocation between the look-up of a key and its being kept in memory is not forgotten.
func TestRevokeOvertakesLookup(t *testing.T) {
	t.Parallel()
	k, st, _ := newKeys(t)
	key := ann(t, k)
	st.looked = func() {
		st.looked = nil
		if _, err := k.Revoke(t.Context(), operator, key.ID); err != nil {
			t.Error(err)
		}
	}
	_, _ = k.Authenticate(t.Context(), key.Secret) // began before the revocation: either answer is right
	if _, err := k.Authenticate(t.Context(), key.Secret); enplace.KindOf(err) != enplace.KindUnauthenticated {
		t.Errorf("a revoked key: %v", err)
	}
}

func TestLookedUpOnceAndTouchedOnceAMinute(t *testing.T) {
	t.Parallel()
	k, st, c := newKeys(t)
	key := ann(t, k)
	lastUsed := func() time.Time {
		t.Helper()
		if err := k.Close(); err != nil { // waits for the touches
			t.Fatal(err)
		}
		list, err := st.ListKeys(t.Context(), enplace.Page{})
		if err != nil || list.Items[0].LastUsed == nil {
			t.Fatalf("never used: %v", err)
		}
		return *list.Items[0].LastUsed
	}
	use := func() {
		t.Helper()
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if _, err := k.Authenticate(t.Context(), key.Secret); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	if _, err := k.Authenticate(t.Context(), key.Secret); err != nil {
		t.Fatal(err)
	}
	first := c.Now()
	for range 3 {
		use()
		if got := lastUsed(); !got.Equal(first) {
			t.Errorf("last used at %v, within a minute of %v", got, first)
		}
		c.forward(15 * time.Second)
	}
	c.forward(15 * time.Second)
	use()
	if got := lastUsed(); !got.Equal(c.Now()) {
		t.Errorf("last used at %v, not %v", got, c.Now())
	}
	if st.lookups != 1 {
		t.Errorf("%d look-ups for one key", st.lookups)
	}
}

func TestCreateChecksItsSubject(t *testing.T) {
	t.Parallel()
	k, st, c := newKeys(t)
	if err := st.CreateHarness(t.Context(), enplace.Harness{ID: har1, CreatedAt: c.Now()}); err != nil {
		t.Fatal(err)
	}
	_, err := st.CreateTask(t.Context(), "", func(enplace.Version, error) (store.TaskRecord, error) {
		return store.TaskRecord{Task: enplace.Task{ID: task1, CreatedAt: c.Now()}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		kind    enplace.KeyKind
		subject string
		field   string // at fault; empty when it is right
	}{
		{enplace.KeyOperator, "", ""},
		{enplace.KeyOperator, "ann", "subject"},
		{enplace.KeyPerson, "a", ""},
		{enplace.KeyPerson, "ann.b-c_9", ""},
		{enplace.KeyPerson, strings.Repeat("a", 63), ""},
		{enplace.KeyPerson, strings.Repeat("a", 64), "subject"},
		{enplace.KeyPerson, "", "subject"},
		{enplace.KeyPerson, "Ann", "subject"},
		{enplace.KeyPerson, "ann\n", "subject"},
		{enplace.KeyPerson, "ann b", "subject"},
		{enplace.KeyPerson, "operator", "subject"}, // owns what the operator made
		{enplace.KeyPerson, har1, "subject"},       // owns what the harness made
		{enplace.KeyPerson, task2, "subject"},
		{enplace.KeyHarness, har1, ""},
		{enplace.KeyHarness, har2, "subject"},
		{enplace.KeyHarness, task1, "subject"},
		{enplace.KeyHarness, "", "subject"},
		{enplace.KeyAgent, task1, ""},
		{enplace.KeyAgent, task2, "subject"},
		{enplace.KeyAgent, "", "subject"},
		{"root", "ann", "kind"},
		{"", "", "kind"},
	} {
		key, err := k.Create(t.Context(), operator, enplace.CreateKey{Name: "n", Kind: x.kind, Subject: x.subject})
		field := ""
		var e *enplace.Error
		if errors.As(err, &e) && e.Kind == enplace.KindInvalid {
			field = e.Field
		} else if err != nil {
			t.Errorf("%s %q: %v", x.kind, x.subject, err)
		}
		if field != x.field || (err == nil) != (key.Secret != "") {
			t.Errorf("%s %q: %v; want the field %q", x.kind, x.subject, err, x.field)
		}
	}
	if _, err := k.Create(t.Context(), operator, enplace.CreateKey{Kind: enplace.KeyOperator}); enplace.KindOf(err) != enplace.KindInvalid {
		t.Errorf("a key without a name: %v", err)
	}
}

func TestOnlyOperatorsMay(t *testing.T) {
	t.Parallel()
	k, _, _ := newKeys(t)
	key := ann(t, k)
	for _, c := range callers[1:] {
		_, err1 := k.Create(t.Context(), c, enplace.CreateKey{Name: "mine", Kind: enplace.KeyOperator})
		_, err2 := k.List(t.Context(), c, enplace.Page{})
		_, err3 := k.Revoke(t.Context(), c, key.ID)
		for _, err := range []error{err1, err2, err3} {
			if enplace.KindOf(err) != enplace.KindForbidden {
				t.Errorf("%s: %v", c.Kind, err)
			}
		}
	}
	if _, err := k.Authenticate(t.Context(), key.Secret); err != nil {
		t.Errorf("after refused revocations: %v", err)
	}
}

func TestBootstrap(t *testing.T) {
	t.Parallel()
	k, st, _ := newKeys(t)
	ann(t, k) // a person's key is none
	full := errors.New("disk full")
	if made, err := k.Bootstrap(t.Context(), func(string) error { return full }); made || !errors.Is(err, full) {
		t.Errorf("a secret that was not saved: %v, %v", made, err)
	}
	var secret string
	save := func(s string) error {
		secret = s
		return nil
	}
	// A server that died after the last line would have no key in force: this makes one.
	if made, err := k.Bootstrap(t.Context(), save); !made || err != nil {
		t.Fatalf("the first start: %v, %v", made, err)
	}
	c, err := k.Authenticate(t.Context(), secret)
	if err != nil || c.Kind != enplace.KeyOperator {
		t.Errorf("the key that was saved is of %+v, %v", c, err)
	}
	if made, err := k.Bootstrap(t.Context(), func(string) error { return errors.New("saved twice") }); made || err != nil {
		t.Errorf("the second start: %v, %v", made, err)
	}
	if _, err := k.Revoke(t.Context(), c, c.KeyID); err != nil {
		t.Fatal(err)
	}
	if made, err := k.Bootstrap(t.Context(), save); !made || err != nil {
		t.Errorf("once it was revoked: %v, %v", made, err)
	}
	list, err := st.ListKeys(t.Context(), enplace.Page{})
	if err != nil || len(list.Items) != 3 {
		t.Errorf("%d keys, %v", len(list.Items), err)
	}
}

// A recovered key is one more: it needs no other, takes none away, and is on record as what it is.
func TestRecover(t *testing.T) {
	t.Parallel()
	k, st, _ := newKeys(t)
	full := errors.New("disk full")
	if key, err := k.Recover(t.Context(), func(string) error { return full }); !errors.Is(err, full) {
		t.Errorf("a secret that was not saved: %+v, %v", key, err)
	}
	var secrets []string
	save := func(s string) error {
		secrets = append(secrets, s)
		return nil
	}
	if _, err := k.Bootstrap(t.Context(), save); err != nil {
		t.Fatal(err)
	}
	key, err := k.Recover(t.Context(), save)
	if err != nil || key.Kind != enplace.KeyOperator || key.Secret != secrets[1] {
		t.Fatalf("%+v, %v", key, err)
	}
	for _, secret := range secrets {
		if c, err := k.Authenticate(t.Context(), secret); err != nil || c.Kind != enplace.KeyOperator {
			t.Errorf("%+v, %v", c, err)
		}
	}
	l, err := st.ListAudit(t.Context(), key.ID, enplace.Page{})
	if err != nil || len(l.Items) != 1 || l.Items[0].Action != "key.recover" || l.Items[0].Actor != "operator" {
		t.Errorf("%+v, %v", l, err)
	}
}
