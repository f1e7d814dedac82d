package computer_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"enplace"
	"enplace/internal/sandbox"
	"enplace/internal/store"
	"enplace/internal/toolchain/toolchaintest"
)

// A second computer starts from the bundle that the first use had built: with the same tools in the same versions, and with what
// scripts left outside of the tools' folder, none of which runs again.
func TestBundle(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.Attach("organisation", "org", toolchaintest.Item("tool", "", "[tools]\n\"npm:semver\" = \"7\"\n").
		With(toolchaintest.Item("script", runs+"echo x >/etc/foo; mkdir -p /root/.cache/models; echo m >/root/.cache/models/m\n", "")))
	h.exec(h.Direct("ann"), "semver 1.2.3; cat /root/runs").want("1.2.3\nrun").notices()
	hash := h.state("with-ann").Hash
	for _, i := range h.state("with-ann").Items {
		if i.Obtained != enplace.FromDirect {
			t.Errorf("%s of the first computer came by %s", i.Key, i.Obtained)
		}
	}
	bundle, err := h.Toolchain.WaitBundle(t.Context(), operator, hash, patience)
	check(t, err)
	if bundle.Status != enplace.BundleReady || bundle.Image == "" || len(bundle.Items) != 2 {
		t.Fatalf("%+v", bundle)
	}
	exact := bundle.Items[1].Tools[0].Resolved
	if strings.Count(exact, ".") != 2 {
		t.Errorf("the bundle has %q of semver", exact)
	}

	h.exec(h.Direct("bob"), "semver 1.2.4; cat /root/runs /etc/foo /root/.cache/models/m").want("1.2.4\nrun\nx\nm").notices()
	state := h.state("with-bob")
	if state.Hash != hash || state.AppliedAt == nil {
		t.Errorf("%+v", state)
	}
	for _, i := range state.Items {
		if i.Obtained != enplace.FromBundle || i.Status != enplace.ItemInstalled {
			t.Errorf("%s of the second computer: %s by %s", i.Key, i.Status, i.Obtained)
		}
	}
	if got := state.Items[slices.IndexFunc(state.Items, func(i enplace.ComputerItem) bool { return i.Key == "tool" })].Tools[0].Resolved; got != exact {
		t.Errorf("semver is %s on the computer and %s in the bundle", got, exact)
	}
	explained, err := h.computers.Explain(t.Context(), operator, "with-bob")
	check(t, err)
	if x := explained.Tools[0]; x.Resolved != exact || x.Item != "tool" || x.Scope != "organisation" || x.File != "environments/tool/mise.toml" || x.Line != 2 {
		t.Errorf("%+v", x)
	}

	// A further set has those items from the bundle still.
	h.Attach("person:bob", "own", toolchaintest.Item("own", "true\n", ""))
	h.exec("with-bob", "cat /root/runs").want("run").notices()
	for _, i := range h.state("with-bob").Items {
		if (i.Obtained == enplace.FromBundle) != (i.Scope == enplace.Organisation) {
			t.Errorf("%s of the further set came by %s", i.Key, i.Obtained)
		}
	}

	t.Run("Case42WhatIsGoneIsInstalled", func(t *testing.T) { h.part(t, func(h *house) { testGone(h, hash) }) })
	t.Run("Case42ImageThatCannotBeUsed", func(t *testing.T) { h.part(t, func(h *house) { testNoImage(h, hash) }) })
}

// testGone takes a program away after the bundle was restored, and before it was verified.
func testGone(h *house, hash string) {
	set, err := h.Store.Set(h.Context(), hash)
	check(h.T, err)
	with := h.Direct("cid")
	restored := enplace.ComputerSet{Hash: hash}
	for _, i := range set.Bundle.Items {
		restored.Items = append(restored.Items, enplace.ComputerItem{InstalledItem: i, Obtained: enplace.FromBundle})
	}
	rec := store.ComputerRecord{Root: []enplace.Digest{set.Base, set.Bundle.Image}, Home: enplace.NewChain("", "cid"),
		Computer: enplace.Computer{ID: "person:cid", Base: set.Base, Bundle: set.Bundle.Image, Limits: enplace.DefaultComputerLimits, Sets: []enplace.ComputerSet{restored}}}
	check(h.T, h.Store.CreateComputer(h.Context(), rec))
	box, err := h.Runtime.Start(h.Context(), sandbox.Spec{ID: "computer_person_cid", Durable: "computer_person_cid", Root: rec.Root, Limits: rec.Limits, Egress: set.Egress})
	check(h.T, err)
	if !inside(h, "computer_person_cid", "f=$(find /opt/mise/installs/ -name semver -path '*bin/semver') && [ -n \"$f\" ] && rm $f") {
		h.Fatal("there is no program to take away")
	}
	check(h.T, box.Stop(h.Context()))
	h.exec(with, "semver 1.2.5; cat /root/runs").want("1.2.5\nrun").notices()
	for _, i := range h.state(with).Items {
		if (i.Obtained == enplace.FromDirect) != (i.Key == "tool") {
			h.Errorf("%s came by %s", i.Key, i.Obtained)
		}
	}
}

