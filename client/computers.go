package client

import (
	"context"
	"io"
	"net"
	"net/url"
	"time"

	"enplace"
)

const (
	computers = "computers"
	sets      = "sets"
)

// Set gives the set of a conversation as it stands on its computer.
func (c *Client) Set(ctx context.Context, conversation string) (s enplace.ConversationSet, err error) {
	return s, c.get(ctx, at(conversations, conversation, "set"), nil, &s)
}

// ExplainSet gives the set of a conversation with the reason for each of its parts.
func (c *Client) ExplainSet(ctx context.Context, conversation string) (s enplace.ExplainedSet, err error) {
	return s, c.get(ctx, at(conversations, conversation, "set", "explain"), nil, &s)
}

// RefreshSet has latest and ranges of a conversation's set resolved anew, and gives the set in its place.
func (c *Client) RefreshSet(ctx context.Context, conversation string) (s enplace.ConversationSet, err error) {
	return s, c.post(ctx, at(conversations, conversation, "set", "refresh"), nil, &s)
}

// RetrySet has a set tried again where it failed: its bundle, and on computers.
func (c *Client) RetrySet(ctx context.Context, hash string) (r enplace.RetriedSet, err error) {
	return r, c.post(ctx, at(sets, hash, "retry"), nil, &r)
}

// Bundle gives the bundle of a set. With wait, it answers when the bundle is not being built any more or the time is up, at most
// enplace.MaxWait.
func (c *Client) Bundle(ctx context.Context, hash string, wait time.Duration) (b enplace.Bundle, err error) {
	return b, c.get(ctx, at(sets, hash, "bundle"), waiting(wait), &b)
}

// WaitBundle waits for a bundle to be built or to fail, as long as ctx lets it.
func (c *Client) WaitBundle(ctx context.Context, hash string) (enplace.Bundle, error) {
	for {
		b, err := c.Bundle(ctx, hash, time.Minute)
		if err != nil || b.Status != enplace.BundleBuilding {
			return b, err
		}
	}
}

// SetLog gives the log of a set's bundle so far. The caller closes it.
func (c *Client) SetLog(ctx context.Context, hash string) (io.ReadCloser, error) {
	return c.open(ctx, call{path: at(sets, hash, "log")})
}

// FollowSetLog writes the log of a set's bundle to w as it grows, and gives the bundle's status when it has ended.
func (c *Client) FollowSetLog(ctx context.Context, hash string, w io.Writer) (enplace.BundleStatus, error) {
	status, err := c.follow(ctx, call{path: at(sets, hash, "log")}, w)
	return enplace.BundleStatus(status), err
}

// ListComputers gives the computers that the key can see, by id.
func (c *Client) ListComputers(ctx context.Context, p enplace.Page) (l enplace.List[enplace.Computer], err error) {
	return l, c.get(ctx, at(computers), page(p), &l)
}

// Computer gives one computer with its sets.
func (c *Client) Computer(ctx context.Context, id string) (v enplace.Computer, err error) {
	return v, c.get(ctx, at(computers, id), nil, &v)
}

// ListComputerErrors gives what could not be installed on a computer, newest first.
func (c *Client) ListComputerErrors(ctx context.Context, id string, p enplace.Page) (l enplace.List[enplace.ComputerError], err error) {
	return l, c.get(ctx, at(computers, id, "errors"), page(p), &l)
}

// ComputerLog gives the log of a set's last installation on a computer so far. The caller closes it.
func (c *Client) ComputerLog(ctx context.Context, id, hash string) (io.ReadCloser, error) {
	return c.open(ctx, call{path: at(computers, id, "log"), query: url.Values{"set": {hash}}})
}

// FollowComputerLog writes the log of a set's installation on a computer to w as it grows, and says how the set stands when it
// has ended.
func (c *Client) FollowComputerLog(ctx context.Context, id, hash string, w io.Writer) (enplace.ItemStatus, error) {
	status, err := c.follow(ctx, call{path: at(computers, id, "log"), query: url.Values{"set": {hash}}}, w)
	return enplace.ItemStatus(status), err
}

// StopComputer stops a computer, whoever uses it, and gives it as it stands then. Its files stay; the next command starts it.
func (c *Client) StopComputer(ctx context.Context, id string) (v enplace.Computer, err error) {
	return v, c.post(ctx, at(computers, id, "stop"), nil, &v)
}

// ResetComputer removes a computer with all its files.
func (c *Client) ResetComputer(ctx context.Context, id string) error {
	return c.delete(ctx, at(computers, id), nil)
}

// ExecConversation runs a command on the computer of a conversation, with its set in place, and gives its output.
func (c *Client) ExecConversation(ctx context.Context, id string, in enplace.ConversationExec) (r enplace.ConversationResult, err error) {
	return r, c.post(ctx, at(conversations, id, "exec"), in, &r)
}

// ExecConversationStream does the same and calls each with output, and with the progress of an installation before it, as they
// come. The result holds no output. An error of each, or the end of ctx, kills the command.
func (c *Client) ExecConversationStream(ctx context.Context, id string, in enplace.ConversationExec, each func(enplace.ConversationEvent) error) (r enplace.ConversationResult, err error) {
	err = streamExec(ctx, c, at(conversations, id, "exec"), in, func(e enplace.ConversationEvent) (ended bool, err error) {
		switch {
		case e.Error != nil:
			return true, e.Error.Err()
		case e.Result != nil:
			r = *e.Result
			return true, nil
		}
		return false, each(e)
	})
	return r, err
}

// DialConversation opens a connection to the SSH server of a conversation's computer, as DialSSH does to a task's sandbox.
func (c *Client) DialConversation(ctx context.Context, id string) (net.Conn, error) {
	return c.dial(ctx, at(conversations, id, "ssh"))
}
