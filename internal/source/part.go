package source

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"enplace"
)

// Part says what of a source is wanted, for a caller that judges file by file what it gets, so that one bad file does not stop
// the others: Within names files and folders at the top, beneath a single top folder too. What lies beside them is passed over,
// whatever it is; links are kept wherever they lead; of a file of more than FileBytes that much and one byte is kept; and what
// cannot be taken at all is named in Result.Refused. Nothing that would leave the tree is passed over: it stops the import as ever.
// The zero Part is all of a source, held to all rules.
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

// refuse leaves out an entry that cannot be taken, or stops an import that is to have everything.
func (c *collector) refuse(name string, why error) error {
	var told *enplace.Error
	if c.l.part.all() || !errors.As(why, &told) {
		return why
	}
	if err := c.hold(name + told.Message); err != nil {
		return err
	}
	c.refused = append(c.refused, Refused{Path: name, Reason: told.Message})
	return c.bounded()
}

// separated leaves out what has a backslash in its name in an archive that separates folders otherwise: it may stand where the
// archive does not mean it.
func (c *collector) separated() error {
	if len(c.backslashes) == 0 || !c.slashed {
		return nil
	}
	for _, raw := range c.backslashes {
		name := clean(raw)
		delete(c.entries, name)
		if err := c.refuse(name, enplace.Invalidf(`has a backslash in its name, in an archive that separates folders with /; rename it`).WithField(shown(raw))); err != nil {
			return err
		}
	}
	return nil
}
