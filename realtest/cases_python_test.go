package realtest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"enplace"
)

func TestCase14PyprojectThatIsNotAPackage(t *testing.T) {
	t.Parallel()
	// Only settings of a tool: there is nothing to install, and that is no failure.
	settings := newEnv(t, enplace.CreateEnvironment{Name: "Settings only"}, map[string]string{"pyproject.toml": "[tool.ruff]\nline-length = 100\n"})
	b, log := settings.build()
	want(t, log, "pyproject.toml holds only tool settings")
	if len(settings.manifest(b).Packages) != 0 {
		t.Errorf("packages: %v", settings.manifest(b).Packages)
	}

	// An application with several folders and no build system: its dependencies, without building it.
	app := newEnv(t, enplace.CreateEnvironment{Name: "Application"}, map[string]string{
		"pyproject.toml":    "[project]\nname = \"shop\"\nversion = \"1\"\ndependencies = [\"idna==3.10\"]\n",
		"data/__init__.py":  "",
		"app/__init__.py":   "",
		"app/main.py":       "import idna\nprint(idna.__version__)\n",
		"tests/test_app.py": "",
	})
	b, log = app.build()
	want(t, log, "rule: pyproject.toml, by uv pip install")
	if m := app.manifest(b); len(m.Packages) != 1 || m.Packages[0].Name != "idna" || len(m.Warnings) != 0 {
		t.Errorf("packages: %v, warnings: %q", m.Packages, m.Warnings)
	}
	if got := app.run(app.task(), "python3 $PROJECT_ROOT/app/main.py"); got != "3.10" {
		t.Errorf("got %s", got)
	}

	// With a build system that then fails: its dependencies, and a warning.
	app.put("pyproject.toml", "[project]\nname = \"shop\"\nversion = \"1\"\ndependencies = [\"idna==3.10\"]\n[build-system]\nrequires = [\"setuptools==80.9.0\"]\nbuild-backend = \"setuptools.build_meta\"\n")
	b, log = app.build()
	want(t, log, "Multiple top-level packages discovered")
	want(t, strings.Join(app.manifest(b).Warnings, "\n"), "the project itself could not be installed, only its dependencies are there", "set PYTHONPATH to /env/application")
	want(t, app.run(app.task(), "PYTHONPATH=$PROJECT_ROOT python3 -c 'import app.main'"), "3.10")

	// Dependencies that only the build system knows.
	app.put("pyproject.toml", "[project]\nname = \"shop\"\nversion = \"1\"\ndynamic = [\"dependencies\"]\n[build-system]\nrequires = [\"setuptools==80.9.0\"]\nbuild-backend = \"setuptools.build_meta\"\n"+
		"[tool.setuptools]\npackages = [\"app\"]\n[tool.setuptools.dynamic]\ndependencies = {file = [\"needs.txt\"]}\n")
	app.put("needs.txt", "certifi\n")
	b, _ = app.build()
	resolved(t, app.manifest(b), enplace.Pip, "certifi")

	// Declared for poetry alone, without a lock.
	app.put("pyproject.toml", "[tool.poetry]\nname = \"shop\"\nversion = \"1\"\ndescription = \"\"\nauthors = []\npackages = [{include = \"app\"}]\n[tool.poetry.dependencies]\npython = \"^3.9\"\nidna = \"3.10\"\n"+
		"[build-system]\nrequires = [\"poetry-core==2.2.1\"]\nbuild-backend = \"poetry.core.masonry.api\"\n")
	b, log = app.build()
	want(t, log, "declares its dependencies for poetry alone and there is no poetry.lock")
	resolved(t, app.manifest(b), enplace.Pip, "idna")
	resolved(t, app.manifest(b), enplace.Pip, "shop")
}

