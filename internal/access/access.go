// Package access decides, in one place, who may do what. Capabilities ask it before they act; what a caller may not know of
// answers not-found, exactly as if it were not there.
package access

import (
	"enplace"
)

// Action is something that a caller may or may not do to a thing of one owner.
type Action string

// The actions.
const (
	Read    Action = "read"    // see it
	Write   Action = "write"   // change or delete it
	Create  Action = "create"  // make one
	Run     Action = "run"     // start a task on it, or a command in it
	Operate Action = "operate" // keys, audit, the server itself
)

// Thing is what an action is on.
type Thing struct {
	What        string // environment, harness, task, key, audit: the word of the message
	ID          string
	Owner       string // the name of the caller that created it
	Harness     string // of a task: the harness that it runs; of an environment: the one that it is reached through
	Environment string // of a task or harness
	Shared      bool   // every person may see it and run in it, and none may change it
}

// Check gives nil, or an *enplace.Error: not_found when the caller may not know of the thing, forbidden when it may.
func Check(c enplace.Caller, a Action, t Thing) error {
	if c.Kind != enplace.KeyOperator && c.Subject == "" {
		return Unknown(t) // nobody: or it would own what has no owner
	}
	switch c.Kind {
	case enplace.KeyOperator:
		return nil
	case enplace.KeyPerson:
		if a == Operate {
			return forbidden(c, t)
		}
		if a == Create || t.Owner == c.Name() || t.Shared && (a == Read || a == Run) {
			return nil
		}
		if t.Shared {
			return forbidden(c, t)
		}
	case enplace.KeyHarness:
		switch {
		case t.What == "harness" && t.ID == c.Subject, t.What == "task" && t.Harness == c.Subject, t.What == "environment" && t.Harness == c.Subject:
			if a == Read || a == Run || a == Create && t.What == "task" || a == Write && t.What == "task" {
				return nil
			}
			return forbidden(c, t)
		case a == Create || a == Operate:
			return forbidden(c, t)
		}
	case enplace.KeyAgent:
		if t.What == "task" && t.ID == c.Subject || t.What == "conversation" && ConversationSubject(t.ID) == c.Subject {
			if a == Read || a == Run {
				return nil
			}
			return forbidden(c, t)
		}
		if a == Create || a == Operate {
			return forbidden(c, t)
		}
	}
	return Unknown(t)
}

// CheckList gives nil to those who may list what belongs to the organisation, such as "teams"; the keys of agents and harnesses know
// of none of it.
func CheckList(c enplace.Caller, things string) error {
	if c.Kind == enplace.KeyOperator || c.Kind == enplace.KeyPerson && c.Subject != "" {
		return nil
	}
	return enplace.NotFoundf("a key of kind %s sees no %s: it knows of what it was made for alone", c.Kind, things).
		WithFix("use a key of a person or an operator")
}

// ConversationSubject is the subject of an agent's key that belongs to a conversation, and not to a task.
func ConversationSubject(id string) string { return conversationPrefix + id }

const conversationPrefix = "conversation:"

// Unknown is the answer for a thing that is not there, or that the caller may not know of: the same, to the letter.
func Unknown(t Thing) error {
	return enplace.NotFoundf("there is no %s %s, or this key may not know of it", t.What, enplace.Shown(t.ID, 200)).
		WithFix("%sask the operator for a key that may", whereListed(t.What))
}

// whereListed is how what a key can see of a noun is listed, with an "or" behind; "" for what no command lists.
func whereListed(what string) string {
	command := map[string]string{
		"environment": "enplace env list", "item": "enplace item list --scope SCOPE", "set": "enplace set show CONVERSATION", "scope": "enplace person list",
	}[what]
	switch what {
	case "harness", "task", "key", "plugin", "team", "person", "room", "conversation", "computer":
		command = "enplace " + what + " list"
	}
	if command == "" {
		return ""
	}
	return command + " shows what this key can see; or "
}

func forbidden(c enplace.Caller, t Thing) error {
	return enplace.Errorf(enplace.KindForbidden, "a key of kind %s may not do this to the %s %s", c.Kind, t.What, enplace.Shown(t.ID, 200)).
		WithFix("use a key of the owner or of the operator")
}
