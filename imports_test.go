package enplace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// rule says what a package may import, beside the standard library. Arrows point down only: programs, then server, then
// capabilities, then contracts and tools, then the domain. A package imports what is named here and nothing else.
type rule struct {
	why    string
	ours   string // packages of this module, below internal/ unless they are named otherwise; "." is the domain
	others string // modules or packages of others
}

// rules has a line for every package. A package that is new needs one; say why its boundary is there.
var rules = map[string]rule{
	".": {why: "the domain: rules and words that outlive every technology, so the standard library alone"},

	// Programs wire, and are the one place that may know of every part.
	"cmd/enplace": {why: "wires the server and is the command line", ours: ". client base doctor access audit project task toolchain computer plugin seal build clone mcpserver server " +
		"sandbox sandbox/oci store store/sqlite blob blob/dir clock durable image egress pkgindex source redact spelling transcript watch",
		others: "github.com/modelcontextprotocol/go-sdk/mcp github.com/spf13/cobra github.com/spf13/pflag github.com/prometheus/client_golang golang.org/x/crypto golang.org/x/sys golang.org/x/term"},
	"cmd/enplace-guest":  {why: "is in every sandbox: small, and pinned by TestGuestLinks", ours: "guest"},
	"cmd/enplace-shim":   {why: "runs before each command of every tool, so it links next to nothing", ours: "shim"},
	"internal/mcpserver": {why: "an agent's door, which is a client of the API like any other", ours: ". client", others: "github.com/modelcontextprotocol/go-sdk/mcp"},
	"client":             {why: "others import it: the words of the domain and HTTP", ours: "."},
	"enplacetest":        {why: "starts the real programs, for tests outside of this module too: it sees what a user sees", ours: "client", others: "golang.org/x/sys"},
	"bench":              {why: "measures as a client does, against other programs", ours: ". client enplacetest", others: "golang.org/x/sync golang.org/x/sys"},
	"faulttest":          {why: "kills the server and asks as a client what it still knows", ours: ". client enplacetest", others: "golang.org/x/sys"},
	"attacktest":         {why: "attacks through the API, and believes nothing else", ours: ". client enplacetest", others: "golang.org/x/sys"},
	"attacktest/probe":   {why: "runs inside a sandbox that is attacked", others: "golang.org/x/sys"},
	"bench/clock":        {why: "runs inside a sandbox that is measured"},

	// The server translates HTTP for capabilities. The store is there for one thing that belongs to HTTP: the answers that an
	// Idempotency-Key repeats.
	"internal/server": {why: "HTTP in, capabilities out", ours: ". access audit computer project store toolchain transcript",
		others: "github.com/danielgtaylor/huma/v2 github.com/prometheus/client_golang golang.org/x/time"},

	// Capabilities: permission checks and records of change are theirs, and every door leads through them. They know contracts
	// and never an adapter, and not each other.
	"internal/project": {why: "environments: tree, packages, builds into versions",
		ours: ". access audit base blob build clone image pkgindex redact sandbox source store transcript treefs watch", others: "github.com/pelletier/go-toml/v2"},
	"internal/task": {why: "harnesses and tasks",
		ours: ". access audit base blob build command durable image redact sandbox source store transcript watch", others: "golang.org/x/sys"},
	"internal/computer": {why: "durable computers: sets on them, commands, failures and retries",
		ours: ". access audit command provision redact sandbox store transcript watch"},
	"internal/toolchain": {why: "what is declared: people, plugins, items, sets, bundles, the keychain",
		ours: ". access audit base blob clone plugin provision redact sandbox seal source store transcript treefs watch"},
	"internal/access":  {why: "who may do what; keys are records, and their making is recorded", ours: ". audit store"},
	"internal/audit":   {why: "the record of every change; whoever keeps it is given to it", ours: "."},
	"internal/build":   {why: "runs steps for any capability and keeps images", ours: ". blob image redact sandbox store transcript watch"},
	"internal/command": {why: "requests become commands alike, for tasks and computers", ours: ". sandbox"},
	"internal/clone":   {why: "fetches repositories in sandboxes, for any capability", ours: ". sandbox source"},
	"internal/base": {why: "the root filesystem; a source's image is unpacked by it, and sealed by image", ours: ". durable image source/xz",
		others: "github.com/google/go-containerregistry github.com/klauspost/compress github.com/moby/profiles/seccomp github.com/opencontainers/runtime-spec golang.org/x/sys"},

	"internal/provision": {why: "brings a set onto any sandbox, a computer's or a bundle's; what it keeps of output is folded as a log is", ours: ". guest mise sandbox transcript"},
	"internal/plugin":    {why: "reads hostile plugin folders into items, with and without a server", ours: ". mise"},

	// Contracts name no technology.
	"internal/sandbox": {why: "the contract speaks of the guest's commands and of images, as they are", ours: ". guest image"},
	"internal/store":   {why: "the contract speaks of the domain alone", ours: "."},
	"internal/blob":    {why: "the contract speaks of the domain alone", ours: "."},

	// Adapters know their contract, and the technology that they are named after.
	"internal/sandbox/oci": {why: "containers of an OCI runtime", ours: ". durable egress guest image sandbox",
		others: "github.com/moby/profiles/seccomp github.com/opencontainers/runtime-spec golang.org/x/sync golang.org/x/sys"},
	"internal/store/sqlite": {why: "SQLite", ours: ". durable store store/sqlite/db",
		others: "github.com/pressly/goose/v3 modernc.org/sqlite"},
	"internal/store/sqlite/db": {why: "generated from the queries"},
	"internal/blob/dir":        {why: "files of a directory", ours: ". blob durable", others: "golang.org/x/sys"},

	// Tools do one thing for whoever asks, and know the domain's words at most.
	"internal/durable":    {why: "when something is safe on the disk, for all who keep something", ours: "."},
	"internal/image":      {why: "the one place that knows EROFS and overlayfs", ours: ". durable", others: "github.com/erofs/go-erofs golang.org/x/sys"},
	"internal/guest":      {why: "both ends of the guest's protocol; it is linked into every sandbox", ours: ". durable shim", others: "github.com/pkg/sftp golang.org/x/crypto golang.org/x/sys"},
	"internal/shim":       {why: "runs before every command of every tool: what it imports is time that each of them waits"},
	"internal/egress":     {why: "the proxy is the one way out, so it is small and its own", ours: "."},
	"internal/source":     {why: "hostile archives and repositories", ours: ". source/xz", others: "github.com/klauspost/compress"},
	"internal/source/xz":  {why: "reads strangers' .xz in bounded memory, for all who must", others: "github.com/ulikunitz/xz/lzma"},
	"internal/pkgindex":   {why: "what registries say; Debian's lists come as .xz", ours: ". source/xz", others: "github.com/Masterminds/semver/v3 golang.org/x/sync pault.ag/go/debian"},
	"internal/spelling":   {why: "how far a mistyped word is from a known one; of whom to suggest what, others know"},
	"internal/mise":       {why: "the one place that knows mise's configuration and answers", ours: ". spelling", others: "github.com/pelletier/go-toml/v2"},
	"internal/treefs":     {why: "a tree of blobs as a filesystem, with what image packs of an entry", ours: ". blob image"},
	"internal/seal":       {why: "encryption at rest is small, and read as a whole", ours: ". durable"},
	"internal/redact":     {why: "secrets out of bytes, whoever wrote them"},
	"internal/transcript": {why: "folds and keeps a log", ours: ". durable"},
	"internal/clock":      {why: "what can be relied on of the machine's clock, for all who keep something for a time"},
	"internal/watch":      {why: "waiting for a change, with no knowledge of what changes"},
	"internal/doctor":     {why: "must speak when nothing else starts", others: "golang.org/x/sys"},

	// Suites and kits for tests; no program links them (TestProgramsLinkNoTestKit).
	"internal/sandbox/sandboxtest":       {why: "the contract's suite", ours: ". guest image sandbox base base/basetest", others: "github.com/google/go-cmp golang.org/x/sys"},
	"internal/sandbox/sandboxtest/probe": {why: "runs inside a sandbox under test", others: "golang.org/x/sys"},
	"internal/store/storetest":           {why: "the contract's suite", ours: ". store", others: "github.com/google/go-cmp"},
	"internal/blob/blobtest":             {why: "the contract's suite", ours: ". blob"},
	"internal/toolchain/toolchaintest": {why: "gives tests the service with everything real below it",
		ours: ". audit base base/basetest blob/dir clone egress sandbox sandbox/oci sandbox/sandboxtest seal store/sqlite toolchain"},
	"internal/base/basetest": {why: "gives tests the real base", ours: ". base image", others: "golang.org/x/sys"},
}

