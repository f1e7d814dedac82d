package computer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/command"
	"enplace/internal/sandbox"
	"enplace/internal/store"
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
	u := use{conv: conv, live: in.Trigger == enplace.TriggerPerson && c.Kind != enplace.KeyAgent, deadline: timeout(in.ExecRequest)}
	if each != nil {
		u.tell = func(text string) error { return each(enplace.ConversationEvent{Progress: text}) }
	}
	if err := s.begin(ctx, &u); err != nil {
		return enplace.ConversationResult{}, err
	}
	defer u.end()
	res, err := u.exec(ctx, in, each)
	if err != nil {
		return enplace.ConversationResult{}, err
	}
	out := enplace.ConversationResult{ExecResult: res, Notices: []enplace.Notice{}}
	if res.Notice != "" {
		out.Notices = append(out.Notices, enplace.Notice{Kind: enplace.NoticeCommand, Message: res.Notice})
	}
	if len(u.waiting) > 0 {
		out.Notices = append(out.Notices, installing(u.waiting))
	}
	if ctx.Err() != nil { // nobody would read what is reported
		return enplace.ConversationResult{}, context.Cause(ctx)
	}
	failed, err := u.report(ctx)
	if err != nil {
		return enplace.ConversationResult{}, err
	}
	out.Notices = append(out.Notices, failed...)
	return out, nil
}

func timeout(in enplace.ExecRequest) time.Duration {
	if in.Timeout > 0 {
		return time.Duration(in.Timeout) * time.Second
	}
	return enplace.DefaultExecTimeout
}

// use is a command or a connection of a conversation.
type use struct {
	conv     enplace.Conversation
	live     bool               // a person waits for it
	deadline time.Duration      // of it; a part is spent on waiting for the set
	tell     func(string) error // of how far an installation is; may be nil

	m       *machine
	set     store.SetRecord
	rec     store.ComputerRecord // with the set in place
	box     sandbox.Sandbox
	leave   func()
	waiting []enplace.ComputerItem // items of the set that are not there yet
}

// begin has the computer run, with the set in place as far as that can be waited for.
func (s *Service) begin(ctx context.Context, u *use) (err error) {
	if u.set, err = s.use(ctx, u.conv); err != nil {
		return err
	}
	u.m = s.machine(u.conv.ComputerID())
	if u.box, u.leave, err = u.m.enter(ctx, u.set); err != nil {
		return err
	}
	if err := u.ready(ctx); err != nil {
		u.end()
		return err
	}
	return nil
}

