package mise

import "testing"

func TestCase35LinesOfScripts(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"mise npm:esbuild@0.25.0 > esbuild@0.25.0 postinstall":          "npm:esbuild esbuild@0.25.0 (postinstall)",
		"mise npm:@own/cli@1.0.0-rc.1 > @own/native@2.0.0+x preinstall": "npm:@own/cli @own/native@2.0.0+x (preinstall)",
		"mise npm:esbuild@0.25.0 > node install.js":                     "",
		"> esbuild@0.25.0 postinstall":                                  "",
		"mise npm:esbuild@0.25.0 > esbuild@0.25.0 postinstall and more": "",
		"mise npm:esbuild@0.25.0 added 2 packages in 2s":                "",
		"mise npm:esbuild@0.25.0 > esbuild@0.25.0 test":                 "",
	} {
		tool, script, ok := ScriptRan(line)
		if ok != (want != "") || ok && tool+" "+script != want {
			t.Errorf("%q: %s, %s, %v", line, tool, script, ok)
		}
	}
	tool, scripts, ok := ScriptsSkipped("mise WARN  npm:esbuild@0.25.0 declares npm lifecycle script(s) (install, postinstall) in /opt/mise/x, but mise skipped them with --ignore-scripts=true. Review")
	if !ok || tool != "npm:esbuild" || scripts != "install, postinstall" {
		t.Errorf("%s, %s, %v", tool, scripts, ok)
	}
}
