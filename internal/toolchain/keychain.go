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

// maxSecretBytes bounds a value: it becomes a variable of every command.
const maxSecretBytes = 64 << 10

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
	now := s.cfg.Now().UTC()
	secret, err := s.cfg.Store.PutSecret(ctx, store.SecretRecord{
		Secret: enplace.Secret{Name: name, Scope: scope, CreatedBy: c.Name(), CreatedAt: now, UpdatedAt: now},
		Sealed: s.cfg.Sealer.Seal(sealedName(scope, name), in.Value),
	})
	if err != nil {
		return enplace.Secret{}, fmt.Errorf("keeping a secret: %w", err)
	}
	s.cfg.Audit.Record(ctx, c, "keychain.put", string(scope)+" "+name, nil)
	return secret, s.learnSecrets(ctx)
}

func sealedName(scope enplace.Scope, name string) string { return string(scope) + " " + name }

// ListSecrets gives the names of a scope's values, and never a value.
func (s *Service) ListSecrets(ctx context.Context, c enplace.Caller, raw enplace.Scope) (enplace.List[enplace.Secret], error) {
	l := enplace.List[enplace.Secret]{Items: []enplace.Secret{}}
	scope, err := enplace.ParseScope(string(raw))
	if err != nil {
		return l, err
	}
	if err := s.mayScope(c, access.Write, scope); err != nil {
		return l, err
	}
	all, err := s.cfg.Store.Secrets(ctx, []enplace.Scope{scope})
	if err != nil {
		return l, fmt.Errorf("reading the keychain: %w", err)
	}
	for _, r := range all {
		l.Items = append(l.Items, r.Secret)
	}
	return l, nil
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
	// Redaction goes on hiding it until the server starts again: it may stand in output that is still to come.
	err = missing(s.cfg.Store.DeleteSecret(ctx, scope, name), "secret", sealedName(scope, name))
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

// learnSecrets makes a redactor of every value that is kept, and of those that were since the server started. A value that cannot
// be opened is one that nobody can print. The keychain's lock is held.
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
		s.known[value] = true
	}
	s.redactor.Store(redact.New(slices.Collect(maps.Keys(s.known))...))
	return nil
}
