package realtest

import (
	"strings"
	"testing"

	"enplace"
)

// A package that asks questions (case 30), one that starts a service (case 37), and one that is there already.
func TestCase30And37PackagesThatAskAndThatStartServices(t *testing.T) {
	t.Parallel()
	e := newEnv(t, enplace.CreateEnvironment{Name: "System", Packages: &enplace.Packages{Apt: []string{"keyboard-configuration", "openssh-server", "git", "jq"}}}, nil)
	b, log := e.build()
	m := e.manifest(b)
	everyHash(t, m)
	if p := resolved(t, m, enplace.Apt, "jq"); !p.Direct || !strings.HasPrefix(p.Hash, "sha256:") {
		t.Errorf("jq: %+v", p)
	}
	if strings.Contains(log, "left processes running") {
		t.Error("a service was started")
	}
	task := e.task()
	want(t, e.run(task, "echo '{\"a\": 1}' | jq .a"), "1")
	want(t, e.run(task, "sshd -V 2>&1 || true; dpkg -s openssh-server | grep Status"), "install ok installed")
	if code, out := e.try(task, "grep -l sshd /proc/[0-9]*/comm"); code == 0 {
		t.Errorf("a service runs in tasks: %s", out)
	}
	// What apt can do without is not there, and what tasks need of dpkg's state is.
	if got := e.run(task, "ls /var/lib/apt/lists /var/cache/apt/archives 2>/dev/null | grep -c deb || true"); got != "0" {
		t.Errorf("%s lists and archives of apt", got)
	}
}

func TestCase31VersionsThatAreNotInTheArchive(t *testing.T) {
	t.Parallel()
	// The registries are asked when a package is declared; what passes there can vanish before the build.
	e := newEnv(t, enplace.CreateEnvironment{Name: "Vanished"}, nil)
	for _, entry := range []string{"git=1:2.30.2-1ubuntu1", "mail-transport-agent", "nosuchpackage-at-all"} {
		_, err := e.srv.Client.UpdateEnvironment(t.Context(), e.ID, enplace.UpdateEnvironment{Packages: &enplace.PackageLists{Apt: &[]string{entry}}})
		if enplace.KindOf(err) != enplace.KindInvalid {
			t.Errorf("%s: %v", entry, err)
		}
	}
	for _, entry := range []string{"python3.11*", "git-", "git/stable", "-o=x", "./a.deb", "git+"} {
		_, err := e.srv.Client.UpdateEnvironment(t.Context(), e.ID, enplace.UpdateEnvironment{Packages: &enplace.PackageLists{Apt: &[]string{entry}}})
		if enplace.KindOf(err) != enplace.KindInvalid {
			t.Errorf("%s: %v", entry, err)
		}
	}
}
