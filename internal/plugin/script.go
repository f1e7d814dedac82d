package plugin

import (
	"path"
	"regexp"
	"strings"

	"enplace"
)

const (
	maxShebang = 255      // what the kernel reads of a #! line
	maxLinted  = 32 << 10 // of a script; warnings are for people, whose scripts are shorter, and matching takes time
)

// checkScript looks at setup.sh without running anything, a shell's syntax check included: it is a stranger's text. Errors are
// of what cannot start. Warnings are of what ends well although it failed, or waits for an answer that nobody gives.
func checkScript(script string) []issue {
	if strings.TrimSpace(script) == "" {
		return []issue{{enplace.FindingWarning, 0, "this file is empty, so that it does nothing; write it or take it out"}}
	}
	first, _, _ := strings.Cut(script, "\n")
	issues, shell := checkShebang(first, script)
	if !shell {
		return issues
	}
	return append(issues, checkShell(first, logicalLines(script[:min(len(script), maxLinted)]))...)
}

var shells = regexp.MustCompile(`^(ba|da|z|k|a)?sh$`)

// checkShebang looks at the first line, and says whether a shell reads the rest.
func checkShebang(first, script string) (issues []issue, shell bool) {
	rest, ok := strings.CutPrefix(first, "#!")
	words := strings.Fields(rest)
	switch {
	case !ok:
		issues = append(issues, issue{enplace.FindingNotice, 0, "there is no #! line, so it runs with bash"})
		if line := misplacedShebang(script); line > 0 {
			issues = append(issues, issue{enplace.FindingWarning, line, "a #! line counts on the first line only; move it there"})
		}
		return issues, true
	case len(words) == 0:
		return []issue{{enplace.FindingError, 1, "the #! line names no program; write #!/bin/bash"}}, false
	case !path.IsAbs(words[0]):
		return []issue{{enplace.FindingError, 1, "the #! line must name a program by its absolute path, such as #!/bin/bash or #!/usr/bin/env python3"}}, false
	case len(first) > maxShebang:
		return []issue{{enplace.FindingError, 1, "the #! line is longer than 255 bytes, of which the kernel reads no more"}}, false
	}
	program := path.Base(words[0])
	for _, w := range words[1:] {
		if program == "env" && !strings.HasPrefix(w, "-") {
			program = path.Base(w)
		}
	}
	return nil, shells.MatchString(program)
}

// misplacedShebang gives the line of a #! that only blank lines and comments stand before.
func misplacedShebang(script string) int {
	n := 0
	for line := range strings.Lines(script) {
		n++
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#!"):
			return n
		case line != "" && line[0] != '#':
			return 0
		}
	}
	return 0
}

// command is a command line of a script, with those that continue it.
type command struct {
	line int
	text string
}

var hereDocument = regexp.MustCompile(`<<-?\s*["'\\]?(\w+)`)

