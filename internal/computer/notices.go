package computer

import (
	"context"
	"fmt"
	"strings"

	"enplace"
	"enplace/internal/store"
)

// report gives the notice of failed items that no command has reported yet, and notes that it was given. The end of an error is
// shown as it was redacted when it was recorded.
func (m *machine) report(ctx context.Context, hash string) ([]enplace.Notice, error) {
	rec, err := m.record(ctx)
	if err != nil {
		return nil, err
	}
	fresh := unreported(rec, hash)
	if len(fresh) == 0 {
		return nil, nil
	}
	if _, err := m.update(ctx, func(r *store.ComputerRecord) {
		fresh = unreported(*r, hash) // of two commands that end together one reports
		if r.Reported == nil {
			r.Reported = map[string]int{}
		}
		for _, i := range fresh {
			r.Reported[reportKey(hash, i)] = find(*r, hash).Attempts
		}
	}); err != nil || len(fresh) == 0 {
		return nil, err
	}
	n := enplace.Notice{Kind: enplace.NoticeFailed}
	n.Items, n.More = noticed(fresh)
	n.Message = fmt.Sprintf("these items of the toolchain could not be installed, so their tools are missing: %s; they are tried again by themselves", names(n))
	return []enplace.Notice{n}, nil
}

// unreported gives the failed items of a set that were not reported since they were installed last: one that fails again is not
// news.
func unreported(rec store.ComputerRecord, hash string) (fresh []enplace.ComputerItem) {
	for _, i := range find(rec, hash).Items {
		if _, told := rec.Reported[reportKey(hash, i)]; i.Status == enplace.ItemFailed && !told {
			fresh = append(fresh, i)
		}
	}
	return fresh
}

func reportKey(hash string, i enplace.ComputerItem) string {
	return strings.Join([]string{hash, string(i.Scope), i.Key}, " ")
}

func installing(items []enplace.ComputerItem) enplace.Notice {
	n := enplace.Notice{Kind: enplace.NoticeInstalling}
	n.Items, n.More = noticed(items)
	n.Message = fmt.Sprintf("the command ran before these were installed, which goes on: %s; run it again in a while", names(n))
	return n
}

func noticed(items []enplace.ComputerItem) (shown []enplace.NoticedItem, more int) {
	for _, i := range items[:min(len(items), enplace.MaxReportedItems)] {
		shown = append(shown, enplace.NoticedItem{Key: i.Key, Scope: i.Scope, ErrorTail: i.ErrorTail})
	}
	return shown, len(items) - len(shown)
}

func names(n enplace.Notice) string {
	var all []string
	for _, i := range n.Items {
		all = append(all, fmt.Sprintf("%s (%s)", i.Key, i.Scope))
	}
	if n.More > 0 {
		all = append(all, fmt.Sprintf("and %d more", n.More))
	}
	return strings.Join(all, ", ")
}
