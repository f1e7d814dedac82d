package guest

import (
	"errors"
	"strings"
	"testing"

	"enplace"
)

func TestSetupWritesFilesAndLinks(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	b.must(`cd /task; echo victim >victim; ln -s victim link; ln victim second; mkfifo pipe; mkdir empty; ln -s /task old`)
	s := Setup{
		Files: []SetupFile{
			{Path: "/task/new/folder/file", Content: []byte("a\x00b"), Mode: 0o640},
			{Path: "/task/link", Content: []byte("1"), Mode: 0o777},
			{Path: "/task/second", Content: []byte("2"), Mode: 0o600},
			{Path: "/task/pipe", Content: []byte("3"), Mode: 0o600},
			{Path: "/task/large", Content: make([]byte, 12<<20), Mode: 0o600},
		},
		Links: []SetupLink{{"/task/old", "/tmp"}, {"/task/empty", "nowhere"}, {"/task/deep/er", "../victim"}},
	}
	for range 2 { // a second time gives the same
		if err := b.Setup(deadline(t), s); err != nil {
			t.Fatal(err)
		}
	}
	got := b.must(`cd /task; cat victim; stat -c '%F %a' new/folder/file link second pipe; stat -c %s new/folder/file large; readlink old empty deep/er; ls -A | sort | tr '\n' ' '`)
	want := "victim\nregular file 640\nregular file 777\nregular file 600\nregular file 600\n3\n12582912\n/tmp\nnowhere\n../victim\n" +
		"deep empty large link new old pipe second victim "
	if got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

func TestSetupRefuses(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	b.must("cd /task; mkdir full target; touch full/x; ln -s target through; touch file")
	for name, s := range map[string]Setup{
		"a link on the way":          {Files: []SetupFile{{Path: "/task/through/x"}}},
		"a file on the way":          {Files: []SetupFile{{Path: "/task/file/x"}}},
		"a link on a link's way":     {Links: []SetupLink{{"/task/through/x", "y"}}},
		"a file over a full folder":  {Files: []SetupFile{{Path: "/task/full"}}},
		"a link over a full folder":  {Links: []SetupLink{{"/task/full", "y"}}},
		"a path with dots":           {Files: []SetupFile{{Path: "/task/../task/x"}}},
		"a relative path":            {Files: []SetupFile{{Path: "x"}}},
		"the root":                   {Links: []SetupLink{{"/", "x"}}},
		"a mode that is more":        {Files: []SetupFile{{Path: "/task/x", Mode: 0o100644}}},
		"a file in a read only tree": {Files: []SetupFile{{Path: "/env/ro/x"}}},
	} {
		if err := b.Setup(deadline(t), s); err == nil {
			t.Errorf("%s went through", name)
		} else if strings.Contains(name, "way") && enplace.KindOf(err) != enplace.KindConflict {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := b.must("cd /task; ls -A . target full | sort | tr '\n' ' '"); strings.TrimSpace(got) != ".: file full full: target target: through x" {
		t.Errorf("something was left: %s", got)
	}
}

func TestReadOnlyIsProved(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	if err := b.Setup(deadline(t), Setup{ReadOnly: []string{"/env/ro", "/env/ro/a/b/file"}}); err != nil {
		t.Errorf("read only: %v", err)
	}
	for p, at := range map[string]string{"/env/leaky": "/env/leaky/a/b/c", "/task": "/task", "/usr": "/usr", "/env/none": ""} {
		err := b.Setup(deadline(t), Setup{ReadOnly: []string{p}})
		var e *enplace.Error
		if err == nil || at != "" && (!errors.As(err, &e) || e.Field != at) {
			t.Errorf("%s: %v", p, err)
		}
	}
	if out := b.must("ls -A /task /env/leaky/a/b/c"); strings.Contains(out, ".enplace") {
		t.Errorf("a probe was left: %s", out)
	}
}
