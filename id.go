package enplace

import (
	"crypto/rand"
	"encoding/binary"
	"strings"
	"sync/atomic"
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

// lastID is the time of the last id: milliseconds since 1970, and 12 bits below them.
var lastID atomic.Uint64

// NewID makes an id such as henv_01m8p1…: the prefix and a UUIDv7 (RFC 9562, by its method 3) in base32. Ids that a process makes
// later sort later, whatever its clock does: lists follow them. It is safe for concurrent use.
func NewID(prefix string, now time.Time) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand
	us := uint64(max(now.UnixMicro(), 0))
	at := nextID(us/1000<<12 | us%1000<<12/1000)
	binary.BigEndian.PutUint64(b[:], at>>12<<16|7<<12|at&0xfff)
	b[8] = b[8]&0x3f | 0x80

	return prefix + "_" + encodeID(b)
}

// nextID gives the time of the next id: that one, or the next after all others.
func nextID(at uint64) uint64 {
	for {
		last := lastID.Load()
		if at <= last {
			at = last + 1
		}
		if lastID.CompareAndSwap(last, at) {
			return at
		}
	}
}

// IDsAfter has the ids of this process sort after one that an earlier process made, also where the clock has gone back since. What
// is no id changes nothing.
func IDsAfter(id string) {
	_, digits, _ := strings.Cut(id, "_")
	if len(digits) != 26 {
		return
	}
	var hi uint64 // the first 64 bits: 13 digits hold 63 and two of the others
	for _, c := range digits[:13] {
		n := strings.IndexRune(idAlphabet, c)
		if n < 0 {
			return
		}
		hi = hi<<5 | uint64(n)
	}
	last := hi<<1 | 1 // the 64th is in the next digit
	at := last>>16<<12 | last&0xfff
	for {
		old := lastID.Load()
		if old >= at || lastID.CompareAndSwap(old, at) {
			return
		}
	}
}

// encodeID writes 128 bits in base32.
func encodeID(b [16]byte) string {
	// 128 bits are 26 base32 digits, the first of which holds three bits.
	var out [26]byte
	hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	for i := 25; i >= 0; i-- {
		out[i] = idAlphabet[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(out[:])
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
