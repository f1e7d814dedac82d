package source

import (
	"context"
	"io"
	"slices"
	"strings"
)

// Part says what of a source is wanted, for a caller that judges file by file what it gets, so that one bad file does not stop
// the others: Within names files and folders at the top, beneath a single top folder too. What lies beside them is passed over,
// whatever it is; links are kept wherever they lead; and of a file of more than FileBytes that much and one byte is kept. Nothing
// that would leave the tree is passed over: it is refused as ever. The zero Part is all of a source, held to all rules.
type Part struct {
	Within    []string
	FileBytes int64
}

// Archive imports that part of an archive, as the function Archive does all of one.
func (p Part) Archive(ctx context.Context, r io.Reader, sink Sink, scratch string) (Result, error) {
	l := defaultLimits
	l.part = p
	return archive(ctx, r, sink, scratch, l)
}

func (p Part) all() bool { return len(p.Within) == 0 }

// has reports whether a name is of the part.
func (p Part) has(name string) bool {
	first, rest, _ := strings.Cut(name, "/")
	second, _, _ := strings.Cut(rest, "/")
	return p.all() || slices.Contains(p.Within, first) || slices.Contains(p.Within, second)
}

// limit gives the reader of a file that is cut behind the byte that makes it too large.
func (p Part) limit(r io.Reader) io.Reader {
	if p.FileBytes == 0 {
		return r
	}
	return io.LimitReader(r, p.FileBytes+1)
}
