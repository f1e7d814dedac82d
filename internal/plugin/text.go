package plugin

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// text is a file as an item keeps it, or why it cannot be kept.
type text struct {
	text    string
	changed string // what was normalised, for a notice; "" when nothing was
	loneCR  int    // the first line with a carriage return in its middle; 0 without one

	problem string
	line    int
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// normalise gives text as UTF-8 without byte-order mark, with line feeds at the ends of lines: what an editor on another system
// adds would be part of options and names in setup.sh. Normalising again changes nothing.
func normalise(b []byte) text {
	const save = "save it as UTF-8, or leave it out when it is no text"
	if looksUTF16(b) {
		return text{problem: "this is UTF-16; " + save}
	}
	if len(b) < 1024 && bytes.HasPrefix(b, []byte("version https://git-lfs.github.com/spec/")) {
		return text{problem: "this is a pointer to a file of Git LFS, which is not fetched; commit the file itself, or download it in setup.sh", line: 1}
	}
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return text{problem: "this is binary (there is a NUL byte); an item is text, so download in setup.sh what is not", line: lineAt(b, i)}
	}
	if i := invalidUTF8(b); i >= 0 {
		return text{problem: "this is not UTF-8 from here on; " + save, line: lineAt(b, i)}
	}
	var changes []string
	plain := b
	for bytes.HasPrefix(plain, byteOrderMark) {
		plain = plain[len(byteOrderMark):]
	}
	if len(plain) < len(b) {
		changes = append(changes, "the byte-order mark was taken off")
	}
	unix := lineFeeds(plain)
	if len(unix) < len(plain) {
		changes = append(changes, "the line ends were CRLF and are LF now")
	}
	t := text{text: string(unix), changed: strings.Join(changes, ", and ")}
	if i := bytes.IndexByte(unix, '\r'); i >= 0 {
		if !bytes.ContainsRune(unix, '\n') {
			return text{problem: "the lines end with carriage returns alone; save the file with LF line ends", line: 1}
		}
		t.loneCR = lineAt(unix, i)
	}
	return t
}

// lineFeeds takes off the carriage returns before line feeds, however many there are.
func lineFeeds(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for _, c := range b {
		if c == '\n' {
			out = bytes.TrimRight(out, "\r")
		}
		out = append(out, c)
	}
	return out
}

// looksUTF16 knows UTF-16 by its mark, or by every second byte being NUL.
func looksUTF16(b []byte) bool {
	if bytes.HasPrefix(b, []byte{0xff, 0xfe}) || bytes.HasPrefix(b, []byte{0xfe, 0xff}) {
		return true
	}
	head := b[:min(len(b), 64)&^1]
	even, odd := 0, 0
	for i, c := range head {
		switch {
		case c != 0:
		case i%2 == 0:
			even++
		default:
			odd++
		}
	}
	half := len(head) / 2
	return half > 0 && (even == half && odd == 0 || odd == half && even == 0)
}

// invalidUTF8 gives the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

func lineAt(b []byte, offset int) int { return 1 + bytes.Count(b[:offset], []byte("\n")) }