const module = "enplace"

// listed is what go list says of a package.
type listed struct {
	ImportPath, Name string
	Standard         bool
	Imports          []string
	GoFiles          []string
}

func goList(t *testing.T, args ...string) []listed {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-e", "-json=ImportPath,Name,Standard,Imports,GoFiles"}, args...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestImports(t *testing.T) {
	t.Parallel()
	standard := map[string]bool{}
	for _, p := range goList(t, "std") {
		standard[p.ImportPath] = true
	}
	for _, p := range goList(t, "./...") {
		if len(p.GoFiles) == 0 {
			continue // tests alone
		}
		name := relative(p.ImportPath)
		r, ok := rules[name]
		if !ok {
			t.Errorf("%s has no rule; add one to imports_test.go, with the reason for its boundary", name)
			continue
		}
		for _, imported := range p.Imports {
			if standard[imported] || r.allows(imported) {
				continue
			}
			t.Errorf("%s imports %s, which its rule in imports_test.go does not allow (%s)", name, imported, r.why)
		}
	}
}

// relative gives a package's path in the module: "." for the root.
func relative(importPath string) string {
	return path.Clean(strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/"))
}

func (r rule) allows(imported string) bool {
	if imported == module || strings.HasPrefix(imported, module+"/") {
		name := relative(imported)
		short := strings.TrimPrefix(name, "internal/")
		return slices.Contains(strings.Fields(r.ours), short)
	}
	return slices.ContainsFunc(strings.Fields(r.others), func(m string) bool { return imported == m || strings.HasPrefix(imported, m+"/") })
}

// What the guest links is in every sandbox of everybody: a list, and not a rule of thumb.
func TestGuestLinks(t *testing.T) {
	t.Parallel()
	allowed := []string{"enplace", "github.com/creack/pty", "github.com/kr/fs", "github.com/pkg/sftp", "golang.org/x/crypto", "golang.org/x/sys"}
	refused := []string{"net/http", "database/sql", "text/template", "html/template"}
	for _, p := range goList(t, "-deps", "./cmd/enplace-guest") {
		if slices.Contains(refused, p.ImportPath) {
			t.Errorf("the guest links %s", p.ImportPath)
		}
		known := slices.ContainsFunc(allowed, func(m string) bool { return p.ImportPath == m || strings.HasPrefix(p.ImportPath, m+"/") })
		if !p.Standard && !known {
			t.Errorf("the guest links %s, which is not in the list of imports_test.go", p.ImportPath)
		}
	}
}

func TestProgramsLinkNoTestKit(t *testing.T) {
	t.Parallel()
	for _, p := range goList(t, "-deps", "./cmd/...") {
		if p.ImportPath == "testing" || p.ImportPath == "net/http/httptest" || strings.HasPrefix(p.ImportPath, module+"/") && strings.HasSuffix(p.ImportPath, "test") {
			t.Errorf("a program links %s", p.ImportPath)
		}
	}
}

// A rule for what is no more would let it come back unseen.
func TestRulesAreForPackagesThatAreThere(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	for _, p := range goList(t, "./...") {
		there[relative(p.ImportPath)] = true
	}
	for name, r := range rules {
		if !there[name] {
			t.Errorf("imports_test.go has a rule for %s, which does not exist", name)
		}
		if r.why == "" {
			t.Errorf("the rule for %s has no reason", name)
		}
	}
}
