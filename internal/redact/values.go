package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

const shortest = 6 // bytes of a value that is hidden

// spellings gives the values in every form that tools print them in.
func spellings(values []string) []string {
	var all []string
	for _, v := range values {
		parts := []string{strings.TrimSpace(v)}
		if strings.Contains(parts[0], "\n") {
			parts = append(parts, strings.Split(parts[0], "\n")...)
		}
		for _, part := range parts {
			if part = strings.TrimSpace(part); len(part) >= shortest {
				all = append(all, part)
				all = append(all, inURL(part)...)
				all = append(all, inShell(part)...)
				all = append(all, inJSON(part)...)
				all = append(all, inBase64(part)...)
			}
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(s string) bool { return len(s) < shortest })
}

// inURL gives the escapes of a query, a path and a userinfo, with capital and small hexadecimal digits.
func inURL(v string) []string {
	query := url.QueryEscape(v)
	forms := []string{query, strings.ReplaceAll(query, "+", "%20"), url.PathEscape(v), url.User(v).String()}
	for _, f := range forms[:4] {
		forms = append(forms, smallHex(f))
	}
	return forms
}

func smallHex(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// inShell gives what `set -x`, printf %q and Python's shlex and repr make of a value.
func inShell(v string) []string {
	var backslashed strings.Builder
	for i := range len(v) {
		if c := v[i]; !dotted(c) && c < 0x80 && !strings.ContainsRune("/:@%+=,", rune(c)) {
			backslashed.WriteByte('\\')
		}
		backslashed.WriteByte(v[i])
	}
	return []string{
		strings.ReplaceAll(v, "'", `'\''`),
		strings.ReplaceAll(v, "'", `'"'"'`),
		strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v),
		strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`").Replace(v),
		strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`", `!`, `\!`).Replace(v),
		backslashed.String(),
	}
}

// inJSON gives the escapes with and without those that keep HTML safe.
func inJSON(v string) []string {
	var forms []string
	for _, html := range []bool{true, false} {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(html)
		_ = enc.Encode(v) // a string never fails
		quoted := strings.TrimSuffix(b.String(), "\n")
		forms = append(forms, quoted[1:len(quoted)-1])
	}
	return forms
}

// inBase64 gives the characters that a value alone decides, wherever it stands in what was encoded: behind a user name and a
// colon, for one.
func inBase64(v string) []string {
	var forms []string
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			s := enc.EncodeToString(append(make([]byte, before), v...))
			first := (before*8 + 5) / 6
			last := (before + len(v)) * 8 / 6
			forms = append(forms, s[first:last])
		}
	}
	return forms
}
