package client

import (
	"context"
	"encoding/json"

	"enplace"
)

// CreateKey makes an API key. Its secret is in this answer and in no other.
func (c *Client) CreateKey(ctx context.Context, in enplace.CreateKey) (k enplace.Key, err error) {
	return k, c.post(ctx, at("keys"), in, &k)
}

// ListKeys gives all keys, without their secrets.
func (c *Client) ListKeys(ctx context.Context, p enplace.Page) (l enplace.List[enplace.Key], err error) {
	return l, c.get(ctx, at("keys"), page(p), &l)
}

// RevokeKey makes a key useless, at once and for good.
func (c *Client) RevokeKey(ctx context.Context, id string) (k enplace.Key, err error) {
	return k, c.delete(ctx, at("keys", id), &k)
}

// ListAudit gives the record of changes, newest first; with a target, only those of that thing.
func (c *Client) ListAudit(ctx context.Context, target string, p enplace.Page) (l enplace.List[enplace.AuditEntry], err error) {
	q := page(p)
	set(q, "target", target)
	return l, c.get(ctx, at("audit"), q, &l)
}

// Whoami says whom the key belongs to.
func (c *Client) Whoami(ctx context.Context) (i enplace.Identity, err error) {
	return i, c.get(ctx, at("whoami"), nil, &i)
}

// Status gives what the server says of itself: its version, its base, what runs sandboxes.
func (c *Client) Status(ctx context.Context) (s json.RawMessage, err error) {
	return s, c.get(ctx, at("status"), nil, &s)
}

// Ready gives nil once tasks and builds can run, else the error that says why not.
func (c *Client) Ready(ctx context.Context) error {
	return c.get(ctx, "/readyz", nil, nil)
}
