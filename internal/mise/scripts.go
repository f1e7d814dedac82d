package mise

import "regexp"

var (
	ran     = regexp.MustCompile(`^mise (npm:\S+)@[^\s@]+ > ((?:@[^\s/@]+/)?[^\s/@]+@\S+) (preinstall|install|postinstall|prepare)$`)
	skipped = regexp.MustCompile(`^mise WARN +(npm:\S+)@[^\s@]+ declares npm lifecycle script\(s\) \(([a-z, ]+)\) .*skipped them`)
)

// ScriptRan reads a line that mise prints while it installs: that npm began an install script, of which package it is and which
// one, for which tool. Whoever runs already can print such a line as well, so that there may be more of them than there were scripts.
func ScriptRan(line string) (tool, script string, ok bool) {
	m := ran.FindStringSubmatch(line)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2] + " (" + m[3] + ")", true
}

// ScriptsSkipped reads the line by which mise says that a tool's own package has install scripts, which npm was told not to run.
func ScriptsSkipped(line string) (tool, scripts string, ok bool) {
	m := skipped.FindStringSubmatch(line)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}
