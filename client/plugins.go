package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"enplace"
)

const (
	plugins = "plugins"
	items   = "items"
	scopes  = "scopes"
)

// CreatePlugin attaches a plugin of a git repository to a scope.
func (c *Client) CreatePlugin(ctx context.Context, in enplace.CreatePlugin) (p enplace.Plugin, err error) {
	return p, c.post(ctx, at(plugins), in, &p)
}

// CreatePluginArchive attaches a plugin to a scope that comes as an archive, of the kinds that Import takes. The archive is read
// once, to its end.
func (c *Client) CreatePluginArchive(ctx context.Context, scope enplace.Scope, name string, archive io.Reader) (p enplace.Plugin, err error) {
	q := url.Values{"scope": {string(scope)}, "name": {name}}
	return p, c.upload(ctx, call{method: http.MethodPost, path: at(plugins), query: q}, archive, &p)
}

// pluginCall is a request about one plugin. ref is its id, its name where no other plugin that the key can see has it, or
// SCOPE/NAME.
func pluginCall(method, ref string, below ...string) call {
	k := call{method: method}
	if i := strings.LastIndexByte(ref, '/'); i >= 0 {
		k.query = url.Values{"scope": {ref[:i]}}
		ref = ref[i+1:]
	}
	k.path = at(append([]string{plugins, ref}, below...)...)
	return k
}

// SyncPlugin has the repository of a plugin, by its id, name or SCOPE/NAME, read anew.
func (c *Client) SyncPlugin(ctx context.Context, ref string) (p enplace.Plugin, err error) {
	return p, c.json(ctx, pluginCall(http.MethodPost, ref, "sync"), nil, &p)
}

// SyncPluginArchive replaces the content of a plugin, by its id, name or SCOPE/NAME, that came as an archive. The archive is read
// once, to its end.
func (c *Client) SyncPluginArchive(ctx context.Context, ref string, archive io.Reader) (p enplace.Plugin, err error) {
	return p, c.upload(ctx, pluginCall(http.MethodPost, ref, "sync"), archive, &p)
}

// ListPlugins gives the plugins of a scope, or for "" all that the key can see, newest first.
func (c *Client) ListPlugins(ctx context.Context, scope enplace.Scope, p enplace.Page) (l enplace.List[enplace.Plugin], err error) {
	q := page(p)
	set(q, "scope", string(scope))
	return l, c.get(ctx, at(plugins), q, &l)
}

// Plugin gives one plugin, by its id, name or SCOPE/NAME, with the findings of its last sync.
func (c *Client) Plugin(ctx context.Context, ref string) (p enplace.Plugin, err error) {
	return p, c.json(ctx, pluginCall(http.MethodGet, ref), nil, &p)
}

// DeletePlugin removes a plugin, by its id, name or SCOPE/NAME, with its items.
func (c *Client) DeletePlugin(ctx context.Context, ref string) error {
	return c.json(ctx, pluginCall(http.MethodDelete, ref), nil, nil)
}

// ListItems gives the items that a scope declares or inherits, the outermost scope's first and by key within each, without their
// files.
func (c *Client) ListItems(ctx context.Context, scope enplace.Scope, p enplace.Page) (l enplace.List[enplace.ListedItem], err error) {
	q := page(p)
	q.Set("scope", string(scope))
	return l, c.get(ctx, at(items), q, &l)
}

// Item gives one item of the scope that declares it, with its files.
func (c *Client) Item(ctx context.Context, scope enplace.Scope, key string) (i enplace.Item, err error) {
	return i, c.get(ctx, at(items, string(scope), key), nil, &i)
}

// UpdateItem changes how an item is offered by its own scope, and leaves what in does not name.
func (c *Client) UpdateItem(ctx context.Context, scope enplace.Scope, key string, in enplace.UpdateItem) (i enplace.Item, err error) {
	return i, c.put(ctx, at(items, string(scope), key), in, &i)
}

// PutChoice says what a scope wants of an item that it reads.
func (c *Client) PutChoice(ctx context.Context, scope enplace.Scope, key string, in enplace.PutChoice) (v enplace.Choice, err error) {
	return v, c.put(ctx, at(scopes, string(scope), items, key), in, &v)
}

// PutEgress says what a scope lets computers reach.
func (c *Client) PutEgress(ctx context.Context, scope enplace.Scope, in enplace.Egress) (e enplace.Egress, err error) {
	return e, c.put(ctx, at(scopes, string(scope), "egress"), in, &e)
}

// Egress gives a scope's own policy; an error of kind not_found where it has none.
func (c *Client) Egress(ctx context.Context, scope enplace.Scope) (e enplace.Egress, err error) {
	return e, c.get(ctx, at(scopes, string(scope), "egress"), nil, &e)
}

// DeleteEgress leaves what computers reach to the other scopes.
func (c *Client) DeleteEgress(ctx context.Context, scope enplace.Scope) error {
	return c.delete(ctx, at(scopes, string(scope), "egress"), nil)
}

// PutSecret sets a value of a scope's keychain. The value never comes back.
func (c *Client) PutSecret(ctx context.Context, scope enplace.Scope, name string, in enplace.PutSecret) (s enplace.Secret, err error) {
	return s, c.put(ctx, at(scopes, string(scope), "keychain", name), in, &s)
}

// ListSecrets gives what is in a scope's keychain, by name and without any value.
func (c *Client) ListSecrets(ctx context.Context, scope enplace.Scope, p enplace.Page) (l enplace.List[enplace.Secret], err error) {
	return l, c.get(ctx, at(scopes, string(scope), "keychain"), page(p), &l)
}

// DeleteSecret removes a value from a scope's keychain.
func (c *Client) DeleteSecret(ctx context.Context, scope enplace.Scope, name string) error {
	return c.delete(ctx, at(scopes, string(scope), "keychain", name), nil)
}