func TestCase15VersionFromGitWithoutGit(t *testing.T) {
	t.Parallel()
	e := newEnv(t, enplace.CreateEnvironment{Name: "Versioned", Packages: &enplace.Packages{Pip: []string{"Zope.Interface", "flask_sqlalchemy"}}}, map[string]string{
		"pyproject.toml": "[project]\nname = \"versioned\"\ndynamic = [\"version\"]\ndependencies = [\"idna\"]\n[project.scripts]\nversioned = \"versioned:main\"\n" +
			"[build-system]\nrequires = [\"setuptools==80.9.0\", \"setuptools-scm==9.2.2\"]\nbuild-backend = \"setuptools.build_meta\"\n[tool.setuptools_scm]\n",
		"src/versioned/__init__.py": "import importlib.metadata\n\ndef main():\n    print(importlib.metadata.version('versioned'))\n",
	})
	b, log := e.build()
	want(t, log, "the project takes its version from git, whose history is not here: it is given version 0.0.0")
	m := e.manifest(b)
	if len(m.Warnings) != 0 {
		t.Errorf("warnings: %q", m.Warnings)
	}
	// Case 33: names are compared as the index compares them.
	for _, name := range []string{"zope-interface", "flask-sqlalchemy"} {
		if !resolved(t, m, enplace.Pip, name).Direct {
			t.Errorf("%s was declared", name)
		}
	}
	// Case 16: commands name the interpreter where tasks see it.
	task := e.task()
	if got := e.run(task, "versioned"); got != "0.0.0" {
		t.Errorf("got %s", got)
	}
	if got := e.run(task, "head -1 $(command -v versioned)"); !strings.HasPrefix(got, "#!/env/versioned/.venv/bin/python") {
		t.Errorf("its first line is %s", got)
	}
}

func TestCase20ToolsThatWriteBesideTheCode(t *testing.T) {
	t.Parallel()
	e := newEnv(t, enplace.CreateEnvironment{Name: "Beside", Packages: &enplace.Packages{Pip: []string{"pytest==8.3.4", "requests==2.32.3"}}}, map[string]string{
		"test_it.py": "import requests\n\ndef test_it(tmp_path):\n    assert tmp_path.exists() and requests.__version__ == '2.32.3'\n",
	})
	e.build()
	task := e.task()
	out := e.run(task, "cd $PROJECT_ROOT && python3 -m pytest -q")
	want(t, out, "1 passed")
	if strings.Contains(strings.ToLower(out), "warning") {
		t.Errorf("pytest warns:\n%s", out)
	}
	if code, out := e.try(task, "touch $PROJECT_ROOT/x"); code == 0 || !strings.Contains(out, "Read-only file system") {
		t.Errorf("status %d: %s", code, out)
	}
	want(t, e.run(task, "cp -r $PROJECT_ROOT/. . && echo 'def test_more(): pass' >> test_it.py && python3 -m pytest -q"), "2 passed")
	// Every module is compiled already.
	if got := e.run(task, `python3 -c 'import requests, os; print(os.path.exists(requests.__cached__))'`); got != "True" {
		t.Errorf("bytecode: %s", got)
	}

	// Case 21: packages of a home, and variables of a caller, do not come before the environment's.
	e.run(task, `mkdir -p ~/.local/lib/python3.13/site-packages/requests && echo '__version__ = "2.0"' > ~/.local/lib/python3.13/site-packages/requests/__init__.py`)
	for _, python := range []string{"python3", "$PROJECT_ROOT/.venv/bin/python"} {
		if got := e.run(task, python+" -c 'import requests; print(requests.__version__)'"); got != "2.32.3" {
			t.Errorf("%s: %s", python, got)
		}
	}
	if code, out := e.try(task, "/usr/bin/python3 -c 'import requests'"); code == 0 {
		t.Errorf("the system's Python finds packages of the home: %s", out)
	}
	if got := e.run(task, "env | grep -cE '^(PYTHONPATH|PYTHONHOME)=' || true"); got != "0" {
		t.Errorf("%s variables that shadow packages", got)
	}

	// pip answers what is there, and says where packages belong.
	want(t, e.run(task, "pip list"), "requests", "2.32.3")
	want(t, e.run(task, "python3 -m pip show requests"), "Version: 2.32.3")
	code, out := e.try(task, "python3 -m pip install six")
	if code == 0 {
		t.Error("pip install succeeded")
	}
	want(t, out, "packages belong in its declared list")
	want(t, e.run(e.taskOf(shared.open), "pip install -q --target packages six && PYTHONPATH=packages python3 -c 'import six; print(six.__name__)'"), "six")
}

