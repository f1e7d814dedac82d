package store

import (
	"encoding/base64"
	"encoding/json"
	"math"

	"enplace"
)

// Cursor makes the cursor that stands behind the item with these keys, in the order that the list is sorted by.
func Cursor(keys ...any) string {
	b, err := json.Marshal(keys)
	if err != nil {
		panic(err) // keys are strings and integers of the adapter's own
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseCursor reads the keys of a cursor into the pointers given; the empty cursor leaves them as they are. One that Cursor
// did not make for as many keys of these types is an error for people: cursors come from outside.
func ParseCursor(cursor string, keys ...any) error {
	if cursor == "" {
		return nil
	}
	var parts []json.RawMessage
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(b, &parts)
	}
	if err != nil || len(parts) != len(keys) {
		return malformedCursor()
	}
	for i, part := range parts {
		if string(part) == "null" || json.Unmarshal(part, keys[i]) != nil {
			return malformedCursor()
		}
	}
	return nil
}

func malformedCursor() error {
	return enplace.Errorf(enplace.KindMalformed, "is no cursor of this list").WithField("cursor").
		WithFix("leave it out to begin with the first page, then pass the next of each answer unchanged")
}

// Fetch is how many items an adapter asks its database for: one more than the page holds, to know whether more follow.
func Fetch(p enplace.Page) int {
	if p.Limit <= 0 || p.Limit >= math.MaxInt32 {
		return math.MaxInt32
	}
	return p.Limit + 1
}

// PageOf makes the page of what Fetch asked for. cursor gives the cursor behind an item.
func PageOf[T any](items []T, p enplace.Page, cursor func(T) string) enplace.List[T] {
	l := enplace.List[T]{Items: items}
	if l.Items == nil {
		l.Items = []T{} // a list without items is [] on the wire
	}
	if p.Limit > 0 && len(items) > p.Limit {
		l.Items = items[:p.Limit:p.Limit]
		l.Next = cursor(l.Items[p.Limit-1])
	}
	return l
}

// Visible makes the page of those of a list that a caller may see. list gives a page of all of them, see an error of kind not_found
// or forbidden for one that is not to be seen, and cursor what it gives PageOf. Neither the length of the page nor its cursor
// tells of the others.
func Visible[T any](p enplace.Page, list func(enplace.Page) (enplace.List[T], error), see func(T) error, cursor func(T) string) (enplace.List[T], error) {
	var seen []T
	for from := p; ; {
		l, err := list(from)
		if err != nil {
			return l, err
		}
		for _, item := range l.Items {
			switch err := see(item); enplace.KindOf(err) {
			case "":
				seen = append(seen, item)
			case enplace.KindNotFound, enplace.KindForbidden:
			default:
				return enplace.List[T]{}, err
			}
		}
		if l.Next == "" || len(seen) > p.Limit {
			return PageOf(seen, p, cursor), nil
		}
		from.Cursor = l.Next
	}
}
