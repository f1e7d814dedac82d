package enplace

import (
	"crypto/rand"
	"encoding/binary"
	"strings"
	"time"
)

// The prefixes of ids.
const (
	PrefixEnvironment = "henv"
	PrefixHarness     = "har"
	PrefixTask        = "task"
	PrefixKey         = "key"
	PrefixAudit       = "aud"
	PrefixSandbox     = "sbx"
	PrefixPlugin      = "plug"
)

const idAlphabet = "0123456789abcdefghjkmnpqrstvwxyz" // Crockford's base32, lower case

// NewID makes an id such as henv_01m8p1…: the prefix and a UUIDv7 (RFC 9562) in base32, so that ids made later sort later.
func NewID(prefix string, now time.Time) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand
	ms := uint64(now.UnixMilli())
	var t [8]byte
	binary.BigEndian.PutUint64(t[:], ms)
	copy(b[:6], t[2:])
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80

	// 128 bits are 26 base32 digits, the first of which holds three bits.
	var out [26]byte
	hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	for i := 25; i >= 0; i-- {
		out[i] = idAlphabet[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return prefix + "_" + string(out[:])
}

// ValidID reports whether id has the prefix and the form that NewID gives. It says nothing of whether the thing exists.
func ValidID(prefix, id string) bool {
	rest, ok := strings.CutPrefix(id, prefix+"_")
	if !ok || len(rest) != 26 {
		return false
	}
	for _, c := range rest {
		if !strings.ContainsRune(idAlphabet, c) {
			return false
		}
	}
	return true
}