// logicalLines gives the lines of a script without comments and here-documents. It knows no quotes: what it gets wrong costs a
// warning too many or too few.
func logicalLines(script string) []command {
	var all []command
	var parts []string // of the last one, until it is whole
	var until string   // the end of a here-document
	n := 0
	for line := range strings.Lines(script) {
		n++
		line = strings.TrimSpace(line)
		switch {
		case until != "":
			if line == until {
				until = ""
			}
			continue
		case line == "" || line[0] == '#':
			continue
		}
		if m := hereDocument.FindStringSubmatch(line); m != nil && !strings.Contains(line, "<<<") {
			until = m[1]
		}
		if len(parts) == 0 {
			all = append(all, command{line: n})
		}
		text := strings.TrimSuffix(line, `\`)
		parts = append(parts, text)
		if text == line && !strings.HasSuffix(line, "|") && !strings.HasSuffix(line, "&&") {
			all[len(all)-1].text = strings.Join(parts, " ")
			parts = nil
		}
	}
	if len(parts) > 0 { // the script ends in the middle of one
		all[len(all)-1].text = strings.Join(parts, " ")
	}
	return all
}

// What stands before a command.
const commandStart = "(?:^|[|;&(`]|\\b(?:then|do|else|if|while|until|sudo|exec|time)\\s|!\\s)\\s*"

var (
	pipeToShell = regexp.MustCompile(`(?:^|[^|])\|&?\s*(?:(?:sudo|exec|env)\s+(?:-\S+\s+)*)*(?:\w+=\S*\s+)*(?:\S*/)?(?:ba|da|z|k|a)?sh(?:[\s;&|)]|$)`)
	runDownload = regexp.MustCompile("(?:\\b(?:ba|da|z|k|a)?sh\\s+(?:-\\w+\\s+)*|\\beval\\s+)[\"']?(?:\\$\\(|`)\\s*(?:curl|wget)\\b|(?:\\b(?:ba|da|z|k|a)?sh|\\bsource|^\\.|\\s\\.)\\s+(?:-\\S+\\s+)*<\\(\\s*(?:curl|wget)\\b")
	pipefail    = regexp.MustCompile(`\bset\s+(?:\S+\s+)*-\w*o\s+pipefail\b`)
	errexit     = regexp.MustCompile(`\bset\s+(?:-\w+\s+)*-[a-zA-Z]*e|\bset\s+.*-o\s+errexit|\|\|\s*(?:exit|die|fail|\{|return)|\btrap\s.*\bERR\b`)
	curl        = regexp.MustCompile(commandStart + `curl\s(.*?)(?:&&|[|;)]|$)`)
	curlChecks  = regexp.MustCompile(`(?:^|\s)(?:--fail\S*|-[a-zA-Z]*f[a-zA-Z]*|--version|-V|--write-out|-w)(?:[\s='"]|$)`)
	apt         = regexp.MustCompile(commandStart + `(?:\w+=\S*\s+)*apt(?:-get)?\s(.*?\b(?:install|upgrade|dist-upgrade|full-upgrade|remove|purge|autoremove)\b.*?)(?:&&|[|;)]|$)`)
	aptAnswers  = regexp.MustCompile(`(?:^|\s)(?:-[a-zA-Z]*y[a-zA-Z]*|-qq|--yes|--assume-yes)(?:\s|$)`)
	sudo        = regexp.MustCompile(commandStart + `(?:\w+=\S*\s+)*sudo\s`)
)

// checkShell warns of commands that a shell takes and that do not do what is meant, by line.
func checkShell(shebang string, lines []command) []issue {
	var issues []issue
	warn := func(line int, message string) {
		issues = append(issues, issue{enplace.FindingWarning, line, message})
	}
	failing, stops := strings.Contains(shebang, "pipefail"), strings.Contains(shebang, " -e")
	for _, l := range lines {
		failing = failing || pipefail.MatchString(l.text)
		stops = stops || errexit.MatchString(l.text)
		if pipeToShell.MatchString(l.text) && !failing {
			warn(l.line, "a download that fails in front of a pipe into a shell goes unnoticed, and setup.sh ends well; write set -o pipefail before it (in bash), or download to a file first and run that")
		}
		if runDownload.MatchString(l.text) {
			warn(l.line, "a download that fails here gives an empty script, which ends well; download to a file first and run that: curl -fsSLo install.sh URL, then bash install.sh")
		}
		for _, m := range curl.FindAllStringSubmatch(l.text, -1) {
			if !curlChecks.MatchString(m[1]) {
				warn(l.line, "curl ends well when the server answers with an error, and keeps the error's page; add -f (--fail)")
				break
			}
		}
		for _, m := range apt.FindAllStringSubmatch(l.text, -1) {
			if !aptAnswers.MatchString(m[1]) {
				warn(l.line, "apt asks before it goes on, and setup.sh has no terminal; add -y")
				break
			}
		}
		if sudo.MatchString(l.text) {
			warn(l.line, "setup.sh runs as root, and sudo need not be there; take it out")
		}
	}
	if !stops && len(lines) > 1 {
		warn(lines[0].line, "the script goes on after a command that failed, and ends as its last command does; write set -e before the first command")
	}
	return issues
}
