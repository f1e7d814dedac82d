package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"enplace"
)

// ambiguous says of valid JSON why it could mean this or that (RFC 7493): a field that is there twice, of which the last would
// count here and the first elsewhere; or text that is no Unicode, of which something else would be kept.
func ambiguous(data []byte) error {
	if !utf8.Valid(data) || halfCharacter(data) {
		return errors.New("it holds text that is no Unicode")
	}
	var open []map[string]bool // the fields so far of each object that the reader is in; nil for a list
	dec := json.NewDecoder(bytes.NewReader(data))
	name := false // the next text is the name of a field
	for {
		token, err := dec.Token()
		if err != nil {
			return nil // its end
		}
		switch token {
		case json.Delim('{'):
			open, name = append(open, map[string]bool{}), true
			continue
		case json.Delim('['):
			open, name = append(open, nil), false
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
		if field, ok := token.(string); ok && name {
			fields := open[len(open)-1]
			if fields[field] {
				return fmt.Errorf("the field %q is there twice; keep one", enplace.Shown(field, 80))
			}
			fields[field], name = true, false
			continue
		}
		name = len(open) > 0 && open[len(open)-1] != nil
	}
}

// halfCharacter reports whether one half of a character stands without the other, as in \ud800.
func halfCharacter(data []byte) bool {
	escaped := func(i int) rune {
		if i+6 > len(data) || data[i] != '\\' || data[i+1] != 'u' {
			return 0
		}
		n, _ := strconv.ParseUint(string(data[i+2:i+6]), 16, 32) // the data is valid
		return rune(n)
	}
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		if r := escaped(i); utf16.IsSurrogate(r) {
			if utf16.DecodeRune(r, escaped(i+6)) == utf8.RuneError {
				return true
			}
			i += 10
		}
		i++ // what is escaped may be a backslash
	}
	return false
}
