package computer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/command"
	"enplace/internal/sandbox"
	"enplace/internal/store"
)

// Of its deadline a command spends so much on waiting for its set, at most: the first time, and while what failed before is
// tried again.
const (
	firstWait = 2 // a half
	retryWait = 8 // an eighth
)

// Exec runs a command on the computer of a conversation, with the conversation's set in place. A set that is not there yet is
// installed first, and the command waits for it, though never for longer than half of its own deadline: then it runs with what
// is there, and a notice says so. Failed items are reported by the first command that ends after them. With each, output goes
// there as it comes.
func (s *Service) Exec(ctx context.Context, c enplace.Caller, conversation string, in enplace.ConversationExec, each func(enplace.ConversationEvent) error) (enplace.ConversationResult, error) {
	conv, err := s.cfg.Toolchain.Conversation(ctx, c, access.Run, conversation)
	if err != nil {
		return enplace.ConversationResult{}, err
	}
	if !slices.Contains([]enplace.Trigger{"", enplace.TriggerPerson, enplace.TriggerAgent, enplace.TriggerSchedule}, in.Trigger) {
		return enplace.ConversationResult{}, enplace.Invalidf("%q is none of person, agent, schedule", in.Trigger).WithField("trigger")
	}
	if _, err := command.New(in.ExecRequest, nil, enplace.HomeDir); err != nil { // before anything is installed for it
		return enplace.ConversationResult{}, err
	}
	set, err := s.use(ctx, conv)
	if err != nil {
		return enplace.ConversationResult{}, err
	}
	m := s.machine(conv.ComputerID())
	box, leave, err := m.enter(ctx, set)
	if err != nil {
		return enplace.ConversationResult{}, err
	}
	defer leave()
	rec, waiting, err := m.ready(ctx, c, conv, set, in, each)
	if err != nil {
		return enplace.ConversationResult{}, err
	}
	res, err := m.exec(ctx, box, rec, set, conv, in, each)
	if err != nil {
		return enplace.ConversationResult{}, err
	}
	out := enplace.ConversationResult{ExecResult: res, Notices: []enplace.Notice{}}
	if res.Notice != "" {
		out.Notices = append(out.Notices, enplace.Notice{Kind: enplace.NoticeCommand, Message: res.Notice})
	}
	if len(waiting) > 0 {
		out.Notices = append(out.Notices, installing(waiting))
	}
	failed, err := m.report(ctx, set)
	if err != nil {
		return enplace.ConversationResult{}, err
	}
	out.Notices = append(out.Notices, failed...)
	return out, nil
}

// use gives the set of a conversation with its bundle, and has the bundle built at first use.
func (s *Service) use(ctx context.Context, conv enplace.Conversation) (store.SetRecord, error) {
	set, err := s.cfg.Toolchain.SetOf(ctx, conv)
	if err != nil {
		return set, err
	}
	if len(set.Items) > 0 {
		set.Bundle, err = s.cfg.Toolchain.Use(ctx, set.Hash)
	}
	return set, err
}

// ready has the set in place, as far as that can be waited for, and says which items are not there yet.
func (m *machine) ready(ctx context.Context, c enplace.Caller, conv enplace.Conversation, set store.SetRecord, in enplace.ConversationExec, each func(enplace.ConversationEvent) error) (store.ComputerRecord, []enplace.ComputerItem, error) {
	rec, err := m.s.cfg.Store.Computer(ctx, m.id)
	if err != nil {
		return rec, nil, unknown(err, m.id)
	}
	share, err := m.due(ctx, c, conv, rec, set, in.Trigger)
	if err != nil || share == 0 {
		return rec, nil, err
	}
	var tell func(string) error
	if each != nil {
		tell = func(text string) error { return each(enplace.ConversationEvent{Progress: text}) }
	}
	ended, err := m.await(ctx, m.apply(set), timeout(in.ExecRequest)/time.Duration(share), tell)
	if err != nil {
		return rec, nil, err
	}
	if rec, err = m.s.cfg.Store.Computer(ctx, m.id); err != nil {
		return rec, nil, unknown(err, m.id)
	}
	if ended {
		return rec, nil, nil
	}
	return rec, missingItems(rec, set), nil
}

