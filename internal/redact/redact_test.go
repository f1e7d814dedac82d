package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"enplace/internal/redact"
)

// secrets are made up, and taken apart lest a scanner of this repository stumbles over them.
const (
	ghp = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
	npm = "npm_" + "abcdefghijklmnopqrstuvwxyz0123456789"
	jwt = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0" + ".dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
	aws = "AKIA" + "IOSFODNN7EXAMPLE"
)

func TestGeneralPatterns(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		// URLs
		"fatal: unable to access 'https://user:SECRET@host/x.git/'": "fatal: unable to access 'https://user:[redacted]@host/x.git/'",
		"https://user:p@ss@host/":                                   "https://user:[redacted]@host/",
		"https://:only@host/":                                       "https://:[redacted]@host/",
		"https://0123456789abcdef@host/":                            "https://[redacted]@host/",
		"https://sometoken12345:@host/":                             "https://[redacted]@host/",
		"https://sometoken12345:x-oauth-basic@host/":                "https://[redacted]@host/",
		"ssh://git@host/x.git":                                      "ssh://git@host/x.git",
		"https://registry.npmjs.org/@types/node":                    "https://registry.npmjs.org/@types/node",
		"https://host:8080/a?b=c@d":                                 "https://host:8080/a?b=c@d",
		"postgres://u:pw1@a/x and redis://:pw2@b":                   "postgres://u:[redacted]@a/x and redis://:[redacted]@b",
		// headers
		"Authorization: Bearer abc.def-123":          "Authorization: Bearer [redacted]",
		"> authorization: Basic dXNlcjpwYXNz\r":      "> authorization: Basic [redacted]\r",
		`-H "Authorization: token abcdef" https://x`: `-H "Authorization: token [redacted]" https://x`,
		`{"Authorization": "Bearer abcdef", "a": 1}`: `{"Authorization": "Bearer [redacted]", "a": 1}`,
		"Proxy-Authorization: Basic dXNlcjpwYXNz":    "Proxy-Authorization: Basic [redacted]",
		"sent bearer 0123456789abcdefXYZ==, got 401": "sent bearer [redacted] got 401",
		"PRIVATE-TOKEN: abcdef":                      "PRIVATE-TOKEN: [redacted]",
		"the authorization failed":                   "the authorization failed",
		// values
		"GET /x?token=abc123&b=1 200":                  "GET /x?token=[redacted]&b=1 200",
		"PGPASSWORD=hunter2 psql":                      "PGPASSWORD=[redacted] psql",
		`password="two words" next`:                    `password="[redacted]" next`,
		`{"client_secret": "ab\"cd", "id": "7"}`:       `{"client_secret": "[redacted]", "id": "7"}`,
		"//registry.npmjs.org/:_authToken=abcdef":      "//registry.npmjs.org/:_authToken=[redacted]",
		"?X-Amz-Signature=deadbeef&x=1":                "?X-Amz-Signature=[redacted]&x=1",
		"token=$TOKEN password=*** secret={{ x }}":     "token=$TOKEN password=*** secret={{ x }}",
		"def f(token=None, password=''): max_tokens=5": "def f(token=None, password=''): max_tokens=5",
		"Enter password: ":                             "Enter password: ",
		"if token == other":                            "if token == other",
		// shapes
		"using " + ghp + ".": "using [redacted].",
		"%20" + ghp:          "%20[redacted]",
		npm + " npm_config_registry=x npm_package": "[redacted] npm_config_registry=x npm_package",
		"jwt " + jwt + " end":                      "jwt [redacted] end",
		`\n` + jwt:                                 `\n[redacted]`,
		aws + " " + aws + "X":                      "[redacted] " + aws + "X",
		"sk-" + "ant-api03-abcdefghijklmnop-012":   "[redacted]",
		"disk-usage-of-something-long-0123":        "disk-usage-of-something-long-0123",
		"sk-learn-contrib-something-long":          "sk-learn-contrib-something-long",
		"enp_" + "0123456789abcdefghjkmnpq":        "[redacted]",
		"pypi-" + strings.Repeat("Ag1_", 12):       "[redacted]",
		"xoxb-" + "1234567890-abc":                 "[redacted]",
	} {
		if got := string(redact.New().Bytes([]byte(in))); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

func TestKnownValuesInEverySpelling(t *testing.T) {
	t.Parallel()
	secret := `pä$s'w"o\rd/+ &<x>😀`
	shell := func(script string) string {
		out, err := exec.Command("bash", "-c", script, "sh", secret).CombinedOutput()
		if err != nil {
			t.Fatalf("bash: %v", err)
		}
		return string(out)
	}
	python := func(expression string) string {
		out, err := exec.Command("python3", "-c", "import html, json, shlex, sys, urllib.parse\ns = sys.argv[1]\nprint("+expression+", end='')", secret).CombinedOutput()
		if err != nil {
			t.Fatalf("python3: %v", err)
		}
		return string(out)
	}
	marshalled, _ := json.Marshal(map[string]string{"v": secret})
	spellings := map[string]string{
		"exact":         secret,
		"query":         url.QueryEscape(secret),
		"query, small":  strings.ToLower(url.QueryEscape(secret)),
		"path":          url.PathEscape(secret),
		"userinfo":      url.UserPassword("me", secret).String(),
		"JSON":          string(marshalled),
		"JSON, plain":   fmt.Sprintf("%q", secret),
		"printf %q":     shell(`LC_ALL=C.UTF-8 printf %q "$1"`),
		"set -x":        shell(`set -x; : "$1"`),
		"double quotes": shell(`printf '%s' "${1@Q}"`),
		"ASCII alone":   shell(`LC_ALL=C printf %q "$1"`),
		"hexadecimal":   fmt.Sprintf("%x", secret),
		"capitals":      fmt.Sprintf("%X", secret),
		"HTML":          html.EscapeString(secret),
		"Python":        python(`urllib.parse.quote(s)`),
		"Python, all":   python(`urllib.parse.quote(s, safe="")`),
		"Python, form":  python(`urllib.parse.quote_plus(s)`),
		"Python, repr":  python(`repr(s)`),
		"Python, shell": python(`shlex.quote(s)`),
		"Python, JSON":  python(`json.dumps(s)`),
		"Python, HTML":  python(`html.escape(s)`),
		"Python, XML":   python(`html.escape(s, quote=False)`),
	}
	for before := range 6 {
		spellings[fmt.Sprint("base64 behind ", before)] = base64.StdEncoding.EncodeToString([]byte("user:"[:min(before, 5)] + secret + "\n"))
		spellings[fmt.Sprint("URL base64 behind ", before)] = base64.URLEncoding.EncodeToString([]byte("user:"[:min(before, 5)] + secret + "!!"))
	}
	r := redact.New("other secret", secret)
	for name, s := range spellings {
		got := string(r.Bytes([]byte("before " + s + " after")))
		if !strings.Contains(got, "[redacted]") || strings.Contains(got, "w\"o") || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
			t.Errorf("%s: %s\n gives %s", name, s, got)
		}
		if strings.HasPrefix(name, "base64") && len(got) > len("before  after")+len("[redacted]")+16 {
			t.Errorf("%s leaves much: %s", name, got)
		}
	}
}

