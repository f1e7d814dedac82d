package seal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"enplace"
	"enplace/internal/seal"
)

func open(t *testing.T, path string) *seal.Sealer {
	t.Helper()
	s, err := seal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSealedValuesOpenWithTheirKeyAndNameAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	s := open(t, path)
	sealed := s.Seal("organisation TOKEN", "a value")
	if bytes.Contains(sealed, []byte("a value")) {
		t.Error("the value stands in what was sealed")
	}
	if bytes.Equal(sealed, s.Seal("organisation TOKEN", "a value")) {
		t.Error("two seals of one value are the same, so equal values show")
	}
	if got, err := open(t, path).Open("organisation TOKEN", sealed); err != nil || got != "a value" {
		t.Errorf("opened by the next process: %q, %v", got, err)
	}
	for what, try := range map[string]func() (string, error){
		"another name": func() (string, error) { return s.Open("person:eve TOKEN", sealed) },
		"another key": func() (string, error) {
			return open(t, filepath.Join(t.TempDir(), "key")).Open("organisation TOKEN", sealed)
		},
		"a flipped bit": func() (string, error) {
			other := bytes.Clone(sealed)
			other[len(other)-1] ^= 1
			return s.Open("organisation TOKEN", other)
		},
		"nothing": func() (string, error) { return s.Open("organisation TOKEN", nil) },
	} {
		if got, err := try(); enplace.KindOf(err) != enplace.KindUnavailable || got != "" {
			t.Errorf("with %s: %q, %v", what, got, err)
		}
	}
}

func TestKeyFilesThatAreNone(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(path string) error{
		"short":             func(path string) error { return os.WriteFile(path, []byte("short"), 0o600) },
		"read by the group": func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte{1}, 32), 0o640) },
	} {
		path := filepath.Join(t.TempDir(), "key")
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, map[string]os.FileMode{"short": 0o600, "read by the group": 0o640}[name]); err != nil {
			t.Fatal(err)
		}
		if _, err := seal.Open(path); enplace.KindOf(err) != enplace.KindUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}
