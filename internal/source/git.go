package source

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"time"

	"enplace"
)

// GitRunner runs a command inside a sandbox that has git, with the sandbox's own environment (proxy, certificates) and env
// added to it, in one writable working directory that all calls of an import share. An error says that it could not be run; a
// command that failed gives its exit status. Whatever the command prints is hostile.
type GitRunner func(ctx context.Context, argv, env []string, stdin io.Reader, stdout, stderr io.Writer) (exit int, err error)

const (
	gitDir         = "source.git"          // relative to the runner's working directory
	importRef      = "refs/enplace/import" // what the import fetched
	describeBudget = 20 * time.Second
	maxGitOutput   = 32 << 20 // of a command whose answer is held
)

// gitEnv shuts out every configuration but ours and every question. Messages are read, so they are in English.
var gitEnv = []string{
	"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "HOME=/tmp/enplace-git", "XDG_CONFIG_HOME=/tmp/enplace-git",
	"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false", "SSH_ASKPASS=/bin/false", "GIT_OPTIONAL_LOCKS=0", "GIT_ADVICE=0", "LC_ALL=C",
}

// git runs the commands of one import.
type git struct {
	run    GitRunner
	url    string
	host   string
	config []string
	stderr tailBuffer
}

// Git imports a commit of a git repository, or a folder of it. Git itself runs in the sandbox of run, whose egress policy
// decides what it reaches; its answers are treated as an archive is. The tree is what a checkout gives: files that attributes
// leave out of archives are there, submodules and Git LFS are not fetched but noted. Errors for people are of kind invalid,
// too_large or upstream.
func Git(ctx context.Context, run GitRunner, src enplace.GitSource, sink Sink, o GitOptions) (Result, error) {
	l := defaultLimits
	l.part = o.Part
	return importGit(ctx, run, src, sink, o, l)
}

func importGit(ctx context.Context, run GitRunner, src enplace.GitSource, sink Sink, o GitOptions, l limits) (Result, error) {
	if err := CheckGit(src, o); err != nil {
		return Result{}, err
	}
	g := newGit(run, strings.TrimSpace(src.URL), o)
	ref, subdir := strings.TrimSpace(src.Ref), trimSubdir(src.Subdir)
	tags, err := g.fetch(ctx, ref)
	if err != nil {
		return Result{}, g.timeout(ctx, err)
	}
	commit, tree, err := g.resolve(ctx, subdir)
	if err != nil {
		return Result{}, g.timeout(ctx, err)
	}
	c := newCollector(sink, l)
	if err := g.archive(ctx, c, tree); err != nil {
		return Result{}, g.timeout(ctx, err)
	}
	submodules, err := g.submodules(ctx, tree, l.part)
	if err != nil {
		return Result{}, g.timeout(ctx, err)
	}
	res, err := c.finish(false)
	if err != nil {
		return Result{}, err
	}
	res.Report.Commit = commit
	res.Submodules = submodules
	if len(res.Submodules) > 0 {
		verb := "are submodules, which are"
		if len(res.Submodules) == 1 {
			verb = "is a submodule, which is"
		}
		res.Report.Notes = append(res.Report.Notes, fmt.Sprintf("%s %s not imported", quotedList(res.Submodules), verb))
	}
	if tags && o.DescribeTimeout >= 0 && readsVersionFromGit(res.Entries) {
		res.Report.Describe = g.describe(ctx, commit, o.DescribeTimeout)
	}
	return res, nil
}

func newGit(run GitRunner, rawURL string, o GitOptions) *git {
	g := &git{run: run, url: rawURL}
	if u, err := url.Parse(rawURL); err == nil {
		g.host = u.Host
	}
	g.config = []string{
		"-c", "protocol.allow=never", "-c", "protocol.https.allow=always",
		"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "credential.helper=", "-c", "submodule.recurse=false",
		"-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "init.defaultBranch=main",
		// Every connection of the sandbox passes the egress policy, so that the host's own redirects can be followed.
		"-c", "http.followRedirects=initial", "-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60",
	}
	if o.AllowHTTP {
		g.config = append(g.config, "-c", "protocol.http.allow=always")
	}
	return g
}

