package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"enplace"
	"enplace/client"
)

// place is where commands run.
type place interface {
	name() string
	run(ctx context.Context, in enplace.ExecRequest) (enplace.ExecResult, []enplace.Notice, error)
	toolchain(ctx context.Context) (Toolchain, error)
	instructions(ctx context.Context) (string, error)
}

// conversation is a conversation's computer.
type conversation struct {
	api *client.Client
	id  string
}

func (c conversation) name() string { return "the computer of the conversation " + c.id }

func (c conversation) run(ctx context.Context, in enplace.ExecRequest) (enplace.ExecResult, []enplace.Notice, error) {
	r, err := c.api.ExecConversation(ctx, c.id, enplace.ConversationExec{ExecRequest: in, Trigger: enplace.TriggerAgent})
	return r.ExecResult, r.Notices, err
}

func (c conversation) toolchain(ctx context.Context) (Toolchain, error) {
	set, err := c.api.Set(ctx, c.id)
	if err != nil {
		return Toolchain{}, err
	}
	t := Toolchain{Items: []ToolchainItem{}, RetryAt: set.RetryAt}
	for _, i := range set.Items {
		item := ToolchainItem{Key: i.Key, Scope: string(i.Scope), Status: string(i.Status), Error: i.Error, ErrorTail: i.ErrorTail, Tools: []string{}}
		for _, tool := range i.Tools {
			version := tool.Resolved
			if version == "" {
				version = tool.Requested
			}
			item.Tools = append(item.Tools, tool.Name+" "+version)
		}
		t.Items = append(t.Items, item)
		if i.Status == enplace.ItemFailed {
			t.Failed++
		}
	}
	return t, nil
}

func (c conversation) instructions(ctx context.Context) (string, error) {
	t, err := c.toolchain(ctx)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Your computer\n\nCommands start in %s, as root of a sandbox. Files, and tools that you install with `mise use`, are kept.\n"+
		"The network is reached through a proxy, which the variables name; hosts that are not allowed are refused.\n", enplace.HomeDir)
	if len(t.Items) > 0 {
		b.WriteString("\n## Toolchain\n\n")
	}
	for _, i := range t.Items {
		fmt.Fprintf(&b, "- %s (%s): %s", i.Key, i.Scope, i.Status)
		if len(i.Tools) > 0 {
			fmt.Fprintf(&b, ": %s", strings.Join(i.Tools, ", "))
		}
		switch {
		case i.Status == string(enplace.ItemPending):
			b.WriteString(". It is installed when the next command runs")
		case i.Error == "":
		case i.Status == string(enplace.ItemInstalling):
			fmt.Fprintf(&b, ". It failed before, and is tried again: %s", i.Error)
		default:
			fmt.Fprintf(&b, ". It failed: %s", i.Error)
		}
		b.WriteString("\n")
	}
	if t.RetryAt != nil {
		b.WriteString("\nWhat failed is tried again by itself" + nextTry(*t.RetryAt) + ".\n")
	}
	return b.String(), nil
}

// nextTry says when, behind a sentence that says that something is tried again.
func nextTry(at time.Time) string {
	if time.Now().Before(at) {
		return " at " + at.UTC().Format(time.TimeOnly) + " UTC"
	}
	return " now, or with the next command"
}

// task is a running task.
type task struct {
	api *client.Client
	id  string
}

func (t task) name() string { return "the task " + t.id }

func (t task) run(ctx context.Context, in enplace.ExecRequest) (enplace.ExecResult, []enplace.Notice, error) {
	r, err := t.api.Exec(ctx, t.id, in)
	var notices []enplace.Notice
	if r.Notice != "" {
		notices = []enplace.Notice{{Kind: enplace.NoticeCommand, Message: r.Notice}}
	}
	return r, notices, err
}

// toolchain is empty: a task has an environment instead, which is whole or does not start.
func (task) toolchain(context.Context) (Toolchain, error) {
	return Toolchain{Items: []ToolchainItem{}}, nil
}

func (t task) instructions(ctx context.Context) (string, error) {
	r, _, err := t.run(ctx, enplace.ExecRequest{Command: []string{"cat", "--", enplace.InstructionsPath}})
	if err == nil && r.ExitCode != 0 {
		err = enplace.NotFoundf("the task has no instructions")
	}
	return r.Stdout, err
}

// told is an error as the agent reads it: what is wrong, and what mends it.
func told(err error) string {
	var e *enplace.Error
	if !errors.As(err, &e) {
		return "the server could not be asked: " + err.Error()
	}
	text := e.Message
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	for _, fix := range e.Fixes {
		text += "\n- " + fix
	}
	return text
}