func timeout(in enplace.ExecRequest) time.Duration {
	if in.Timeout > 0 {
		return time.Duration(in.Timeout) * time.Second
	}
	return enplace.DefaultExecTimeout
}

// due says which share of its deadline a command waits for an installation: none when the set is in place, or failed and is
// not to be tried yet.
func (m *machine) due(ctx context.Context, c enplace.Caller, conv enplace.Conversation, rec store.ComputerRecord, set store.SetRecord, trigger enplace.Trigger) (share int, err error) {
	if len(set.Items) == 0 {
		return 0, nil
	}
	i := slices.IndexFunc(rec.Sets, func(s enplace.ComputerSet) bool { return s.Hash == set.Hash })
	if i < 0 || rec.Sets[i].Attempts == 0 {
		return firstWait, nil
	}
	state := rec.Sets[i]
	if state.AppliedAt != nil {
		return 0, nil
	}
	if slices.ContainsFunc(state.Items, func(i enplace.ComputerItem) bool { return i.Status == enplace.ItemInterrupted }) {
		return firstWait, nil
	}
	if state.RetryAt != nil && !m.s.cfg.Now().Before(*state.RetryAt) {
		return retryWait, nil
	}
	if trigger != enplace.TriggerPerson || c.Kind == enplace.KeyAgent { // an agent is nobody's word for a person
		return 0, nil
	}
	internal, err := m.s.cfg.Toolchain.Internal(ctx, conv)
	if err != nil || !internal {
		return 0, err
	}
	return retryWait, nil
}