// exec runs git with arguments and streams what it prints; stdin is empty.
func (g *git) exec(ctx context.Context, dir string, stdout io.Writer, args ...string) (exit int, err error) {
	argv := append([]string{"git", "--git-dir=" + dir}, append(g.config, args...)...)
	g.stderr.Reset()
	exit, err = g.run(ctx, argv, gitEnv, strings.NewReader(""), stdout, &g.stderr)
	if err != nil {
		return exit, fmt.Errorf("running git %s: %w", args[0], err)
	}
	return exit, nil
}

// output runs git and gives what it prints, at most maxGitOutput bytes.
func (g *git) output(ctx context.Context, dir string, args ...string) (string, int, error) {
	out := cappedBuffer{left: maxGitOutput}
	exit, err := g.exec(ctx, dir, &out, args...)
	if err == nil && out.over {
		err = enplace.Errorf(enplace.KindUpstream, "the repository at %s answers with more than can be read", shown(g.host)).WithField("git_url")
	}
	return out.String(), exit, err
}

var hexCommit = regexp.MustCompile(`^[0-9a-fA-F]{7,64}$`)

// fetch makes the repository and fetches ref, one commit deep where the server lets it. It reports whether there are tags.
func (g *git) fetch(ctx context.Context, ref string) (tags bool, err error) {
	if exit, err := g.exec(ctx, gitDir, io.Discard, "init", "--quiet", "--bare", "--template="); err != nil || exit != 0 {
		return false, g.local("init", err)
	}
	// Not all refs: hosts keep one for every pull request.
	patterns := []string{"HEAD", "refs/heads/*", "refs/tags/*"}
	if strings.HasPrefix(ref, "refs/") {
		patterns = append(patterns, ref)
	}
	listed, exit, err := g.output(ctx, gitDir, append([]string{"ls-remote", "--", g.url}, patterns...)...)
	if err != nil {
		return false, err
	}
	if exit != 0 {
		return false, g.explain()
	}
	refs := parseRefs(listed)
	if len(refs) == 0 {
		return false, enplace.Invalidf("the repository is empty, or what answers is no git repository; push a commit to it first, or check the address").WithField("git_url")
	}
	for name := range refs {
		tags = tags || strings.HasPrefix(name, "refs/tags/")
	}
	full, ok := pickRef(refs, ref)
	switch {
	case ok:
		exit, err = g.exec(ctx, gitDir, io.Discard, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", g.url, "+"+full+":"+importRef)
		if err == nil && exit != 0 {
			err = g.explain()
		}
		return tags, err
	case hexCommit.MatchString(ref):
		return tags, g.fetchCommit(ctx, ref)
	}
	return tags, unknownRef(ref)
}

// fetchCommit fetches a commit by its id: alone if the server gives it, else out of all branches and tags.
func (g *git) fetchCommit(ctx context.Context, id string) error {
	id = strings.ToLower(id)
	if len(id) == 40 || len(id) == 64 {
		exit, err := g.exec(ctx, gitDir, io.Discard, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", g.url, id+":"+importRef)
		if err != nil || exit == 0 {
			return err
		}
	}
	exit, err := g.exec(ctx, gitDir, io.Discard, "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--", g.url, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
	if err != nil {
		return err
	}
	if exit != 0 {
		return g.explain()
	}
	found, exit, err := g.output(ctx, gitDir, "rev-parse", "--verify", "--quiet", id+"^{commit}")
	if err != nil {
		return err
	}
	if exit != 0 {
		return unknownRef(id)
	}
	exit, err = g.exec(ctx, gitDir, io.Discard, "update-ref", importRef, strings.TrimSpace(found))
	if err != nil || exit != 0 {
		return g.local("update-ref", err)
	}
	return nil
}

// resolve gives the commit that was fetched, and the tree to import.
func (g *git) resolve(ctx context.Context, subdir string) (commit, tree string, err error) {
	out, exit, err := g.output(ctx, gitDir, "rev-parse", "--verify", "--quiet", importRef+"^{commit}")
	commit = strings.TrimSpace(out)
	if err != nil || exit != 0 || !commitID.MatchString(commit) {
		if err == nil {
			err = enplace.Invalidf("is no branch, tag or commit with files").WithField("ref")
		}
		return "", "", err
	}
	if subdir == "" {
		return commit, commit, nil
	}
	tree, err = g.subtree(ctx, commit, subdir)
	return commit, tree, err
}

// subtree gives the tree of a folder.
func (g *git) subtree(ctx context.Context, commit, subdir string) (string, error) {
	out, exit, err := g.output(ctx, gitDir, "rev-parse", "--verify", "--quiet", commit+":"+subdir)
	if err != nil {
		return "", err
	}
	tree := strings.TrimSpace(out)
	if exit != 0 || !commitID.MatchString(tree) {
		return "", enplace.Invalidf("there is no folder %q in the repository at that ref", shown(subdir)).WithField("subdir")
	}
	kind, exit, err := g.output(ctx, gitDir, "cat-file", "-t", tree)
	if err == nil && (exit != 0 || strings.TrimSpace(kind) != "tree") {
		err = enplace.Invalidf("%q is a file or a submodule, and no folder", shown(subdir)).WithField("subdir")
	}
	return tree, err
}

// archive streams the tree into the collector.
func (g *git) archive(ctx context.Context, c *collector, tree string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		// A bare repository has no attributes but those of the tree, which --worktree-attributes does not read: nothing is left
		// out, and nothing substituted, because of export-ignore or export-subst.
		exit, err := g.exec(ctx, gitDir, w, "archive", "--format=tar", "--worktree-attributes", tree)
		if err == nil && exit != 0 {
			err = g.local("archive", nil)
		}
		w.CloseWithError(err)
		ended <- err
	}()
	unpacked := &meter{ctx: ctx, r: r, keep: true, max: c.l.scannedBytes, over: func() error {
		return enplace.TooLargef("the repository has more than %s of files; import a folder of it with subdir", size(c.l.scannedBytes))
	}}
	err := c.tar(ctx, bufio.NewReaderSize(unpacked, 64<<10), "git")
	if err != nil {
		err = unpacked.explain(err)
		cancel()
		r.CloseWithError(err)
		<-ended //nolint:errcheck // git was cut off, and says no more than that
		return err
	}
	r.Close()
	return <-ended
}

// submodules gives the paths of those in a part of the tree.
func (g *git) submodules(ctx context.Context, tree string, wanted Part) ([]string, error) {
	found := &gitlinks{wanted: wanted}
	exit, err := g.exec(ctx, gitDir, found, "ls-tree", "-r", "-z", "--full-tree", tree)
	if err == nil && exit != 0 {
		err = g.local("ls-tree", nil)
	}
	return found.paths, err
}

// readsVersionFromGit knows the projects that find out their version by tags: Python's, by setuptools-scm and its like.
func readsVersionFromGit(entries []enplace.TreeEntry) bool {
	for _, e := range entries {
		if e.Path == "pyproject.toml" || e.Path == "setup.py" || e.Path == "setup.cfg" {
			return true
		}
	}
	return false
}

// describe gives what git describe says of the commit. It needs the history, which is fetched without any file, in a
// repository of its own; a history too long for the time it has gives "".
func (g *git) describe(ctx context.Context, commit string, budget time.Duration) string {
	if budget == 0 {
		budget = describeBudget
	}
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	const dir = "describe.git"
	if exit, err := g.exec(ctx, dir, io.Discard, "init", "--quiet", "--bare", "--template="); err != nil || exit != 0 {
		return ""
	}
	exit, err := g.exec(ctx, dir, io.Discard, "fetch", "--quiet", "--filter=tree:0", "--no-tags", "--no-recurse-submodules", "--",
		g.url, "+refs/tags/*:refs/tags/*", "+refs/heads/*:refs/heads/*")
	if err != nil || exit != 0 {
		return ""
	}
	out, exit, err := g.output(ctx, dir, "describe", "--tags", "--long", commit)
	if out = strings.TrimSpace(out); err != nil || exit != 0 || checkRef(out) != nil {
		return ""
	}
	return out
}

// gitlinks picks the submodules out of ls-tree -z as it is written, and holds no more of them than a note can use.
type gitlinks struct {
	wanted Part
	entry  []byte // as far as it has come
	paths  []string
}

func (l *gitlinks) Write(p []byte) (int, error) {
	n := len(p)
	for {
		head, rest, ok := bytes.Cut(p, []byte{0})
		if len(l.entry)+len(head) > 8192 {
			return 0, errors.New("a path of the repository is too long")
		}
		l.entry = append(l.entry, head...)
		if !ok {
			return n, nil
		}
		if meta, name, ok := bytes.Cut(l.entry, []byte{'\t'}); ok && bytes.HasPrefix(meta, []byte("160000 ")) && l.wanted.has(string(name)) && len(l.paths) < 1000 {
			l.paths = append(l.paths, string(name))
		}
		l.entry, p = l.entry[:0], rest
	}
}
