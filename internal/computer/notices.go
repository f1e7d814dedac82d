package computer

import (
	"context"
	"fmt"
	"strings"
	"time"

	"enplace"
	"enplace/internal/store"
)

// report gives the notice of failed items that no command has reported yet; of two commands that end together one does. That it
// was given is written into the record behind the answer: a server that is killed in between has it told again by the next
// command, and never lost. The end of an error is shown as it was redacted when it was recorded.
func (u *use) report(ctx context.Context) ([]enplace.Notice, error) {
	m, hash := u.m, u.set.Hash
	rec, err := m.record(ctx)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	fresh, at := m.unreported(rec, hash), m.nextTry(find(rec, hash))
	for _, i := range fresh {
		m.told[reportKey(hash, i)] = find(rec, hash).Attempts
		m.dirty = true
	}
	m.mu.Unlock()
	if len(fresh) == 0 {
		return nil, nil
	}
	n := enplace.Notice{Kind: enplace.NoticeFailed, RetryAt: at}
	n.Items, n.More = noticed(fresh)
	n.Message = fmt.Sprintf("these items of the toolchain could not be installed, so their tools are missing: %s. They are %s", names(n), u.again(ctx, find(rec, hash), at))
	return []enplace.Notice{n}, nil
}

// again says in words when what failed is tried again.
func (u *use) again(ctx context.Context, state enplace.ComputerSet, at *time.Time) string {
	switch {
	case at == nil:
		return "tried again by themselves"
	case !u.m.s.cfg.Now().Before(*at):
		return "being tried again now"
	}
	text := "tried again by themselves at " + at.Format(time.TimeOnly) + " UTC"
	if internal, err := u.m.s.cfg.Toolchain.Internal(ctx, u.conv); u.live && err == nil && internal && u.m.s.nextLive(state).Before(*at) {
		text += ", or soon after your next command"
	}
	return text
}

// unreported gives the failed items of a set that were not reported since they were installed last: one that fails again is not
// news. One that is being tried again has failed still. The machine is locked.
func (m *machine) unreported(rec store.ComputerRecord, hash string) (fresh []enplace.ComputerItem) {
	for _, i := range find(rec, hash).Items {
		key := reportKey(hash, i)
		_, before := rec.Reported[key]
		_, now := m.told[key]
		if (i.Status == enplace.ItemFailed || triedAgain(i)) && !before && !now {
			fresh = append(fresh, i)
		}
	}
	return fresh
}

// triedAgain reports whether an item that failed is being installed once more: put keeps why it failed until that is settled.
func triedAgain(i enplace.ComputerItem) bool {
	return i.Status == enplace.ItemInstalling && i.Error != ""
}

// keepTold writes into a record which failures were told. The record is being written, so that nothing comes between.
func (m *machine) keepTold(r *store.ComputerRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, attempt := range m.told {
		if r.Reported == nil {
			r.Reported = map[string]int{}
		}
		r.Reported[key] = attempt
	}
}

// forgetTold has a failure told again, should it come again. The record is being written.
func (m *machine) forgetTold(r *store.ComputerRecord, key string) {
	delete(r.Reported, key)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.told, key)
}

func reportKey(hash string, i enplace.ComputerItem) string {
	return strings.Join([]string{hash, string(i.Scope), i.Key}, " ")
}

func installing(items []enplace.ComputerItem) enplace.Notice {
	n := enplace.Notice{Kind: enplace.NoticeInstalling}
	n.Items, n.More = noticed(items)
	n.Message = fmt.Sprintf("the command ran while these items of the toolchain were still being installed, so their tools may have been missing: %s. If it needed them, run it again in a minute", names(n))
	return n
}

func noticed(items []enplace.ComputerItem) (shown []enplace.NoticedItem, more int) {
	for _, i := range items[:min(len(items), enplace.MaxReportedItems)] {
		shown = append(shown, enplace.NoticedItem{Key: i.Key, Scope: i.Scope, ErrorTail: reason(i)})
	}
	return shown, len(items) - len(shown)
}

// reason is what failed, in a line, and as much of the end of what that printed as there is room for.
func reason(i enplace.ComputerItem) string {
	if i.Error == "" || i.ErrorTail == "" {
		return i.Error + i.ErrorTail
	}
	tail := i.ErrorTail
	if room := max(enplace.MaxErrorTail-len(i.Error)-1, 0); len(tail) > room {
		tail = tail[len(tail)-room:]
		if _, whole, ok := strings.Cut(tail, "\n"); ok {
			tail = whole
		}
	}
	return i.Error + "\n" + strings.ToValidUTF8(tail, "")
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
