package toolchain

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/redact"
	"enplace/internal/store"
)

// Bounds of values: each becomes a variable of every command, and is looked for in every log.
const (
	maxSecretBytes      = 64 << 10
	maxScopeSecrets     = 100
	maxScopeSecretBytes = 256 << 10 // of all values of a scope, as they are sealed
	maxFormer           = 100       // values that a scope had, which are hidden until the server starts again
)

// hidden are the values of a scope that logs do not show.
type hidden struct {
	now    map[string]string // by name
	former []string          // the oldest first
}

// secretName is what a variable may be called. What decides how programs are found and loaded is not for the keychain.
var (
	secretName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	reservedName = regexp.MustCompile(`(?i)^(PATH|HOME|SHELL|USER|LOGNAME|PWD|IFS|ENV|BASH_ENV|LD_.*|ENPLACE_.*|MISE_.*|CENGRID_.*|.*_PROXY|SSL_CERT_.*)$`)
)

// PutSecret sets a value of the keychain. It never comes back: commands of conversations that read the scope get it as a
// variable, installations and builds never do, and logs do not show it. One of less than six bytes is shown, as ordinary words
// could not be told from it.
func (s *Service) PutSecret(ctx context.Context, c enplace.Caller, raw enplace.Scope, name string, in enplace.PutSecret) (enplace.Secret, error) {
	scope, err := enplace.ParseScope(string(raw))
	if err != nil {
		return enplace.Secret{}, err
	}
	if err := s.mayScope(c, access.Write, scope); err != nil {
		return enplace.Secret{}, err
	}
	if scope, err = s.knownScope(ctx, scope); err != nil {
		return enplace.Secret{}, err
	}
	switch {
	case !secretName.MatchString(name):
		return enplace.Secret{}, enplace.Invalidf("%q cannot be a variable: letters, digits and _, and no digit first", enplace.Shown(name, 80)).WithField("name")
	case reservedName.MatchString(name):
		return enplace.Secret{}, enplace.Invalidf("%s decides how commands run, so it cannot come from the keychain; choose another name", name).WithField("name")
	case in.Value == "":
		return enplace.Secret{}, enplace.Invalidf("is empty").WithField("value")
	case len(in.Value) > maxSecretBytes:
		return enplace.Secret{}, enplace.TooLargef("has %d bytes; the limit is %d", len(in.Value), maxSecretBytes).WithField("value")
	case strings.ContainsRune(in.Value, 0):
		return enplace.Secret{}, enplace.Invalidf("holds a NUL byte, which no variable can").WithField("value")
	}
	s.secrets.Lock()
	defer s.secrets.Unlock()
	if err := s.roomForSecret(ctx, scope, name, in.Value); err != nil {
		return enplace.Secret{}, err
	}
	now := s.cfg.Now().UTC()
	secret, err := s.cfg.Store.PutSecret(ctx, store.SecretRecord{
		Secret: enplace.Secret{Name: name, Scope: scope, CreatedBy: c.Name(), CreatedAt: now, UpdatedAt: now},
		Sealed: s.cfg.Sealer.Seal(sealedName(scope, name), in.Value),
	})
	if err != nil {
		return enplace.Secret{}, fmt.Errorf("keeping a secret: %w", err)
	}
	s.hide(scope, name, in.Value)
	s.cfg.Audit.Record(ctx, c, "keychain.put", string(scope)+" "+name, nil)
	return secret, nil
}

// roomForSecret refuses a value that a scope has no room for. The keychain's lock is held.
func (s *Service) roomForSecret(ctx context.Context, scope enplace.Scope, name, value string) error {
	have, err := s.cfg.Store.Secrets(ctx, []enplace.Scope{scope})
	if err != nil {
		return fmt.Errorf("reading the keychain: %w", err)
	}
	count, bytes := 1, len(value)
	for _, r := range have {
		if r.Name != name {
			count++
			bytes += len(r.Sealed)
		}
	}
	if count > maxScopeSecrets || bytes > maxScopeSecretBytes {
		return enplace.TooLargef("%s would have %d values of %d bytes together; the limits are %d and %d", scope, count, bytes, maxScopeSecrets, maxScopeSecretBytes).
			WithField("value").WithFix("remove what is not needed: enplace keychain list %s shows them", scope)
	}
	return nil
}

func sealedName(scope enplace.Scope, name string) string { return string(scope) + " " + name }

