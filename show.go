package enplace

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Shown makes a stranger's text fit for a message or a terminal: at most that many bytes of it, valid UTF-8 on one line, and
// nothing that a terminal obeys or that turns the direction of reading.
func Shown(s string, most int) string {
	if len(s) > most {
		for most > 0 && !utf8.RuneStart(s[most]) {
			most--
		}
		s = s[:most] + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, string(unicode.ReplacementChar)))
}
