package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"enplace"
	"enplace/internal/store"
)

// Whatever the size of the pages, a caller gets all that may be seen, once and in order, in pages that are full but for the
// last; the cursors name nothing else.
func TestVisiblePagesTellOfNothingElse(t *testing.T) {
	t.Parallel()
	list := func(p enplace.Page) (enplace.List[int], error) {
		after := -1
		if err := store.ParseCursor(p.Cursor, &after); err != nil {
			return enplace.List[int]{}, err
		}
		var items []int
		for n := after + 1; n < 20 && len(items) < store.Fetch(p); n++ {
			items = append(items, n)
		}
		return store.PageOf(items, p, func(n int) string { return store.Cursor(n) }), nil
	}
	want := []int{3, 4, 8, 15, 16}
	see := func(n int) error {
		if slices.Contains(want, n) {
			return nil
		}
		return enplace.NotFoundf("%d", n)
	}
	for limit := range 22 {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			var got []int
			for p := (enplace.Page{Limit: limit}); ; {
				l, err := store.Visible(p, list, see, func(n int) string { return store.Cursor(n) })
				if err != nil || l.Items == nil {
					t.Fatal(l, err)
				}
				got = append(got, l.Items...)
				if l.Next == "" {
					break
				}
				if len(l.Items) != limit || l.Next != store.Cursor(got[len(got)-1]) {
					t.Errorf("a page of %d with the cursor %s", len(l.Items), l.Next)
				}
				p.Cursor = l.Next
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v", got)
			}
		})
	}
	broken := errors.New("broken")
	if _, err := store.Visible(enplace.Page{}, list, func(int) error { return broken }, nil); !errors.Is(err, broken) {
		t.Error(err)
	}
}
