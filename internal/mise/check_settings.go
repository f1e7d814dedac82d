package mise

import (
	"slices"
	"strings"
	"sync"

	"enplace"
)

// settingsText has the settings that an item may have, by the kind of their value: those that say how a backend fetches and
// builds. All others are of the computer (where things are put, what is read and trusted, which logins are used), and Enplace
// sets them. mise refuses a whole file for an unknown one of a group, or a value of another kind.
const settingsText = `
flag all_compile experimental prereleases
flag aqua.baked_registry aqua.cosign aqua.github_attestations aqua.minisign aqua.slsa
flag cargo.binstall cargo.binstall_native cargo.binstall_only cargo.binstall_quickinstall dotnet.cli_telemetry_optout dotnet.isolated
flag erlang.compile github.github_attestations github.slsa go.skip_checksum
flag node.compile node.corepack node.gpg_verify node.ninja node.npm_shim node.verify npm.bun npm.shell_out
flag pipx.uvx pypi.uvx python.compile python.github_attestations ruby.compile ruby.github_attestations ruby.ruby_install ruby.verbose_install
flag spm.artifactbundle_only swift.gpg_verify zig.use_community_mirrors
number http_retries jobs node.concurrency
text fetch_remote_versions_timeout http_download_timeout http_timeout minimum_release_age
text cargo.registry_name conda.channel dotnet.registry_url erlang.precompiled_os go.download_mirror java.shorthand_vendor
text node.cflags node.configure_opts node.flavor node.make_install_opts node.make_opts node.mirror_url
text pipx.registry_url pypi.registry_url python.precompiled_arch python.precompiled_flavor python.precompiled_os
text ruby.precompiled_arch ruby.precompiled_os ruby.precompiled_url ruby.ruby_build_opts ruby.ruby_install_opts rust.default_host swift.platform
list dotnet.package_flags minimum_release_age_excludes
`

var settings = sync.OnceValue(func() map[string]string {
	kinds := map[string]string{}
	for line := range strings.Lines(settingsText) {
		words := strings.Fields(line)
		for _, name := range words[min(1, len(words)):] {
			kinds[name] = words[0]
		}
	}
	return kinds
})

// settingKinds says how a value of each kind is written.
var settingKinds = map[string]string{"flag": "true or false", "number": "a whole number from 0 on", "text": "text in quotes, without a template", "list": "a list of texts in quotes"}

func (c *checker) checkSettings(v any) {
	table, ok := v.(map[string]any)
	if !ok {
		c.errorf("settings", "settings must be a table: [settings], and below it lines such as http_timeout = \"60s\"")
		return
	}
	c.settings(pathOf("settings"), "", table)
}

// settings checks a table of settings; a group is a table in it.
func (c *checker) settings(at, group string, table map[string]any) {
	for _, key := range c.keysOf(table, strings.Split(at, "\x00")...) {
		name, place := group+key, pathOf(at, key)
		kind := settings()[name]
		inner, isGroup := table[key].(map[string]any)
		switch {
		case isGroup && group == "" && kind == "":
			c.settings(place, key+".", inner)
		case kind == "":
			c.errorf(place, "the setting %q is not one that an item may have: those say how a backend fetches and builds, and are listed in docs/items.md; take it out", enplace.Shown(name, 80))
		case !hasKind(table[key], kind):
			c.errorf(place, "the setting %s must be %s", name, settingKinds[kind])
		}
	}
}

func hasKind(v any, kind string) bool {
	switch v := v.(type) {
	case bool:
		return kind == "flag"
	case int64:
		return kind == "number" && v >= 0
	case string:
		return kind == "text" && !template(v)
	case []any:
		all, ok := texts(v)
		return kind == "list" && ok && !slices.ContainsFunc(all, template)
	}
	return false
}