func testNoImage(h *house, hash string) {
	_, err := h.Store.UpdateSet(h.Context(), hash, func(r *store.SetRecord) error {
		r.Bundle.Image = enplace.DigestOf([]byte("no image"))
		return nil
	})
	check(h.T, err)
	h.restart()
	h.exec(h.Direct("dan"), "semver 1.2.6; cat /root/runs").want("1.2.6\nrun").notices()
	if rec := h.record("person:dan"); rec.Bundle != "" || len(rec.Root) != 1 || rec.Sets[0].Items[0].Obtained != enplace.FromDirect {
		h.Errorf("%+v", rec)
	}
}

func TestEgress(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	held := make(chan struct{})
	l, err := net.Listen("tcp", toolchaintest.Address)
	check(t, err)
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begin\n")
		if r.URL.Path == "/held" {
			_ = http.NewResponseController(w).Flush()
			<-held
		}
		_, _ = io.WriteString(w, "end\n")
	})}}
	server.Start()
	defer server.Close()
	get := func(path string) string { return fmt.Sprintf("curl -sN --max-time 120 %s%s", server.URL, path) }

	for team, policy := range map[string]enplace.Egress{"open": {Policy: enplace.EgressOpen}, "shut": {Policy: enplace.EgressNone}} {
		_, err := h.Toolchain.PutTeam(t.Context(), operator, team, enplace.PutTeam{People: []string{"ann"}})
		check(t, err)
		check(t, h.Toolchain.PutEgress(t.Context(), operator, enplace.TeamScope(team), &policy))
		_, err = h.Toolchain.PutConversation(t.Context(), operator, team, enplace.PutConversation{Kind: enplace.ConversationDirect, Person: "ann", Team: team})
		check(t, err)
	}
	h.Attach("person:ann", "own", toolchaintest.Item("own", runs, ""))
	h.exec("open", get("/")).want("begin\nend")
	shut := h.exec("shut", get("/")+"; cat /root/runs").notices()
	if strings.Contains(shut.Stdout, "begin") || !strings.Contains(shut.Stdout, "run") {
		t.Errorf("a conversation without a network got %q", shut.Stdout)
	}
	set, err := h.computers.Set(t.Context(), operator, "shut")
	check(t, err)
	if set.Bundle.Status != enplace.BundleNotPrepared || !strings.Contains(set.Bundle.Reason, "restricted") {
		t.Errorf("%+v", set.Bundle)
	}

	// A command keeps its connections when another of the same policy begins, and loses them when a stricter one does.
	for _, x := range []struct {
		second, want string
	}{{"open", "begin\nend"}, {"shut", "begin"}} {
		began, over := make(chan struct{}), make(chan outcome)
		go func() {
			o := outcome{t: t}
			res, err := h.computers.Exec(t.Context(), operator, "open", enplace.ConversationExec{ExecRequest: shell(get("/held"), 0)}, func(e enplace.ConversationEvent) error {
				if o.Stdout == "" {
					close(began)
				}
				o.Stdout += e.Data
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			o.ExitCode = res.ExitCode
			over <- o
		}()
		<-began
		h.exec(x.second, "true").want("")
		if x.second == "open" {
			held <- struct{}{}
		}
		if o := <-over; strings.TrimSpace(o.Stdout) != x.want {
			t.Errorf("beside a command of %s: %q, want %q", x.second, o.Stdout, x.want)
		}
	}
	close(held)
	h.exec("open", get("/")).want("begin\nend")
}
