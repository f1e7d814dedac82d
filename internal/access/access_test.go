package access_test

import (
	"errors"
	"strings"
	"testing"

	"enplace"
	"enplace/internal/access"
)

const (
	har1, har2   = "har_01m8p100000000000000000001", "har_01m8p100000000000000000002"
	task1, task2 = "task_01m8p100000000000000000001", "task_01m8p100000000000000000002"
)

// callers by the letters of the table's columns.
var callers = []enplace.Caller{
	{Kind: enplace.KeyOperator},
	{Kind: enplace.KeyPerson, Subject: "ann"},
	{Kind: enplace.KeyPerson, Subject: "bob"},
	{Kind: enplace.KeyHarness, Subject: har1},
	{Kind: enplace.KeyAgent, Subject: task1},
}

// TestCheck is the whole table. Each row has an answer for the operator, ann, bob, the harness har1 and the agent of task1:
// y is yes, f forbidden, and a dot not found.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name    string
		thing   access.Thing
		answers map[access.Action]string
	}{
		{"ann's environment", access.Thing{What: "environment", ID: "e", Owner: "ann"}, map[access.Action]string{
			access.Read: "yy...", access.Write: "yy...", access.Run: "yy...", access.Create: "yyyff", access.Operate: "yffff",
		}},
		{"ann's environment, reached through har1", access.Thing{What: "environment", ID: "e", Owner: "ann", Harness: har1}, map[access.Action]string{
			access.Read: "yy.y.", access.Write: "yy.f.", access.Run: "yy.y.", access.Create: "yyyff", access.Operate: "yffff",
		}},
		{"har1, of ann", access.Thing{What: "harness", ID: har1, Owner: "ann"}, map[access.Action]string{
			access.Read: "yy.y.", access.Write: "yy.f.", access.Run: "yy.y.", access.Create: "yyyff", access.Operate: "yffff",
		}},
		{"har2, of ann", access.Thing{What: "harness", ID: har2, Owner: "ann"}, map[access.Action]string{
			access.Read: "yy...", access.Write: "yy...", access.Run: "yy...", access.Create: "yyyff", access.Operate: "yffff",
		}},
		{"task1, of har1, started by ann", access.Thing{What: "task", ID: task1, Owner: "ann", Harness: har1}, map[access.Action]string{
			access.Read: "yy.yy", access.Write: "yy.yf", access.Run: "yy.yy", access.Create: "yyyyf", access.Operate: "yffff",
		}},
		{"task2, of har1, started by its key", access.Thing{What: "task", ID: task2, Owner: har1, Harness: har1}, map[access.Action]string{
			access.Read: "y..y.", access.Write: "y..y.", access.Run: "y..y.", access.Create: "yyyyf", access.Operate: "yffff",
		}},
		{"task2, of har2", access.Thing{What: "task", ID: task2, Owner: "bob", Harness: har2}, map[access.Action]string{
			access.Read: "y.y..", access.Write: "y.y..", access.Run: "y.y..", access.Create: "yyyff", access.Operate: "yffff",
		}},
		{"a key", access.Thing{What: "key", ID: "key_1"}, map[access.Action]string{
			access.Read: "y....", access.Write: "y....", access.Operate: "yffff",
		}},
	} {
		for action, answers := range x.answers {
			for i, c := range callers {
				want := map[byte]enplace.Kind{'y': "", 'f': enplace.KindForbidden, '.': enplace.KindNotFound}[answers[i]]
				if got := enplace.KindOf(access.Check(c, action, x.thing)); got != want {
					t.Errorf("%s %s: %s %q gets %q, not %q", action, x.name, c.Kind, c.Subject, got, want)
				}
			}
		}
	}
}

// A caller without a name owns nothing, not even what has no owner.
func TestNobodyMayDoNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range []enplace.KeyKind{"", "root", enplace.KeyPerson, enplace.KeyHarness, enplace.KeyAgent} {
		for _, what := range []string{"environment", "harness", "task", "key"} {
			for _, a := range []access.Action{access.Read, access.Write, access.Create, access.Run, access.Operate} {
				if err := access.Check(enplace.Caller{Kind: kind}, a, access.Thing{What: what}); enplace.KindOf(err) != enplace.KindNotFound {
					t.Errorf("%s a %s as a nameless %q: %v", a, what, kind, err)
				}
			}
		}
	}
}

// What a caller may not know of and what is not there get one answer, to the letter.
func TestUnknownIsTheSameToTheLetter(t *testing.T) {
	t.Parallel()
	hidden := access.Check(enplace.Caller{Kind: enplace.KeyPerson, Subject: "bob"}, access.Read, access.Thing{What: "task", ID: task1, Owner: "ann", Harness: har1})
	absent := access.Unknown(access.Thing{What: "task", ID: task1})
	if hidden.Error() != absent.Error() {
		t.Errorf("hidden: %v\nabsent: %v", hidden, absent)
	}
}

// The answer about a thing that is not there said to list what there is, and not how.
func TestUnknownNamesTheCommandThatLists(t *testing.T) {
	t.Parallel()
	for what, command := range map[string]string{
		"environment": "enplace env list", "harness": "enplace harness list", "task": "enplace task list", "plugin": "enplace plugin list", "item": "enplace item list --scope SCOPE",
		"team": "enplace team list", "person": "enplace person list", "conversation": "enplace conversation list", "set": "enplace set show CONVERSATION",
	} {
		var e *enplace.Error
		if err := access.Unknown(access.Thing{What: what, ID: "x"}); !errors.As(err, &e) || len(e.Fixes) != 1 || !strings.HasPrefix(e.Fixes[0], command+" shows what this key can see; or ask") {
			t.Errorf("%s: %+v", what, e)
		}
	}
}
