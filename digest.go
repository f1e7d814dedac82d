package enplace

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Digest names bytes by their SHA-256, as "sha256:" and 64 lower-case hex digits.
type Digest string

// DigestOf gives the digest of b.
func DigestOf(b []byte) Digest {
	sum := sha256.Sum256(b)
	return NewDigest(sum[:])
}

// NewDigest makes a Digest of a SHA-256 sum.
func NewDigest(sum []byte) Digest { return Digest("sha256:" + hex.EncodeToString(sum)) }

// Hex gives the digits alone, or "" for anything that is not a digest; safe as a file name.
func (d Digest) Hex() string {
	h, ok := strings.CutPrefix(string(d), "sha256:")
	if !ok || len(h) != 64 || strings.Trim(h, "0123456789abcdef") != "" {
		return ""
	}
	return h
}