// end lets go of the computer.
func (u *use) end() {
	u.m.touch()
	u.leave()
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

// ready has the set in place, as far as that can be waited for. An installation that could not be tried at all holds up no
// command: it is tried again with the next.
func (u *use) ready(ctx context.Context) (err error) {
	changed := u.m.turned(u.set)
	j, share := u.m.underWay(u.set.Hash) // first: the record is of that time then, or newer
	if u.rec, err = u.m.record(ctx); err != nil {
		return err
	}
	if j == nil {
		start, most, err := u.due(ctx, changed)
		if err != nil {
			return err
		}
		if start {
			j, share = u.m.apply(u.set, most), most
		}
	}
	if j == nil || share == noWait {
		return nil
	}
	ended, err := u.m.await(ctx, u.set.Hash, j, u.deadline/time.Duration(share), u.tell)
	if err != nil {
		return err
	}
	if again, err := u.taken(ctx, j); err != nil {
		return err
	} else if again {
		return u.ready(ctx)
	}
	if u.rec, err = u.m.record(ctx); err == nil && !ended {
		u.waiting = missing(u.rec, u.set)
	}
	return err
}

func untried(i enplace.ComputerItem) bool {
	return i.Status != enplace.ItemInstalled && i.Status != enplace.ItemFailed
}

// missing gives the items of a set that are neither installed nor failed.
func missing(rec store.ComputerRecord, set store.SetRecord) (all []enplace.ComputerItem) {
	state := find(rec, set.Hash)
	for _, item := range set.Items {
		i := same(state.Items, item.Key, item.Scope)
		if i < 0 || untried(state.Items[i]) {
			all = append(all, enplace.ComputerItem{InstalledItem: enplace.InstalledItem{Key: item.Key, Scope: item.Scope}})
		}
	}
	return all
}

// exec runs the command and keeps that it ran.
func (u *use) exec(ctx context.Context, in enplace.ConversationExec, each func(enplace.ConversationEvent) error) (enplace.ExecResult, error) {
	env, err := u.env(ctx)
	if err != nil {
		return enplace.ExecResult{}, err
	}
	cmd, err := command.New(in.ExecRequest, env, enplace.HomeDir)
	if err != nil {
		return enplace.ExecResult{}, err
	}
	o := command.Options{Left: "the command left processes running; they go on until the computer is stopped", Whole: "; write long output to a file, or have it streamed"}
	if each != nil {
		o.Each = func(stream, data string) error { return each(enplace.ConversationEvent{Stream: stream, Data: data}) }
	}
	if stopped(u.box) {
		return enplace.ExecResult{}, errHalted
	}
	began := u.m.s.cfg.Now().UTC()
	res, err := command.Run(ctx, u.box, cmd, o)
	if err != nil {
		return res, u.stopped(ctx, err)
	}
	if res.ExitCode != 0 {
		res.Notice = u.reasons(ctx, res.Notice)
	}
	u.m.note(enplace.LastCommand{At: began, Conversation: u.conv.ID, Program: enplace.Shown(in.Command[0], 200), ExitCode: res.ExitCode, DurationMS: res.DurationMS})
	return res, nil
}

// reasons adds to the notice of a command that failed what the sandbox saw since the last one that did, and the program may not
// have said: that it was killed for its memory, and which hosts were refused, by whose policy.
func (u *use) reasons(ctx context.Context, notice string) string {
	m := u.m
	now, err := u.box.Stats(ctx)
	if err != nil {
		return notice // it has stopped, and the next command says so
	}
	m.mu.Lock()
	before := m.seen
	if before.box != u.box {
		before = seen{}
	}
	m.seen = seen{box: u.box, kills: now.OOMKills, refused: now.Refused}
	m.mu.Unlock()
	var told []string
	if notice != "" {
		told = append(told, notice)
	}
	if now.OOMKills > before.kills {
		told = append(told, fmt.Sprintf("memory ran out, of %d MiB, and a process was killed", m.s.cfg.Limits.MemoryMiB))
	}
	fresh := slices.DeleteFunc(slices.Clone(now.Refused), func(host string) bool { return slices.Contains(before.refused, host) })
	if len(fresh) > 0 {
		told = append(told, u.refusals(ctx, fresh)...)
	}
	return strings.Join(told, "; ")
}

// refusals says of each host that was refused which scopes' policies do not let it through, the hosts of the same scopes together.
func (u *use) refusals(ctx context.Context, hosts []string) (told []string) {
	policies, err := u.m.s.cfg.Toolchain.Policies(ctx, u.set.Chain)
	if err != nil {
		u.m.s.cfg.Logger.Error("finding whose egress policy refused", "computer", u.m.id, "err", err)
		return []string{"the egress policy refused: " + shownHosts(hosts)}
	}
	var order []string
	by := map[string][]string{}
	for _, host := range hosts {
		var scopes []string
		for _, p := range policies {
			if !p.Egress.Allows(host) {
				scopes = append(scopes, string(p.Scope))
			}
		}
		who := strings.Join(scopes, " and of ")
		if by[who] == nil {
			order = append(order, who)
		}
		by[who] = append(by[who], host)
	}
	for _, who := range order {
		if who == "" {
			told = append(told, fmt.Sprintf("refused, though no policy of this conversation's scopes does so: %s; a private address is refused until the operator lists it, "+
				"and a stricter policy of another conversation holds while both use the computer", shownHosts(by[who])))
			continue
		}
		told = append(told, fmt.Sprintf("the egress policy of %s refused: %s; whoever looks after the toolchain can allow them", who, shownHosts(by[who])))
	}
	return told
}

func shownHosts(hosts []string) string { return enplace.Shown(strings.Join(hosts, ", "), 500) }

// stopped is the error of a use whose computer ended under it. It comes when that is over, so that the next command starts the
// computer and does not find it ending. One that has used up what it may have says what ends that.
func (u *use) stopped(ctx context.Context, err error) error {
	var full *enplace.Error
	if errors.As(err, &full) && full.Kind == enplace.KindBusy {
		return full.WithFix("enplace computer stop %s ends all that runs there; its files stay", u.m.id)
	}
	if !errors.Is(err, sandbox.ErrStopped) {
		return err
	}
	select {
	case <-u.box.Done():
	case <-ctx.Done():
	}
	return enplace.Conflictf("the computer stopped while the command ran, so how it ended is not known; its files are kept, and the next command starts it again")
}

// env gives the variables of a command.
func (u *use) env(ctx context.Context) ([]string, error) {
	secrets, err := u.m.s.cfg.Toolchain.Variables(ctx, u.set.Chain)
	if err != nil {
		return nil, err
	}
	exports := u.rec.Exports[u.set.Hash]
	if nodeWarns(u.set.Set, u.rec) {
		exports = append([]string{quietNode}, exports...) // an item that says otherwise comes later
	}
	return environment(exports, u.set.Hash, secrets), nil
}

// environment is what commands of a set start from: the base's variables with the shims first on PATH and the folders of items
// behind them, what the set's items export, and the keychain's values; later ones win.
func environment(exports []string, hash string, secrets []string) []string {
	vars, bin := map[string]string{}, []string{enplace.ShimsDir}
	for _, v := range exports {
		if dirs, ok := strings.CutPrefix(v, "PATH="); ok {
			bin = append(bin, strings.Split(dirs, ":")...)
		}
	}
	for _, v := range slices.Concat(exports, secrets) {
		if name, value, ok := strings.Cut(v, "="); ok && name != "PATH" {
			vars[name] = value
		}
	}
	if hash != "" {
		vars["ENPLACE_SET"], vars["ENPLACE_ENV_HASH"] = hash, hash
	}
	return sandbox.Env(bin, vars)
}

// Dial opens an SSH connection to the guest of a conversation's computer, with the conversation's set in place and its
// variables for every terminal.
func (s *Service) Dial(ctx context.Context, c enplace.Caller, conversation string) (net.Conn, error) {
	conv, err := s.cfg.Toolchain.Conversation(ctx, c, access.Run, conversation)
	if err != nil {
		return nil, err
	}
	u := use{conv: conv, live: c.Kind == enplace.KeyPerson, deadline: enplace.DefaultExecTimeout}
	if err := s.begin(ctx, &u); err != nil {
		return nil, err
	}
	conn, err := u.dial(ctx)
	if err != nil {
		u.end()
		return nil, err
	}
	s.cfg.Audit.Record(ctx, c, "computer.ssh", u.m.id, map[string]any{"conversation": conversation})
	return &connection{Conn: conn, end: sync.OnceFunc(u.end)}, nil
}

func (u *use) dial(ctx context.Context) (net.Conn, error) {
	env, err := u.env(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := u.box.Dial(ctx, env)
	if err != nil {
		return nil, u.stopped(ctx, err)
	}
	return conn, nil
}

// connection keeps the computer in use until it is closed.
type connection struct {
	net.Conn
	end func()
}

func (c *connection) Close() error {
	c.end()
	return c.Conn.Close()
}
