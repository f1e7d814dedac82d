package provision

import (
	"strings"
	"testing"
	"time"

	"enplace"
)

const ghTool = "github:own/tool"

// A set is installed from GitHub, and then on other computers: without asking its API anything, with the same bytes.
func TestCase12RateLimits(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	item := newItem(org, "gh", tools+"\""+ghTool+"\" = \"latest\"\n\"github:own/other\" = { version = \"1.0\", bin = \"other\" }\n", "")
	// known gives a job what the bundle of the set knows.
	known := func(j Job, r Result) Job {
		j.Versions, j.Sources = Versions(r.Items), SourcesOf(r.Items)
		return j
	}
	var first Result
	t.Run("FirstInstallation", func(t *testing.T) {
		b := hub.house.start(t, "case12-first", enplace.EgressOpen, 1024)
		first = b.apply(b.job(item))
		first.stands(t, installed)
		for _, tool := range first.Items[0].Tools {
			if from := tool.Source; from == nil || !strings.HasPrefix(from.URL, "https://github.com/own/") || !strings.Contains(from.Checksum, ":") {
				t.Fatalf("of %s it is known that it is from %+v", tool.Name, from)
			}
		}
		b.says("tool; other", "tool 1.1.0\nother 1.0.0")
		if hub.requests() == 0 {
			t.Error("the API was not asked, so this test shows nothing")
		}
		if told := hub.toldVersions(); len(told) > 0 {
			t.Errorf("mise's host of versions learns which repositories an item names: %q", told)
		}
	})
	t.Run("Limited", func(t *testing.T) {
		reset := time.Now().Add(20 * time.Minute).Truncate(time.Second)
		hub.limit(reset)
		b := hub.house.start(t, "case12-limited", enplace.EgressOpen, 1024)
		r := b.apply(b.job(item))
		r.stands(t, failed)
		has(t, r.Items[0].Error, "rate limited until "+reset.UTC().Format("15:04")+" UTC")
		if r.Limited < 15*time.Minute || r.Limited > 20*time.Minute {
			t.Errorf("it is limited for %s", r.Limited)
		}
		if log := b.log.String(); !strings.Contains(log, "attempt 1 failed") || strings.Contains(log, "attempt 2 failed") {
			t.Errorf("mise asks again and again: %s", log)
		}
	})
	t.Run("RepeatedWithoutTheAPI", func(t *testing.T) {
		hub.limit(time.Now().Add(20 * time.Minute))
		b := hub.house.start(t, "case12-repeated", enplace.EgressOpen, 1024)
		b.apply(known(b.job(item), first)).stands(t, installed)
		b.says("tool; other", "tool 1.1.0\nother 1.0.0")
		if n := hub.requests(); n != 0 {
			t.Errorf("the API was asked %d times", n)
		}
	})
	t.Run("ChangedBytes", func(t *testing.T) {
		hub.limit(time.Time{})
		hub.set(func() { hub.changed = true })
		defer hub.set(func() { hub.changed = false })
		b := hub.house.start(t, "case12-changed", enplace.EgressOpen, 1024)
		r := b.apply(known(b.job(item), first))
		r.stands(t, failed)
		has(t, r.Items[0].Error, ghTool+" could not be installed: what is fetched is no longer what its first installation gave")
		if out, code := b.sh("tool"); code != 127 {
			t.Errorf("status %d, %q", code, out)
		}
	})
	t.Run("Token", func(t *testing.T) { testToken(t, hub) })
}

// spy looks for the token wherever root of a box can: in its own environment, in every process's, and in all files.
const spy = `set +e
{ env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; } 2>/dev/null | tr '\0' '\n' | grep -a "hub_secre[t]" >>/root/found
find / -xdev -name "*hub_secre[t]*" >>/root/found
grep -rlsa "hub_secre[t]" / --exclude-dir=proc --exclude-dir=sys --exclude-dir=dev --exclude=setup.sh --exclude=found >>/root/found
echo looked >>/root/found
exit 0
`

// testToken installs a set with a token while the API refuses whoever has none, and looks who got hold of it.
func testToken(t *testing.T, hub *hub) {
	const token = "hub_secret_0123456789abcdef"
	hub.limit(time.Now().Add(20 * time.Minute))
	s := newShop(t)
	b := hub.house.start(t, "case12-token", enplace.EgressOpen, 2048)
	early := newItem(org, "a-early", "", spy)
	gh := newItem(org, "gh", tools+"\""+ghTool+"\" = \"latest\"\n"+"\"github:other/host\" = { version = \"1.0\", api_url = \""+s.url+"\" }\n"+
		"\"npm:semver\" = \"7\"\n[env]\nSOME = \"thing\"\n", "")
	script := newItem(person, "script", "", spy+"tool\n")
	own := newItem(person, "own", tools+"\"github:own/mine\" = \"latest\"\n", "")
	j := b.job(early, gh, own, script)
	j.Token = token
	r := b.apply(j)
	r.stands(t, installed, failed, failed, installed) // neither the one that lies elsewhere nor a person's own is fetched with it
	has(t, r.Items[2].Error, "github:own/mine could not be installed: rate limited until")
	has(t, r.Items[1].Error, "github:other/host could not be installed")
	b.says("tool; semver 1.2.3; cat /root/found", "tool 1.1.0\n1.2.3\nlooked\nlooked")
	if strings.Contains(b.log.String(), "hub_secret") {
		t.Errorf("the log has the token: %s", b.log.String())
	}
	sent := hub.sent()
	for path, login := range sent {
		if login != "Bearer "+token || !strings.HasPrefix(path, "api.github.com/repos/own/tool/") {
			t.Errorf("%q was sent to %s", login, path)
		}
	}
	if len(sent) == 0 {
		t.Error("the token was not used")
	}
	s.set(func() {
		if s.asked == 0 || s.authorized {
			t.Errorf("the other host was asked %d times, with the token: %v", s.asked, s.authorized)
		}
	})
	// Where something has run already, nothing is given.
	b.sh("rm -rf /opt/mise/installs/github-own-tool")
	j = b.job(gh)
	j.Token = token
	b.apply(j).stands(t, failed)
	if again := hub.sent(); len(again) != 0 {
		t.Errorf("a box that was used was given the token: %v", again)
	}
}