// missingItems gives the items of a set that are neither installed nor failed.
func missingItems(rec store.ComputerRecord, set store.SetRecord) []enplace.ComputerItem {
	var missing []enplace.ComputerItem
	state := setOf(&rec, set.Hash)
	for _, item := range set.Items {
		i := slices.IndexFunc(state.Items, func(c enplace.ComputerItem) bool { return c.Key == item.Key && c.Scope == item.Scope })
		if i < 0 || state.Items[i].Status == enplace.ItemInstalling || state.Items[i].Status == enplace.ItemPending {
			missing = append(missing, enplace.ComputerItem{InstalledItem: enplace.InstalledItem{Key: item.Key, Scope: item.Scope}})
		}
	}
	return missing
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

// exec runs the command and keeps that it ran.
func (m *machine) exec(ctx context.Context, box sandbox.Sandbox, rec store.ComputerRecord, set store.SetRecord, conv enplace.Conversation, in enplace.ConversationExec, each func(enplace.ConversationEvent) error) (enplace.ExecResult, error) {
	secrets, err := m.s.cfg.Toolchain.Variables(ctx, set.Chain)
	if err != nil {
		return enplace.ExecResult{}, err
	}
	cmd, err := command.New(in.ExecRequest, environment(rec, set.Hash, secrets), enplace.HomeDir)
	if err != nil {
		return enplace.ExecResult{}, err
	}
	o := command.Options{Left: "the command left processes running; they go on until the computer is stopped", Dropped: "was dropped"}
	if each != nil {
		o.Each = func(stream, data string) error { return each(enplace.ConversationEvent{Stream: stream, Data: data}) }
	}
	began := m.s.cfg.Now().UTC()
	res, err := command.Run(ctx, box, cmd, o)
	if errors.Is(err, sandbox.ErrStopped) {
		return res, enplace.Conflictf("the computer stopped while the command ran; its files are kept, so run it again")
	}
	if err != nil {
		return res, err
	}
	m.note(enplace.LastCommand{At: began, Conversation: conv.ID, Program: enplace.Shown(in.Command[0], 200), ExitCode: res.ExitCode, DurationMS: res.DurationMS})
	return res, nil
}

// environment is what commands of a set start from: the base's variables with the shims first on PATH, what the set's tools
// export, and the keychain's values; later ones win.
func environment(rec store.ComputerRecord, hash string, secrets []string) []string {
	vars := map[string]string{"ENPLACE_SET": hash, "ENPLACE_ENV_HASH": hash}
	for _, list := range [][]string{rec.Exports[hash], secrets} {
		for _, v := range list {
			if name, value, ok := strings.Cut(v, "="); ok && name != "PATH" {
				vars[name] = value
			}
		}
	}
	return sandbox.Env([]string{enplace.ShimsDir}, vars)
}

// report gives the notice of failed items that no command has reported yet, and notes that it was given. The end of an error is
// shown as it was redacted when it was recorded.
func (m *machine) report(ctx context.Context, set store.SetRecord) ([]enplace.Notice, error) {
	rec, err := m.s.cfg.Store.Computer(ctx, m.id)
	if err != nil {
		return nil, unknown(err, m.id)
	}
	fresh := unreported(rec, set.Hash)
	if len(fresh) == 0 {
		return nil, nil
	}
	if _, err := m.s.cfg.Store.UpdateComputer(context.WithoutCancel(ctx), m.id, func(r *store.ComputerRecord) error {
		fresh = unreported(*r, set.Hash) // of two commands that end together one reports
		if r.Reported == nil {
			r.Reported = map[string]int{}
		}
		state := setOf(r, set.Hash)
		for _, i := range fresh {
			r.Reported[reportKey(set.Hash, i)] = state.Attempts
		}
		return nil
	}); err != nil {
		return nil, unknown(err, m.id)
	}
	if len(fresh) == 0 {
		return nil, nil
	}
	n := enplace.Notice{Kind: enplace.NoticeFailed}
	n.Items, n.More = noticed(fresh)
	n.Message = fmt.Sprintf("these items of the toolchain could not be installed, so their tools are missing: %s; they are tried again by themselves", names(n))
	return []enplace.Notice{n}, nil
}

// unreported gives the failed items of a set that were not reported since they last changed: one that fails again in the same
// way is not news.
func unreported(rec store.ComputerRecord, hash string) []enplace.ComputerItem {
	var fresh []enplace.ComputerItem
	for _, i := range setOf(&rec, hash).Items {
		if _, told := rec.Reported[reportKey(hash, i)]; i.Status == enplace.ItemFailed && !told {
			fresh = append(fresh, i)
		}
	}
	return fresh
}

func reportKey(hash string, i enplace.ComputerItem) string {
	return strings.Join([]string{hash, string(i.Scope), i.Key}, " ")
}

// Dial opens an SSH connection to the guest of a conversation's computer, with the conversation's set in place.
func (s *Service) Dial(ctx context.Context, c enplace.Caller, conversation string) (net.Conn, error) {
	conv, err := s.cfg.Toolchain.Conversation(ctx, c, access.Run, conversation)
	if err != nil {
		return nil, err
	}
	set, err := s.use(ctx, conv)
	if err != nil {
		return nil, err
	}
	m := s.machine(conv.ComputerID())
	box, leave, err := m.enter(ctx, set)
	if err != nil {
		return nil, err
	}
	if _, _, err := m.ready(ctx, c, conv, set, enplace.ConversationExec{}, nil); err != nil {
		leave()
		return nil, err
	}
	conn, err := box.Dial(ctx)
	if err != nil {
		leave()
		return nil, err
	}
	s.cfg.Audit.Record(ctx, c, "computer.ssh", m.id, map[string]any{"conversation": conversation})
	return &connection{Conn: conn, leave: leave}, nil
}

// connection keeps the computer in use until it is closed.
type connection struct {
	net.Conn
	leave func()
}

func (c *connection) Close() error {
	c.leave()
	return c.Conn.Close()
}