func TestShortValuesAreIgnoredAndLongerOnesWin(t *testing.T) {
	t.Parallel()
	r := redact.New("abc", "", "secret-1", "secret-1-and-more", "re-and-xyz")
	for in, want := range map[string]string{
		"abc":                                "abc",
		"secret-1":                           "[redacted]",
		"secret-1-and-more!":                 "[redacted]!",
		"secret-1-and-more-and":              "[redacted]-and",
		"secret-1-and-more-and-xyz secret-1": "[redacted] [redacted]", // two that overlap
	} {
		if got := string(r.Bytes([]byte(in))); got != want {
			t.Errorf("%s gives %s, want %s", in, got, want)
		}
	}
}

const pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7\nabcdefgh+/12\nQ==\n-----END RSA PRIVATE KEY-----"

func TestPrivateKeys(t *testing.T) {
	t.Parallel()
	r := redact.New()
	if got := string(r.Bytes([]byte("a\n" + pem + "\nb"))); got != "a\n[redacted]\nb" {
		t.Errorf("whole: %q", got)
	}
	if got := string(r.Bytes([]byte("-----BEGIN PRIVATE KEY-----\nMIIEpAIB\nand then words"))); got != "[redacted]\nand then words" {
		t.Errorf("without an end: %q", got)
	}
	if got := string(r.Bytes([]byte(`{"key":"` + strings.ReplaceAll(pem, "\n", `\n`) + `"}`))); got != `{"key":"[redacted]"}` {
		t.Errorf("JSON: %q", got)
	}
	if got := string(r.Bytes([]byte("-----BEGIN CERTIFICATE-----\nMIIEpAIB"))); got != "-----BEGIN CERTIFICATE-----\nMIIEpAIB" {
		t.Errorf("certificate: %q", got)
	}
	lines := r.Lines()
	var got []string
	for line := range strings.SplitSeq("a\n"+pem+"\nMIIEpAIB\nb", "\n") {
		got = append(got, string(lines([]byte(line))))
	}
	if want := "a|[redacted]|[redacted]|[redacted]|[redacted]|[redacted]|MIIEpAIB|b"; strings.Join(got, "|") != want {
		t.Errorf("lines: %q", got)
	}
}

