package redact

import "bytes"

const (
	keyBegin = "-----BEGIN "
	keyEnd   = "-----END "
	keyBytes = 16 << 10 // of a private key; also bounds what a hostile line can make us search
	keyLines = 400      // after that many a key without an end is given up
)

// privateKey hides a key from its first line through its last; of one without an end, all that looks like one.
func privateKey(p []byte, at, body int) (int, int) {
	label := bytes.Index(p[body:min(len(p), body+64)], []byte("PRIVATE KEY"))
	if label < 0 || bytes.IndexByte(p[body:body+label], '\n') >= 0 {
		return 0, 0
	}
	i := run(p, body+label, func(c byte) bool { return c == ' ' || c >= 'A' && c <= 'Z' })
	i = run(p, i, dash)
	// The next dashes are the end, or there is none: a search beyond them would cost its length at every beginning.
	if end := bytes.Index(p[i:min(len(p), i+keyBytes)], []byte("-----")); end >= 0 && bytes.HasPrefix(p[i+end:], []byte(keyEnd)) {
		return at, endOfKey(p, i+end)
	}
	i = run(p, i, word)
	for i < len(p) {
		line, _, _ := bytes.Cut(p[i+1:], []byte("\n"))
		if !material(line) {
			break
		}
		i += 1 + len(line)
	}
	return at, min(i, len(p))
}

func dash(c byte) bool { return c == '-' }

// endOfKey gives the end of the -----END …----- that begins at i.
func endOfKey(p []byte, i int) int {
	i += len(keyEnd)
	rest := p[i:min(len(p), i+64)]
	if n := bytes.Index(rest, []byte("-----")); n >= 0 {
		return i + n + len("-----")
	}
	return i + len(rest)
}

// material reports whether a line may be of the inside of a key: base64 and nothing else.
func material(line []byte) bool {
	line = bytes.TrimSpace(line)
	for _, c := range line {
		if !alnum(c) && c != '+' && c != '/' && c != '=' {
			return false
		}
	}
	return len(line) > 0
}

// Lines gives a function that redacts the lines of one log, given in their order and without their newlines. Unlike Bytes it
// remembers that a private key began some lines ago, and how much of a value stood at the end of the last one. The function serves one goroutine at a time.
func (r *Redactor) Lines() func(line []byte) []byte {
	inside := 0           // lines that may still be of a key
	open := &openPieces{} // of values that the last line broke
	return func(line []byte) []byte {
		if inside > 0 {
			inside--
			if end := bytes.Index(line, []byte(keyEnd)); end >= 0 {
				inside = 0
				return append([]byte(mark), r.Bytes(line[endOfKey(line, end):])...)
			}
			if material(line) {
				return []byte(mark)
			}
		}
		if opens(line) {
			inside = keyLines
		}
		return r.bytes(line, open)
	}
}

// opens reports whether a key begins in the line and does not end there.
func opens(line []byte) bool {
	at := bytes.LastIndex(line, []byte(keyBegin))
	if at < 0 {
		return false
	}
	_, to := privateKey(line, at, at+len(keyBegin))
	return to > 0 && !bytes.Contains(line[at:], []byte(keyEnd))
}