// ListSecrets gives the names of a scope's values, in order, and never a value.
func (s *Service) ListSecrets(ctx context.Context, c enplace.Caller, raw enplace.Scope, p enplace.Page) (enplace.List[enplace.Secret], error) {
	var l enplace.List[enplace.Secret]
	var after string
	if err := store.ParseCursor(p.Cursor, &after); err != nil {
		return l, err
	}
	scope, err := enplace.ParseScope(string(raw))
	if err != nil {
		return l, err
	}
	if err := s.mayScope(c, access.Write, scope); err != nil {
		return l, err
	}
	if scope, err = s.knownScope(ctx, scope); err != nil {
		return l, err
	}
	all, err := s.cfg.Store.Secrets(ctx, []enplace.Scope{scope})
	if err != nil {
		return l, fmt.Errorf("reading the keychain: %w", err)
	}
	var secrets []enplace.Secret
	for _, r := range all {
		if r.Name > after {
			secrets = append(secrets, r.Secret)
		}
	}
	return store.PageOf(secrets, p, func(v enplace.Secret) string { return store.Cursor(v.Name) }), nil
}

// DeleteSecret removes a value. Commands that run keep it until they end.
func (s *Service) DeleteSecret(ctx context.Context, c enplace.Caller, raw enplace.Scope, name string) error {
	scope, err := enplace.ParseScope(string(raw))
	if err != nil {
		return err
	}
	if err := s.mayScope(c, access.Write, scope); err != nil {
		return err
	}
	s.secrets.Lock()
	defer s.secrets.Unlock()
	err = missing(s.cfg.Store.DeleteSecret(ctx, scope, name), "secret", sealedName(scope, name))
	if err == nil {
		s.hide(scope, name, "")
	}
	return s.removed(ctx, c, err, "keychain.delete", sealedName(scope, name))
}

// Variables gives the keychain's values for a command of a conversation with that chain, as KEY=value; of a name that several
// scopes have, the nearest one's.
func (s *Service) Variables(ctx context.Context, chain enplace.Chain) ([]string, error) {
	all, err := s.cfg.Store.Secrets(ctx, chain)
	if err != nil {
		return nil, fmt.Errorf("reading the keychain: %w", err)
	}
	values, names := map[string]string{}, []string{}
	for _, r := range all { // outermost first
		value, err := s.cfg.Sealer.Open(sealedName(r.Scope, r.Name), r.Sealed)
		if err != nil {
			return nil, err
		}
		if _, ok := values[r.Name]; !ok {
			names = append(names, r.Name)
		}
		values[r.Name] = value
	}
	env := make([]string, 0, len(names))
	for _, name := range names {
		env = append(env, name+"="+values[name])
	}
	return env, nil
}

// learnSecrets learns every value that is kept, to be hidden. One that cannot be opened is one that nobody can print. The
// keychain's lock is held.
func (s *Service) learnSecrets(ctx context.Context) error {
	all, err := s.cfg.Store.Secrets(ctx, nil)
	if err != nil {
		return fmt.Errorf("reading the keychain: %w", err)
	}
	for _, r := range all {
		value, err := s.cfg.Sealer.Open(sealedName(r.Scope, r.Name), r.Sealed)
		if err != nil {
			s.cfg.Logger.Warn("a value of the keychain cannot be decrypted", "scope", r.Scope, "name", r.Name, "err", err)
			continue
		}
		s.hide(r.Scope, r.Name, value)
	}
	return nil
}

// hide has a value hidden from now on; "" is none any more. The one that had the name before goes on being hidden: it may stand in
// output that is still to come. The keychain's lock is held.
func (s *Service) hide(scope enplace.Scope, name, value string) {
	h := s.hidden[scope]
	if h == nil {
		h = &hidden{now: map[string]string{}}
		s.hidden[scope] = h
	}
	if had := h.now[name]; had != "" && had != value {
		h.former = append(h.former, had)
		h.former = h.former[max(0, len(h.former)-maxFormer):]
	}
	h.now[name] = value
	if value == "" {
		delete(h.now, name)
	}
}

// Redactor hides the values that commands of a computer may know, beside what looks like a secret.
func (s *Service) Redactor(ctx context.Context, computer string) (*redact.Redactor, error) {
	if room, ok := strings.CutPrefix(computer, "room:"); ok {
		chain, err := s.chain(ctx, enplace.Conversation{Kind: enplace.ConversationRoom, Room: room})
		return s.redactor(chain), err
	}
	scopes, err := s.reads(ctx, enplace.Scope(computer))
	return s.redactor(scopes), err
}

// redactor hides the values of scopes, and of no other: who could have others' hidden in output of their own would learn what
// they are, by printing what they may be.
func (s *Service) redactor(scopes []enplace.Scope) *redact.Redactor {
	s.secrets.Lock()
	defer s.secrets.Unlock()
	var values []string
	if s.cfg.GitHubToken != "" { // too long to be found by guessing
		values = append(values, s.cfg.GitHubToken)
	}
	for _, scope := range scopes {
		if h := s.hidden[scope]; h != nil {
			values = slices.AppendSeq(append(values, h.former...), maps.Values(h.now))
		}
	}
	return redact.New(values...)
}
