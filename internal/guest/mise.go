package guest

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"enplace/internal/shim"
)

// MiseName is the name of the link, beside the shims, by which the guest's program is called for mise.
const MiseName = "mise"

// miseChanges are the subcommands of mise that may change which commands are installed, with their aliases. What any other
// does, such as exec and run, is mise's alone.
var miseChanges = strings.Fields(`use u install i uninstall unuse rm remove upgrade up prune link ln sync reshim config cfg toml edit`)

// miseSettings are mise's where it works for the computer. What is installed inside has a folder of its own, so that prune,
// unuse and upgrade leave the sets' tools alone; those are found there and not installed twice. npm installs npm packages:
// mise's own way refuses registries that do not say when something was published.
// trusted are the folders whose configuration the caller trusts already; mise passes over a configuration that is not trusted,
// be it this one, where the user's home has no note that it is.
func miseSettings(t shim.Tools, trusted string) []string {
	if trusted != "" {
		trusted += ":"
	}
	return []string{
		"MISE_TRUSTED_CONFIG_PATHS=" + trusted + t.Local(),
		"MISE_DATA_DIR=" + t.Local(),
		"MISE_GLOBAL_CONFIG_FILE=" + t.Local() + "/config.toml",
		"MISE_SHIMS_DIR=" + t.LocalShims(),
		"MISE_SHARED_INSTALL_DIRS=" + string(t) + "/installs",
		"MISE_NPM_PACKAGE_MANAGER=npm",
		"MISE_HIDE_UPDATE_WARNING=1", // or mise --version asks its maker for a newer one, and waits; the base pins it
	}
}

// miseDepthVar counts how often mise led to mise: a program that calls mise exec for the tool of its own name is found again by
// mise where the tool's own program is gone, and so on without end.
const (
	miseDepthVar = "ENPLACE_MISE"
	maxMiseDepth = 16 // tasks that run tasks go a few deep
)

// deeperMise gives the variable for the mise that is called now; ok is false where that is one too many.
func deeperMise(before string) (variable string, ok bool) {
	n, err := strconv.Atoi(before)
	if err != nil || n < 0 {
		n = 0 // anybody may have written it
	}
	return fmt.Sprintf("%s=%d", miseDepthVar, n+1), n < maxMiseDepth
}

// Mise runs the base's mise with the computer's settings, and gives its exit status. Afterwards what it installed has shims,
// also when it failed half-way. It may not return: where nothing is to be done afterwards the process becomes mise.
func Mise(args []string) int {
	t := shim.Default
	args, sub, global := miseArguments(args)
	depth, ok := deeperMise(os.Getenv(miseDepthVar))
	if !ok {
		return complain(127, "mise leads back to mise, again and again: a program on PATH calls mise for the tool of its own name, whose program is gone. "+
			"Let it call the tool by its whole path, or have the tool installed again")
	}
	if why := miseRefused(sub); why != "" {
		return complain(1, "%s", why)
	}
	env := replaced(os.Environ(), append(miseSettings(t, os.Getenv("MISE_TRUSTED_CONFIG_PATHS")), depth))
	if slices.Contains(miseOwn, sub) {
		env = replaced(env, []string{"MISE_SHARED_INSTALL_DIRS="})
	}
	if !slices.Contains(miseChanges, sub) {
		err := syscall.Exec(shim.Mise, append([]string{shim.Mise}, args...), env)
		return complain(127, "cannot run mise: %v", err)
	}
	attr := os.ProcAttr{Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}}
	if global {
		attr.Dir = "/" // for the computer, so the configuration of a checkout is none of its business
	}
	// What is installed for the computer is for all of its users.
	unix.Umask(0o022)
	// Before, too: a node that is gone must not stand in the way of the npm that installs it again.
	_ = (&shimWriter{tools: t}).readLocal()
	state, err := runForwarding(append([]string{shim.Mise}, args...), &attr)
	if err != nil {
		return complain(127, "cannot run mise: %v", err)
	}
	w := &shimWriter{tools: t}
	if err = w.readLocal(); err == nil {
		for _, r := range w.refused {
			complain(0, "%s gets no shim: %s", r.Name, r.Reason)
		}
	} else {
		complain(0, "what mise installed has no shims yet: %v; run mise reshim to try again", err)
	}
	if state.Signaled() {
		signal.Reset(state.Signal())
		_ = syscall.Kill(os.Getpid(), state.Signal())
		return 128 + int(state.Signal())
	}
	return state.ExitStatus()
}

func complain(status int, format string, args ...any) int {
	fmt.Fprintf(os.Stderr, "enplace: "+format+"\n", args...)
	return status
}

// miseFlagsWithValue are mise's global flags that take the next argument as their value.
var miseFlagsWithValue = []string{"-C", "--cd", "-E", "--env", "-j", "--jobs"}

// miseArguments finds the subcommand, and gives use and unuse the flag that makes them work for the computer, unless they say
// which file they are about. global says that they work for the computer.
func miseArguments(args []string) (out []string, sub string, global bool) {
	at := 0
	for at < len(args) && strings.HasPrefix(args[at], "-") {
		if args[at] == "--" {
			return args, "", false
		}
		if slices.Contains(miseFlagsWithValue, args[at]) {
			at++
		}
		at++
	}
	if at >= len(args) {
		return args, "", false
	}
	sub = args[at]
	if !slices.Contains([]string{"use", "u", "unuse", "rm", "remove"}, sub) {
		return args, sub, false
	}
	for _, a := range args[at+1:] {
		if a == "--" {
			break
		}
		if a == "--global" || isShort(a, 'g') {
			global = true
		} else if name, _, _ := strings.Cut(a, "="); name == "--path" || name == "--env" || isShort(a, 'p') || isShort(a, 'e') {
			return args, sub, false
		}
	}
	if !global {
		args = slices.Insert(slices.Clone(args), at+1, "--global")
	}
	return args, sub, true
}

// isShort reports whether an argument is that short flag, or several of which it is one: -fg, and -pFILE.
func isShort(arg string, flag byte) bool {
	if len(arg) < 2 || arg[0] != '-' || arg[1] == '-' {
		return false
	}
	for _, c := range []byte(arg[1:]) {
		if c == flag {
			return true
		}
		if c == 'p' || c == 'e' || c == 'j' || c == 'C' || c == 'E' {
			return false // the rest is its value
		}
	}
	return false
}

// replaced gives an environment with variables in place of its own.
func replaced(env, vars []string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.ContainsFunc(vars, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	})
	return append(out, vars...)
}

// runForwarding runs a program that gets the signals which this process is sent.
func runForwarding(argv []string, attr *os.ProcAttr) (syscall.WaitStatus, error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2)
	defer signal.Stop(signals)
	p, err := os.StartProcess(argv[0], argv, attr)
	if err != nil {
		return 0, err
	}
	go func() {
		for s := range signals {
			// A terminal sends these to both, and twice would be once too often.
			if s != unix.SIGINT && s != unix.SIGQUIT || !ofTerminal() {
				_ = p.Signal(s)
			}
		}
	}()
	state, err := p.Wait()
	if err != nil {
		return 0, err
	}
	return state.Sys().(syscall.WaitStatus), nil
}

// ofTerminal reports whether this process is in the group that its terminal sends signals to.
func ofTerminal() bool {
	fd, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
