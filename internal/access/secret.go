package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"strings"
)

// A secret is "enp_" and the base32 of 32 random bytes and their CRC-32: a fixed prefix and a check, so that a typing error
// is told from an unknown key without a look-up, and scanners that look for leaked secrets can be sure of what they found.
const (
	secretPrefix = "enp_"
	secretBytes  = 32
	secretLength = 58 // digits after the prefix
)

var secretEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

func newSecret() string {
	b := make([]byte, secretBytes, secretBytes+crc32.Size)
	_, _ = rand.Read(b) // never fails: crypto/rand
	return secretPrefix + secretEncoding.EncodeToString(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

// wellFormed reports whether a secret is one that newSecret could give.
func wellFormed(secret string) bool {
	digits, ok := strings.CutPrefix(secret, secretPrefix)
	if !ok || len(digits) != secretLength {
		return false
	}
	b, err := secretEncoding.DecodeString(digits)
	return err == nil && len(b) == secretBytes+crc32.Size &&
		binary.BigEndian.Uint32(b[secretBytes:]) == crc32.ChecksumIEEE(b[:secretBytes])
}

// hashOf is what is stored. A secret of 256 random bits needs no salt and no slow hash.
func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
