package access

import (
	"context"

	"enplace"
)

// CreateKey asks for a key.
type CreateKey = enplace.CreateKey

// Keys makes, lists, revokes and recognises keys. It is safe for concurrent use.
type Keys struct{}

func (k *Keys) Create(ctx context.Context, c enplace.Caller, in CreateKey) (enplace.Key, error) {
	panic("todo")
}
func (k *Keys) List(ctx context.Context, c enplace.Caller, p enplace.Page) (enplace.List[enplace.Key], error) {
	panic("todo")
}
func (k *Keys) Revoke(ctx context.Context, c enplace.Caller, id string) (enplace.Key, error) {
	panic("todo")
}

// Authenticate gives the caller of a secret; an unknown, malformed or revoked one is an error of kind unauthenticated.
func (k *Keys) Authenticate(ctx context.Context, secret string) (enplace.Caller, error) {
	panic("todo")
}