// A value of several lines reaches the log line by line.
func TestValueOfSeveralLines(t *testing.T) {
	t.Parallel()
	r := redact.New("first line\nsecond line\n")
	if got := string(r.Bytes([]byte("x second line y"))); got != "x [redacted] y" {
		t.Error(got)
	}
}

func TestNothingToHideAllocatesNothing(t *testing.T) {
	r := redact.New("a known secret")
	log := ordinary(1 << 16)
	if n := testing.AllocsPerRun(10, func() { r.Bytes(log) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if got := r.Bytes(log); &got[0] != &log[0] {
		t.Error("not the same bytes")
	}
}

func ordinary(n int) []byte {
	line := "Get:7 http://deb.debian.org/debian bookworm/main amd64 libpython3.11-stdlib amd64 3.11.2-6 [1796 kB] passes the token test, secretly\n"
	return bytes.Repeat([]byte(line), n/len(line)+1)[:n]
}

// No known value comes through, be it in one piece or line by line.
func FuzzRedactor(f *testing.F) {
	f.Add([]byte("https://u:p@h token=x " + ghp + " a-known-secret\n" + pem))
	f.Add([]byte(`Authorization: "x Authorization: y z`))
	r := redact.New("a-known-secret")
	f.Fuzz(func(t *testing.T, in []byte) {
		before := bytes.Clone(in)
		redacted := [][]byte{r.Bytes(in)}
		lines := r.Lines()
		for line := range bytes.SplitSeq(in, []byte("\n")) {
			redacted = append(redacted, lines(line))
		}
		if !bytes.Equal(in, before) {
			t.Fatal("the input was changed")
		}
		for _, out := range redacted {
			if bytes.Contains(out, []byte("a-known-secret")) {
				t.Fatalf("%q", out)
			}
		}
	})
}

func BenchmarkOrdinaryLog(b *testing.B) {
	r := redact.New("a known secret", "another known secret", "and-one-more-of-them")
	log := ordinary(1 << 20)
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	for b.Loop() {
		r.Bytes(log)
	}
}

// Each of these is an anchor over and over: the worst that a line can do.
func BenchmarkHostileLog(b *testing.B) {
	r := redact.New("a known secret")
	for _, s := range []string{"sk-", "eyJ", "authorization:", "token=$", "token='", "://", "bearer ", "-----BEGIN PRIVATE KEY-----", "AKIA", "pypi-", "://a:b@"} {
		b.Run(strings.Trim(s, "-:$/ "), func(b *testing.B) {
			log := bytes.Repeat([]byte(s), (1<<20)/len(s))
			b.SetBytes(int64(len(log)))
			for b.Loop() {
				r.Bytes(log)
			}
		})
	}
}
