package faulttest

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"enplace"
	"enplace/enplacetest"
)

// TestDeleteBesideABuild deletes an environment whose build is in the middle of a command. The build stops, and neither its log
// nor its downloads stay behind.
func TestDeleteBesideABuild(t *testing.T) {
	t.Parallel()
	srv := enplacetest.Start(t)
	ctx := t.Context()
	e, err := srv.Client.CreateEnvironment(ctx, enplace.CreateEnvironment{Name: "Short Lived", Check: []string{"sleep", "600"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := srv.Client.PutFile(ctx, e.ID, "pyproject.toml", strings.NewReader("[project]\nname = \"x\"\nversion = \"1\"\n"), false); err != nil {
		t.Fatal(err)
	}
	b, err := srv.Client.StartBuild(ctx, e.ID)
	if err != nil {
		t.Fatal(err)
	}
	log := &seen{text: "$ sleep 600", yes: make(chan struct{})}
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		_, _ = srv.Client.FollowBuildLog(ctx, e.ID, b.N, log) // how it ends when the build is gone is not the matter here
	}()
	select {
	case <-log.yes:
	case <-followed:
		t.Fatal("the build ended before its check")
	}
	if err := srv.Client.DeleteEnvironment(ctx, e.ID); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"logs/builds/*", "sandboxes/caches/*"} {
		if left, err := filepath.Glob(filepath.Join(srv.Data, pattern)); err != nil || len(left) > 0 {
			t.Errorf("%v is left, %v", left, err)
		}
	}
	if builds := buildSandboxes(t, srv.Data); len(builds) > 0 {
		t.Errorf("sandboxes of the build are left: %v", builds)
	}
}

// seen closes yes once what is written to it holds the text.
type seen struct {
	text string
	all  strings.Builder
	yes  chan struct{}
	once sync.Once
}

func (s *seen) Write(p []byte) (int, error) {
	s.all.Write(p)
	if strings.Contains(s.all.String(), s.text) {
		s.once.Do(func() { close(s.yes) })
	}
	return len(p), nil
}

// buildSandboxes gives the folders of sandboxes that a build owns.
func buildSandboxes(t *testing.T, data string) (found []string) {
	t.Helper()
	owners, err := filepath.Glob(filepath.Join(data, "sandboxes", "*", "*", "owner.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range owners {
		if text, err := os.ReadFile(o); err == nil && strings.Contains(string(text), "build_") {
			found = append(found, o)
		}
	}
	return found
}
