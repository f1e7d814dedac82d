package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const shortest = 6 // bytes of a value that is hidden

// spelling is a form that tools print a value in. One that breaks may have ends of lines in it, wherever they fall.
type spelling struct {
	text   string
	breaks bool
}

// spellings gives the values in every form that tools print them in.
func spellings(values []string) []spelling {
	var all, broken []string
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
				all = append(all, base64Lines(part)...)
				all = append(all, inHTML(part)...)
				broken = append(broken, inBase64(part)...)
				broken = append(broken, hex.EncodeToString([]byte(part)), strings.ToUpper(hex.EncodeToString([]byte(part))))
			}
		}
	}
	forms := make(map[string]bool, len(all)+len(broken))
	for _, s := range all {
		forms[s] = false
	}
	for _, s := range broken {
		forms[s] = len(s) > leastPiece
	}
	out := make([]spelling, 0, len(forms))
	for text, breaks := range forms {
		if len(text) >= shortest {
			out = append(out, spelling{text, breaks})
		}
	}
	return out
}

// What Python's quote, and JavaScript's encodeURIComponent and encodeURI, leave as it is beside letters and digits.
var unescaped = []string{"_.-~/", "-_.!~*'()", "-_.!~*'();,/?:@&=+$#"}

// inURL gives the escapes of a query, a path and a userinfo, and those of other languages, with capital and small hexadecimal
// digits.
func inURL(v string) []string {
	query := url.QueryEscape(v)
	forms := []string{query, strings.ReplaceAll(query, "+", "%20"), url.PathEscape(v), url.User(v).String()}
	for _, safe := range unescaped {
		forms = append(forms, percent(v, safe))
	}
	for _, f := range slices.Clone(forms) {
		forms = append(forms, smallHex(f))
	}
	return forms
}

func percent(v, safe string) string {
	var b strings.Builder
	for i := range len(v) {
		if c := v[i]; alnum(c) || strings.IndexByte(safe, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
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
		octal(v),
	}
}

// octal gives what bash writes between $' and ' where the locale knows ASCII alone.
func octal(v string) string {
	var b strings.Builder
	for i := range len(v) {
		switch c := v[i]; {
		case c == '\\' || c == '\'':
			b.WriteString(`\` + string(rune(c)))
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// inHTML gives the escapes of HTML and XML: with quotes left as they are, and as Go, Python and others write them.
func inHTML(v string) []string {
	plain := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(v)
	return []string{
		plain, html.EscapeString(v),
		strings.NewReplacer(`"`, "&quot;", "'", "&#x27;").Replace(plain), strings.NewReplacer(`"`, "&quot;", "'", "&#39;").Replace(plain),
	}
}

// inJSON gives the escapes with and without those that keep HTML safe, and in ASCII alone.
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
	var ascii strings.Builder
	for _, r := range forms[1] {
		switch high, low := utf16.EncodeRune(r); {
		case r < 0x80:
			ascii.WriteRune(r)
		case high == utf8.RuneError:
			fmt.Fprintf(&ascii, `\u%04x`, r)
		default:
			fmt.Fprintf(&ascii, `\u%04x\u%04x`, high, low)
		}
	}
	return append(forms, ascii.String())
}

// lineLengths are those at which tools break base64: openssl's and that of all others.
var lineLengths = []int{64, 76}

// base64Lines gives the lines of a value that begins its text: each is known by itself, whatever came before it.
func base64Lines(v string) []string {
	var forms []string
	whole := base64.RawStdEncoding.EncodeToString([]byte(v))[:len(v)*8/6]
	for _, length := range lineLengths {
		for line := range slices.Chunk([]byte(whole), length) {
			if len(line) < len(whole) && len(line) >= leastPiece {
				forms = append(forms, string(line))
			}
		}
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
