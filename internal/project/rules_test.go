package project

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"enplace"
	"enplace/internal/blob/dir"
	"enplace/internal/build"
	"enplace/internal/store"
)

// planOf gives the plan of a build of these files, which lie in a real blob store.
func planOf(t *testing.T, files map[string]string) *plan {
	t.Helper()
	return planIn(t, openBlobs(t), files)
}

func openBlobs(t testing.TB) *dir.Store {
	t.Helper()
	blobs, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { blobs.Close() })
	return blobs
}

func planIn(t *testing.T, blobs *dir.Store, files map[string]string) *plan {
	t.Helper()
	var tree []enplace.TreeEntry
	for path, text := range files {
		info, err := blobs.Put(t.Context(), strings.NewReader(text), int64(len(text)))
		if err != nil {
			t.Fatal(err)
		}
		tree = append(tree, enplace.TreeEntry{Path: path, Type: enplace.EntryFile, Size: info.Bytes, Digest: info.Digest})
	}
	slices.SortFunc(tree, func(a, b enplace.TreeEntry) int { return strings.Compare(a.Path, b.Path) })
	run := &build.Run{BuildRecord: store.BuildRecord{Spec: store.BuildSpec{Slug: "p", Snapshot: "sha256:tree"}}}
	return &plan{s: &Service{cfg: Config{Blobs: blobs}}, run: run, root: "/env/p", tree: tree, has: byPath(tree)}
}

