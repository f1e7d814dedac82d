// Package seal encrypts values at rest with a key that lies in a file of its own, so that whoever has the database alone, or a
// backup of it, has none of them. AES-256 in GCM (NIST SP 800-38D), with a random nonce for each value.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"enplace"
	"enplace/internal/durable"
)

const keyBytes = 32

// Sealer seals and opens values. It is safe for concurrent use.
type Sealer struct{ aead cipher.AEAD }

// Open reads the key, and makes one where there is none. The file must be its owner's alone.
func Open(path string) (*Sealer, error) {
	key, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		key = make([]byte, keyBytes)
		_, _ = rand.Read(key) // never fails: crypto/rand
		err = durable.WriteFile(path, key, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key of the keychain: %w", err)
	}
	fi, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading the key of the keychain: %w", err)
	}
	if fi.Mode().Perm()&0o077 != 0 {
		return nil, enplace.Errorf(enplace.KindUnavailable, "%s can be read by others than its owner", path).WithFix("chmod 600 %s", path)
	}
	if len(key) != keyBytes {
		return nil, enplace.Errorf(enplace.KindUnavailable, "%s has %d bytes and not %d, so it is no key", path, len(key), keyBytes).WithFix("restore it from a backup")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &Sealer{aead: aead}, nil
}

// Seal encrypts a value. The same name is needed to open it: a value put in another's place does not open.
func (s *Sealer) Seal(name, value string) []byte {
	return s.aead.Seal(nil, nil, []byte(value), []byte(name))
}

// Open decrypts what Seal gave. An error means another key, another name, or other bytes.
func (s *Sealer) Open(name string, sealed []byte) (string, error) {
	value, err := s.aead.Open(nil, nil, sealed, []byte(name))
	if err != nil {
		return "", enplace.Errorf(enplace.KindUnavailable, "the value of %s cannot be decrypted with the key of this server", name).
			WithFix("restore the key file that belongs to this database, or set the value again").WithCause(err)
	}
	return string(value), nil
}