func TestCase32IndexThatRefuses(t *testing.T) {
	t.Parallel()
	start(t)
	index := registry(t, func(w *registryAnswer) { w.status = 401 })
	e := newEnv(t, enplace.CreateEnvironment{Name: "Private"}, map[string]string{"requirements.txt": "--extra-index-url " + index + "\nidna\n"})
	f, log := e.fail()
	if f.Reason != enplace.ReasonExit || f.Step != enplace.StepPython {
		t.Errorf("failure: %+v", f)
	}
	want(t, log, "401 Unauthorized")
	// A variable that builds do not have is an error, and not a name that some other index may answer.
	e.put("requirements.txt", "--index-url https://user:${INDEX_TOKEN}@example.org/simple\nidna\n")
	f, _ = e.fail()
	want(t, f.Message, "requirements.txt, line 1, uses ${INDEX_TOKEN}")
	if e, err := e.srv.Client.Environment(t.Context(), e.ID); err != nil || e.ActiveVersion != nil || len(e.Versions) != 0 {
		t.Errorf("failed builds left %v, %v", e.Versions, err)
	}
}

func TestCase34NoWheelForThisPython(t *testing.T) {
	t.Parallel()
	// In a requirements file: the declared list is checked against the registry when it is written.
	e := newEnv(t, enplace.CreateEnvironment{Name: "Wheels"}, map[string]string{"requirements.txt": "lxml==4.9.2\nidna\n"})
	f, log := e.fail()
	want(t, log, "no wheel for Python 3.13", "lxml==4.9.2")
	want(t, f.Message, "built from source: lxml==4.9.2")
	if len(f.Fixes) == 0 || f.Fixes[0] != "set python_version to 3.11, for which all of these have wheels" {
		t.Errorf("fixes: %q", f.Fixes)
	}
	// One that can be built is built, and named.
	e.put("requirements.txt", "docopt==0.6.2\n")
	b, log := e.build()
	want(t, log, "so built from source: docopt==0.6.2")
	if p := resolved(t, e.manifest(b), enplace.Pip, "docopt"); p.Hash != "sha256:49b3a825280bd66b3aa83585ef59c4a8c82f2c8a522dbe754a8bc8d08c85c491" {
		t.Errorf("its hash is not that of its source: %+v", p)
	}
}

func TestCase13PackagesLargerThanAVersion(t *testing.T) {
	t.Parallel()
	e := newEnv(t, enplace.CreateEnvironment{Name: "Large", Packages: &enplace.Packages{Pip: []string{"torch==2.6.0"}}}, nil)
	f, log := e.fail()
	if f.Reason != enplace.ReasonLimit || f.Step != enplace.StepPython {
		t.Errorf("failure: %+v", f)
	}
	want(t, f.Message, "the limit is 1536 MiB", "torch 2.6.0 (", "nvidia-cudnn-cu12")
	want(t, strings.Join(f.Fixes, "\n"), "CPU-only index")
	if strings.Contains(log, "Downloading") {
		t.Error("it was fetched before it was measured")
	}
}

