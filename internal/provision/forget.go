package provision

import (
	"context"

	"enplace/internal/guest"
)

// Forget removes what a box knows of a set that its owner selects no more: the index of its shims. What was installed stays.
// The error is as Apply's.
func Forget(ctx context.Context, box Box, set string) error {
	p := &pass{box: box, job: Job{Redact: func(text string) string { return text }}}
	_, _, err := p.ask(ctx, guest.DropShims(set))
	return err
}