func TestReadPython(t *testing.T) {
	t.Parallel()
	const project = "[project]\nname = \"x\"\nversion = \"1\"\n"
	const system = "[build-system]\nrequires = [\"setuptools\"]\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  pythonRule
		notes int
	}{
		"nothing":       {map[string]string{"a.py": ""}, pythonRule{}, 0},
		"settings only": {map[string]string{"pyproject.toml": "[tool.ruff]\n"}, pythonRule{}, 1},
		"a package":     {map[string]string{"pyproject.toml": project + system}, pythonRule{Project: true, Pyproject: true, Buildable: true}, 0},
		"an application": {map[string]string{"pyproject.toml": project + "requires-python = \">=3.10\"\n"},
			pythonRule{Project: true, Pyproject: true, Requires: ">=3.10"}, 0},
		"requirements, plain first": {map[string]string{"requirements-dev.txt": "a", "requirements.txt": "b", "sub/requirements.txt": "c"},
			pythonRule{Requirements: []string{"requirements.txt", "requirements-dev.txt"}}, 0},
		"uv.lock comes first": {map[string]string{"pyproject.toml": project, "uv.lock": "", "poetry.lock": "", "requirements.txt": ""},
			pythonRule{Project: true, UVLock: true, Requirements: []string{"requirements.txt"}}, 0},
		"uv.lock without a project": {map[string]string{"uv.lock": "", "requirements.txt": ""}, pythonRule{Requirements: []string{"requirements.txt"}}, 0},
		"poetry, locked": {map[string]string{"pyproject.toml": "[tool.poetry]\nname = \"x\"\n[tool.poetry.dependencies]\npython = \"^3.11\"\n[tool.poetry.group.dev]\n[tool.poetry.group.docs]\noptional = true\n", "poetry.lock": ""},
			pythonRule{PoetryLock: true, PoetryGroups: []string{"dev"}, Requires: ">=3.11,<4"}, 0},
		"poetry, not locked":   {map[string]string{"pyproject.toml": "[tool.poetry]\nname = \"x\"\n" + system}, pythonRule{Buildable: true}, 1},
		"setup.py":             {map[string]string{"setup.py": "setup()"}, pythonRule{Buildable: true}, 0},
		"a version of git":     {map[string]string{"setup.py": "setup(use_scm_version=True)"}, pythonRule{Buildable: true, GitVersion: true}, 0},
		"a folder of the tree": {map[string]string{"requirements.txt": "-e .\n"}, pythonRule{Requirements: []string{"requirements.txt"}, InPlace: true}, 0},
		"what is not read":     {map[string]string{"Pipfile.lock": "{}"}, pythonRule{}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := planOf(t, c.files).readPython(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Notes) != c.notes {
				t.Errorf("notes: %q", got.Notes)
			}
			got.Notes, got.Inputs = nil, nil
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What the dependencies depend on is in the key of their layer, and nothing else.
func TestPythonInputs(t *testing.T) {
	t.Parallel()
	files := map[string]string{"requirements.txt": "-r more/base.txt\n-c=limits.txt\n", "more/base.txt": "--requirement deep.in", "more/deep.in": "idna", "limits.txt": "idna<4", "main.py": ""}
	r, err := planOf(t, files).readPython(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, in := range r.Inputs {
		name, _, _ := strings.Cut(in, " ")
		names = append(names, name)
	}
	if want := []string{"requirements.txt", "more/base.txt", "limits.txt", "more/deep.in"}; !slices.Equal(names, want) {
		t.Errorf("got %v", names)
	}
	files["requirements.txt"] += "./vendored.whl\n"
	if r, err = planOf(t, files).readPython(t.Context()); err != nil || !slices.Contains(r.Inputs, "tree sha256:tree") {
		t.Errorf("a file of the tree: %v, %v", r.Inputs, err)
	}
}

func TestReadPythonRefuses(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"invalid TOML":        {"pyproject.toml": "[project\n"},
		"an unknown variable": {"requirements.txt": "# ${COMMENT}\n--index-url https://${TOKEN}@x/simple\n"},
	} {
		_, err := planOf(t, files).readPython(t.Context())
		if !build.IsExit(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRequirementsThatNameTooManyFiles(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range maxInputFiles + 1 {
		fmt.Fprintf(&text, "-r %d.txt\n", i)
	}
	_, err := planOf(t, map[string]string{"requirements.txt": text.String()}).readPython(t.Context())
	var f *enplace.Failure
	if !errors.As(err, &f) || f.Reason != enplace.ReasonLimit {
		t.Errorf("%v", err)
	}
}

func TestRequirementRefs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		more  []string
		local bool
	}{
		"idna==3.10\nrequests -r\n":                          {nil, false},
		"-r a.txt\n-c b.txt\n--requirement=c.txt\n-rd.txt\n": {[]string{"sub/a.txt", "sub/b.txt", "sub/c.txt", "sub/d.txt"}, false},
		"-r ../up.txt\n":                                     {[]string{"up.txt"}, false},
		"-e .\n":                                             {nil, true},
		"--editable ./x\n":                                   {nil, true},
		"./x.whl\n":                                          {nil, true},
		"x @ file:///env/p/x\n":                              {nil, true},
		"--find-links wheels\n":                              {nil, true},
		"# -e .\n":                                           {nil, false},
		"-r a.txt  # the core\n":                             {[]string{"sub/a.txt"}, false},
		"-r Base.reqs\n":                                     {[]string{"sub/Base.reqs"}, false},
		"-r https://example.org/x.txt\n":                     {nil, false},
		"wheels/x-1-py3-none-any.whl\n":                      {nil, true},
		"x @ ./x\n":                                          {nil, true},
		"${PROJECT_ROOT}/x\n":                                {nil, true},
		"x @ https://example.org/x.whl\n":                    {nil, false},
		"-f https://example.org/wheels\n":                    {nil, false},
		"--index-url https://example.org/simple/\n":          {nil, false},
	} {
		more, local := requirementRefs("sub/requirements.txt", text)
		if !slices.Equal(more, want.more) || local != want.local {
			t.Errorf("%q: %v, %t", text, more, local)
		}
	}
}

// A layer is made again when a file that it depends on changes, and not when any other file of the tree does.
func TestPythonDependsOn(t *testing.T) {
	t.Parallel()
	const project = "[project]\nname = \"x\"\nversion = \"1\"\n"
	const dynamic = "[project]\nname = \"x\"\ndynamic = [\"dependencies\"]\n"
	for name, c := range map[string]struct {
		files  map[string]string
		inputs []string
		whole  bool
	}{
		"a comment behind an include": {map[string]string{"requirements.txt": "-r base.reqs # all\n", "base.reqs": "-r more.in\n", "more.in": "", "a.py": ""},
			[]string{"requirements.txt", "base.reqs", "more.in"}, false},
		"a setting called path":         {map[string]string{"pyproject.toml": project + "[tool.pytest.ini_options]\npythonpath = [\"src\"]\n[tool.x]\npath = \"y\"\n"}, []string{"pyproject.toml"}, false},
		"a source without blanks":       {map[string]string{"pyproject.toml": project + "[tool.uv.sources]\ny={path=\"y\"}\n"}, []string{"pyproject.toml"}, true},
		"a source of the workspace":     {map[string]string{"pyproject.toml": project + "[tool.uv.sources]\ny = [{workspace = true}]\n"}, []string{"pyproject.toml"}, true},
		"wheels beside the project":     {map[string]string{"pyproject.toml": project + "[tool.uv]\nfind-links = [\"./wheels\"]\n"}, []string{"pyproject.toml"}, true},
		"an index elsewhere":            {map[string]string{"pyproject.toml": project + "[[tool.uv.index]]\nurl = \"https://example.org/simple\"\n"}, []string{"pyproject.toml"}, false},
		"uv.toml":                       {map[string]string{"pyproject.toml": project, "uv.toml": "find-links = [\"wheels\"]"}, []string{"pyproject.toml", "uv.toml"}, true},
		"poetry's path":                 {map[string]string{"pyproject.toml": "[tool.poetry.group.dev.dependencies]\ny = {path = \"y\"}\n", "poetry.lock": ""}, []string{"pyproject.toml", "poetry.lock"}, true},
		"dependencies from a file":      {map[string]string{"pyproject.toml": dynamic + "[tool.setuptools.dynamic]\ndependencies = {file = [\"deps/all.in\"]}\n", "deps/all.in": "idna"}, []string{"pyproject.toml", "deps/all.in"}, false},
		"dependencies from a build":     {map[string]string{"pyproject.toml": dynamic + "[build-system]\nrequires = [\"hatchling\"]\n"}, []string{"pyproject.toml"}, true},
		"dependencies from a setup.py":  {map[string]string{"pyproject.toml": dynamic, "setup.py": ""}, []string{"pyproject.toml", "setup.py"}, true},
		"a dependency by a file's name": {map[string]string{"pyproject.toml": project + "dependencies = [\"y @ file:///env/p/y\"]\n"}, []string{"pyproject.toml"}, true},
	} {
		p := planOf(t, c.files)
		r, err := p.readPython(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var want []string
		for _, f := range c.inputs {
			want = append(want, f+" "+string(p.has[f].Digest))
		}
		if c.whole {
			want = append(want, "tree sha256:tree")
		}
		if !slices.Equal(slices.Sorted(slices.Values(r.Inputs)), slices.Sorted(slices.Values(want))) {
			t.Errorf("%s: %q", name, r.Inputs)
		}
	}
}

func TestUnlocked(t *testing.T) {
	t.Parallel()
	const lock = `
[[package]]
name = "shop-app"
source = { editable = "." }
[package.metadata]
requires-dist = [
  { name = "idna", specifier = ">=3.0,<4" },
  { name = "zope-interface", extras = ["x"], marker = "python_full_version < '3.9'" },
  { name = "own", git = "https://example.org/own" },
]
[[package]]
name = "requests"
source = { registry = "https://pypi.org/simple" }
`
	for deps, want := range map[string][]string{
		`["idna <4, >= 3.0", "Zope.Interface[x]; python_version < '3.9'", "own"]`: nil,
		`["idna (<4,>=3.0)"]`:                      nil,
		`["idna<5"]`:                               {"idna<5"},
		`["idna>=3.0,<4", "requests"]`:             {"requests"},
		`["own @ git+https://example.org/own@v1"]`: nil,
		`[]`: nil,
	} {
		var doc pyproject
		if err := toml.Unmarshal([]byte("[project]\nname = \"Shop_App\"\ndependencies = "+deps), &doc); err != nil {
			t.Fatal(err)
		}
		if got := unlocked(doc, []byte(lock)); !slices.Equal(got, want) {
			t.Errorf("%s: %q", deps, got)
		}
	}
}

func TestPoetryRange(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"^3.11": ">=3.11,<4", "~3.11": ">=3.11,<3.12", "~3": ">=3,<4", ">=3.9,<4.0": ">=3.9,<4.0", "*": "", "3.8 || 3.11": "", "^x": "", "3.12.*": "3.12.*",
	} {
		if got := poetryRange(in); got != want {
			t.Errorf("%s: %q, not %q", in, got, want)
		}
	}
	if got := poetryRange(nil); got != "" {
		t.Errorf("nothing: %q", got)
	}
}

func TestPoetryPins(t *testing.T) {
	t.Parallel()
	got := poetryPins([]byte("[[package]]\nname = \"b\"\nversion = \"2\"\n[[package]]\nname = \"a\"\nversion = \"1\"\n[[package]]\nname = \"c\"\nversion = \"1\"\n[[package]]\nname = \"c\"\nversion = \"2\"\n"))
	if want := []string{"a==1", "b==2"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestReadNPM(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files         map[string]string
		lock, manager string
		whole         bool
	}{
		"nothing":                {map[string]string{"a.js": ""}, "", "", false},
		"no lock":                {map[string]string{"package.json": "{}"}, "", "", false},
		"npm's lock comes first": {map[string]string{"package.json": "{}", "package-lock.json": "{}", "yarn.lock": ""}, "package-lock.json", "", false},
		"shrinkwrap":             {map[string]string{"package.json": "{}", "package-lock.json": "{}", "npm-shrinkwrap.json": "{}"}, "npm-shrinkwrap.json", "", false},
		"yarn":                   {map[string]string{"package.json": "{}", "yarn.lock": "# yarn lockfile v1\n"}, "yarn.lock", yarn1, false},
		"pnpm":                   {map[string]string{"package.json": "{}", "pnpm-lock.yaml": "lockfileVersion: '9.0'\n"}, "pnpm-lock.yaml", pnpmNow, false},
		"an older pnpm":          {map[string]string{"package.json": "{}", "pnpm-lock.yaml": "lockfileVersion: '6.0'\n"}, "pnpm-lock.yaml", pnpm8, false},
		"a much older one":       {map[string]string{"package.json": "{}", "pnpm-lock.yaml": "lockfileVersion: 5.4\n"}, "pnpm-lock.yaml", pnpm7, false},
		"the project names it":   {map[string]string{"package.json": `{"packageManager": "pnpm@9.1.0+sha512.abc"}`, "pnpm-lock.yaml": ""}, "pnpm-lock.yaml", "pnpm@9.1.0", false},
		"no name of a command":   {map[string]string{"package.json": `{"packageManager": "pnpm@https://example.org/x"}`, "pnpm-lock.yaml": ""}, "pnpm-lock.yaml", pnpmNow, false},
		"a folder of the tree":   {map[string]string{"package.json": `{"dependencies": {"x": "file:./x"}}`}, "", "", true},
		"workspaces":             {map[string]string{"package.json": `{"workspaces": ["a"]}`}, "", "", true},
		"own install script":     {map[string]string{"package.json": `{"scripts": {"postinstall": "./x"}}`}, "", "", true},
		"a module to compile":    {map[string]string{"package.json": "{}", "binding.gyp": "{}"}, "", "", true},
		"a folder by its path":   {map[string]string{"package.json": `{"optionalDependencies": {"x": "../x"}}`}, "", "", true},
		"an archive of the tree": {map[string]string{"package.json": `{"dependencies": {"x": "vendor/x.tgz"}}`}, "", "", true},
		"an archive elsewhere":   {map[string]string{"package.json": `{"dependencies": {"x": "https://example.org/x.tgz"}}`}, "", "", false},
		"patches of the tree":    {map[string]string{"package.json": `{"pnpm": {"patchedDependencies": {"x@1": "patches/x.patch"}}}`}, "", "", true},
	} {
		got, err := planOf(t, c.files).readNPM(t.Context())
		if err != nil || got.Lock != c.lock || got.Manager != c.manager || slices.Contains(got.Inputs, "tree sha256:tree") != c.whole {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, files := range map[string]map[string]string{
		"invalid JSON": {"package.json": "{"},
		"yarn 2":       {"package.json": "{}", "yarn.lock": "__metadata:\n"},
	} {
		if _, err := planOf(t, files).readNPM(t.Context()); !build.IsExit(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The environment's own check sees what a task will: also where an install put what it downloaded.
func TestCheckSeesDownloads(t *testing.T) {
	t.Parallel()
	p := planOf(t, nil)
	p.keepCaches([]string{"playwright"})
	if want := "PLAYWRIGHT_BROWSERS_PATH=/env/p/.cache/playwright"; !slices.Contains(p.taskEnv(), want) {
		t.Errorf("%s is not in %q", want, p.taskEnv())
	}
}