func TestPoetryLock(t *testing.T) {
	t.Parallel()
	e := newEnv(t, enplace.CreateEnvironment{Name: "Poetry", Packages: &enplace.Packages{Pip: []string{"certifi"}}}, map[string]string{
		"pyproject.toml": "[project]\nname = \"locked\"\nversion = \"1.2.3\"\nrequires-python = \">=3.11\"\ndependencies = [\"idna (>=3.0)\"]\n[build-system]\nrequires = [\"poetry-core==2.2.1\"]\nbuild-backend = \"poetry.core.masonry.api\"\n",
		"poetry.lock": `[[package]]
name = "idna"
version = "3.7"
description = ""
optional = false
python-versions = ">=3.5"
groups = ["main"]
files = [
    {file = "idna-3.7-py3-none-any.whl", hash = "sha256:82fee1fc78add43492d3a1898bfa6d8a904cc97d8427f683ed8e798d07761aa0"},
    {file = "idna-3.7.tar.gz", hash = "sha256:028ff3aadf0609c1fd278d8ea3089299412a7a8b9bd005dd08b9f8285bcb5cfc"},
]

[metadata]
lock-version = "2.1"
python-versions = ">=3.11"
content-hash = "9783cd96ca548f2ac5e6440384038140df6a35ef2a1e6326ab53f0ab69541de9"
`,
		"locked/__init__.py": "",
	})
	b, log := e.build()
	want(t, log, "rule: poetry.lock, by poetry export and uv pip install")
	m := e.manifest(b)
	if p := resolved(t, m, enplace.Pip, "idna"); p.Version != "3.7" || p.Hash != "sha256:82fee1fc78add43492d3a1898bfa6d8a904cc97d8427f683ed8e798d07761aa0" {
		t.Errorf("idna is not the locked one: %+v", p)
	}
	resolved(t, m, enplace.Pip, "locked")
	resolved(t, m, enplace.Pip, "certifi")
	if slices.ContainsFunc(m.Packages, func(p enplace.ResolvedPackage) bool { return p.Name == "poetry" }) {
		t.Error("poetry itself is in the environment")
	}

	// Case 18, of poetry: a lock that does not match keeps what it has, and says so.
	e.put("pyproject.toml", "[project]\nname = \"locked\"\nversion = \"1.2.3\"\nrequires-python = \">=3.11\"\ndependencies = [\"idna (>=3.0)\", \"six\"]\n[build-system]\nrequires = [\"poetry-core==2.2.1\"]\nbuild-backend = \"poetry.core.masonry.api\"\n")
	b, _ = e.build()
	m = e.manifest(b)
	want(t, strings.Join(m.Warnings, "\n"), "lock not in sync: poetry.lock does not match pyproject.toml")
	resolved(t, m, enplace.Pip, "six")
	if v := resolved(t, m, enplace.Pip, "idna").Version; v != "3.7" {
		t.Errorf("idna is %s now", v)
	}
}

// Case 18, of Python: a lock that does not match what the project declares is not followed in silence.
func TestCase18UVLockOutOfStep(t *testing.T) {
	t.Parallel()
	const project = "[project]\nname = \"locked\"\nversion = \"1.2.3\"\nrequires-python = \">=3.11\"\ndependencies = [%s]\n"
	const lock = `version = 1
revision = 3
requires-python = ">=3.11"

[[package]]
name = "idna"
version = "3.7"
source = { registry = "https://pypi.org/simple" }
wheels = [
    { url = "https://files.pythonhosted.org/packages/e5/3e/741d8c82801c347547f8a2a06aa57dbb1992be9e948df2ea0eda2c8b79e8/idna-3.7-py3-none-any.whl", hash = "sha256:82fee1fc78add43492d3a1898bfa6d8a904cc97d8427f683ed8e798d07761aa0", size = 66836 },
]

[[package]]
name = "locked"
version = "1.2.3"
source = { virtual = "." }
dependencies = [
    { name = "idna" },
]

[package.metadata]
requires-dist = [{ name = "idna", specifier = ">=3.0,<4" }]
`
	e := newEnv(t, enplace.CreateEnvironment{Name: "Out of step"}, map[string]string{"pyproject.toml": fmt.Sprintf(project, `"idna <4, >=3.0"`), "uv.lock": lock})
	b, _ := e.build()
	if m := e.manifest(b); len(m.Warnings) != 0 || resolved(t, m, enplace.Pip, "idna").Version != "3.7" {
		t.Errorf("in step: %+v", m)
	}
	e.put("pyproject.toml", fmt.Sprintf(project, `"idna <4, >=3.0", "certifi"`))
	b, _ = e.build()
	m := e.manifest(b)
	want(t, strings.Join(m.Warnings, "\n"), "lock not in sync: uv.lock does not match pyproject.toml", "certifi")
	resolved(t, m, enplace.Pip, "certifi")
	if resolved(t, m, enplace.Pip, "idna").Version != "3.7" {
		t.Error("what was locked has another version now")
	}
	if got := e.run(e.task(), "sha256sum < $PROJECT_ROOT/uv.lock"); !strings.HasPrefix(got, fmt.Sprintf("%x", sha256.Sum256([]byte(lock)))) {
		t.Error("the build changed uv.lock")
	}
}
