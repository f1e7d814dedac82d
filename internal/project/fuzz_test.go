package project

import (
	"os"
	"path"
	"strings"
	"testing"
)

// A requirements file names files by clean paths, each no longer than the file.
func FuzzRequirementRefs(f *testing.F) {
	for _, s := range []string{"-r a.txt", "-c ../b.txt\n", "--requirement=c.txt", "-rd.txt", "-r ''", "-r", "-e .", "x @ file:///x", "-r /etc/passwd", "-r \x00", "-r ../../../../x", strings.Repeat("-r a\n", 100)} {
		f.Add("sub/requirements.txt", s)
	}
	f.Fuzz(func(t *testing.T, file, text string) {
		more, _ := requirementRefs(file, text)
		if len(more) > strings.Count(text, "\n")+1 {
			t.Errorf("%d files of %d lines", len(more), strings.Count(text, "\n")+1)
		}
		for _, m := range more {
			if path.Clean(m) != m {
				t.Errorf("%q names %q", text, m)
			}
		}
	})
}

// Whatever the dependency files of a project hold, reading them ends with a rule or with an error, and what is read is the tree's.
func FuzzReadPython(f *testing.F) {
	f.Add("[project]\nname = \"x\"\ndependencies = [\"a\"]\n", "-r requirements.txt\n", "[[package]]\nname = \"x\"\n")
	f.Add("[tool.poetry.dependencies]\npython = \"^3.11\"\n", "-r ../x\n${TOKEN}\n", "")
	f.Add("[tool.poetry]\ngroup = 1\n", "", "path = ")
	f.Add("[build-system]\nrequires = 1\n", "-e .", "\x00")
	if _, err := os.Stat("/dev/shm"); err == nil {
		f.Setenv("TMPDIR", "/dev/shm") // blobs are synced to the disk, and there is none to wait for
	}
	blobs := openBlobs(f)
	f.Fuzz(func(t *testing.T, pyproject, requirements, lock string) {
		p := planIn(t, blobs, map[string]string{"pyproject.toml": pyproject, "requirements.txt": requirements, "uv.lock": lock, "poetry.lock": lock})
		r, err := p.readPython(t.Context())
		if err != nil {
			return
		}
		for _, name := range r.Requirements {
			if !p.isFile(name) {
				t.Errorf("%q is to be installed and is not in the tree", name)
			}
		}
	})
}
