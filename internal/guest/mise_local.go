package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"enplace/internal/shim"
)

// readLocalTimeout bounds each question to mise about what is installed; it takes some 20 ms.
const readLocalTimeout = 30 * time.Second

// readLocal asks mise what is installed inside, and writes its index and shims. Whoever may not write there cannot have
// installed anything there, so for them there is nothing to do.
func (w *shimWriter) readLocal() error {
	unlock, err := w.begin()
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	commands, err := localCommands(w.tools)
	if err != nil {
		return err
	}
	if err := w.index(w.tools.LocalIndex(), commands); err != nil {
		return err
	}
	_, err = w.link()
	return err
}

// localTool is a tool as mise ls tells it.
type localTool struct {
	name, version string
	folder        string // resolved
}

// localCommands gives the commands of the tools that are installed inside. mise is asked in a folder of its own and with
// nothing but its settings, so that no other configuration counts.
func localCommands(t shim.Tools) ([]shim.Command, error) {
	ls, err := askMise(t, "ls", "--json", "--global")
	if err != nil {
		return nil, err
	}
	var listed map[string][]struct {
		Version     string `json:"version"`
		InstallPath string `json:"install_path"`
		Installed   bool   `json:"installed"`
	}
	if err := json.Unmarshal(ls, &listed); err != nil {
		return nil, fmt.Errorf("reading what mise lists: %w", err)
	}
	var tools []localTool
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		for _, v := range listed[name] {
			if folder, err := filepath.EvalSymlinks(v.InstallPath); err == nil && v.Installed {
				tools = append(tools, localTool{name, v.Version, folder})
			}
		}
	}
	bins, err := askMise(t, "bin-paths")
	if err != nil {
		return nil, err
	}
	var commands []shim.Command
	seen := map[string]bool{}
	for dir := range strings.Lines(string(bins)) {
		for _, c := range commandsIn(strings.TrimSuffix(dir, "\n"), tools) {
			if !seen[c.Name] { // as PATH would have it
				commands = append(commands, c)
			}
			seen[c.Name] = true
		}
	}
	return commands, nil
}

// commandsIn gives the programs of a folder that belongs to one of the tools.
func commandsIn(dir string, tools []localTool) []shim.Command {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	at := slices.IndexFunc(tools, func(t localTool) bool { return strings.HasPrefix(real+"/", t.folder+"/") })
	entries, err := os.ReadDir(real)
	if at < 0 || err != nil {
		return nil
	}
	var commands []shim.Command
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			commands = append(commands, shim.Command{Name: e.Name(), Target: path, Item: tools[at].name + "@" + tools[at].version})
		}
	}
	return commands
}

// askMise gives what mise prints, which is little.
func askMise(t shim.Tools, args ...string) ([]byte, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p, err := os.StartProcess(shim.Mise, append([]string{shim.Mise}, args...), &os.ProcAttr{
		Dir:   t.Local(),
		Env:   append([]string{"PATH=/usr/bin:/bin", "HOME=" + t.Local() + "/home", "MISE_OFFLINE=1", "MISE_QUIET=1"}, miseSettings(t, "")...),
		Files: []*os.File{nil, w, os.Stderr},
	})
	_ = w.Close()
	if err != nil {
		return nil, fmt.Errorf("asking mise %s: %w", args[0], err)
	}
	stop := time.AfterFunc(readLocalTimeout, func() { _ = p.Kill() })
	defer stop.Stop()
	out, readErr := io.ReadAll(io.LimitReader(r, maxShimsBytes))
	state, err := p.Wait()
	if err = errors.Join(readErr, err); err == nil && !state.Success() {
		err = fmt.Errorf("%s", state)
	}
	if err != nil {
		return nil, fmt.Errorf("asking mise %s: %w", args[0], err)
	}
	return out, nil
}
