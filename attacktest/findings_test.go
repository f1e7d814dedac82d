package attacktest

import (
	"encoding/json"
	"strings"
	"testing"

	"enplace"
)

// What says which packages are there runs beside their code: what they have it say is bounded, and is text.
func falseFindings(t *testing.T, l *lab) {
	p := l.person("quinn")
	build := func(name, startup string) (enplace.Environment, enplace.Build) {
		e, b, _ := l.build(t, p, name, map[string]string{
			"requirements.txt":       "./hostile\n",
			"hostile/pyproject.toml": "[project]\nname = \"hostile\"\nversion = \"1.0\"\n[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n",
			"hostile/backend.py":     strings.Replace(backend, "STARTUP", startup, 1),
		}, enplace.UpdateEnvironment{})
		return e, b
	}
	// It goes on behind the line that it prints only where it is asked for a version.
	_, b := build("Talkative", `import sys; sys.stdout.write('9' * (30 << 20))`)
	if b.Status != enplace.BuildFailed || b.Error == nil || len(b.Error.Message) > 1000 {
		t.Errorf("%.1000v", b)
	}
	e, b := build("Lying", `import sys, os, json; "-I" in sys.orig_argv and (sys.stdout.write(json.dumps({"python": "3\\x1b[31m" + "9" * 100000, "distributions": [{"name": "a\\n" * 1000, "version": "v" * 100000, "tags": [], "url": "u"}], "caches": ["../../x", "hf" * 1000]})), sys.stdout.flush(), os._exit(0))`)
	if b.Status != enplace.BuildSucceeded {
		t.Fatalf("%.1000v", b)
	}
	v, err := p.Version(t.Context(), e.ID, 1)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(v)
	if err != nil || len(text) > 20_000 || strings.Contains(string(text), "u001b") || strings.Contains(string(text), "../../x") {
		t.Errorf("%d bytes: %.2000s, %v", len(text), text, err)
	}
}

const backend = `def build_wheel(to, config_settings=None, metadata_directory=None):
    import zipfile
    name = "hostile-1.0-py3-none-any.whl"
    with zipfile.ZipFile(to + "/" + name, "w") as z:
        z.writestr("hostile-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: hostile\nVersion: 1.0\n")
        z.writestr("hostile-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("hostile-1.0.dist-info/RECORD", "")
        z.writestr("hostile.pth", """STARTUP\n""")
    return name
`
