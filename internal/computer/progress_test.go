package computer

import (
	"slices"
	"testing"
	"time"

	"enplace"
)

// Of two changes between two looks only the later was told, and one that came right before the end not at all: a command that
// waited for greet was not always told that it was installed.
func TestProgressThatComesFastIsToldWhole(t *testing.T) {
	t.Parallel()
	m := newMachine(&Service{}, "person:ann")
	j := &job{done: make(chan struct{})}
	for _, x := range []struct {
		key    string
		status enplace.ItemStatus
	}{
		{"there", enplace.ItemInstalled}, // from before: no news
		{"greet", enplace.ItemInstalling},
		{"greet", enplace.ItemInstalling}, // with another tool of it
		{"greet", enplace.ItemInstalled},
		{"broken", enplace.ItemInstalling},
		{"broken", enplace.ItemFailed},
	} {
		j.say(enplace.InstalledItem{Key: x.key, Scope: enplace.Organisation, Status: x.status})
	}
	close(j.done)
	var told []string
	ended, err := m.await(t.Context(), "hash", j, time.Minute, func(line string) error {
		told = append(told, line)
		return nil
	})
	want := []string{
		"greet of organisation: installing", "greet of organisation: installed", "broken of organisation: installing", "broken of organisation: failed",
	}
	if err != nil || !ended || !slices.Equal(told, want) {
		t.Errorf("told %q, ended %t, %v", told, ended, err)
	}
}

// The end of one let installations begin under the other, and start a computer again that was to stop.
func TestStopAndResetAtOnceBothKeepInstallationsOut(t *testing.T) {
	t.Parallel()
	m := newMachine(&Service{}, "person:ann")
	first, err := m.quiet(t.Context(), errHalted)
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan func())
	go func() {
		release, _ := m.quiet(t.Context(), errReset)
		second <- release
	}()
	for began := false; !began; {
		m.mu.Lock()
		began = m.endings == 2
		m.mu.Unlock()
	}
	first()
	release := <-second
	if m.ending == nil {
		t.Error("an installation may begin while the computer is reset")
	}
	release()
	if m.ending != nil {
		t.Errorf("none may begin afterwards: %v", m.ending)
	}
}
