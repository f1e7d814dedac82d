package plugin

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"enplace"
)

//go:embed environment.schema.json
var schema string

// Schema is the JSON Schema (draft 2020-12) of environment.json.
func Schema() string { return schema }

// description is what environment.json says.
type description struct {
	name        string // a key; "" when there is none, or one that is wrong
	named       bool   // there is a name, be it right or wrong
	nameLine    int
	description string
}

// issue is something wrong in a file.
type issue struct {
	severity enplace.Severity
	line     int
	message  string
}

// readDescription reads environment.json, which says name and description and nothing else.
func readDescription(content string) (description, []issue) {
	var d description
	var whole json.RawMessage
	if err := json.Unmarshal([]byte(content), &whole); err != nil {
		return d, []issue{notJSON(content, err)}
	}
	dec := json.NewDecoder(strings.NewReader(content))
	if start, _ := dec.Token(); start != json.Delim('{') {
		return d, []issue{{line: firstLine(content), message: `this must be an object: {"name": "…", "description": "…"}`}}
	}
	var issues []issue
	seen := map[string]int{}
	for dec.More() && len(issues) < maxFileFindings {
		token, _ := dec.Token() // the content is valid
		key, _ := token.(string)
		line := 1 + strings.Count(content[:dec.InputOffset()], "\n")
		var value json.RawMessage
		_ = dec.Decode(&value)
		if first := seen[key]; first > 0 {
			issues = append(issues, issue{line: line, message: fmt.Sprintf("%q is there twice, first on line %d; keep one", enplace.Shown(key, 80), first)})
			continue
		}
		seen[key] = line
		if message := d.set(key, line, value); message != "" {
			issues = append(issues, issue{line: line, message: message})
		}
	}
	if seen["description"] == 0 && len(issues) < maxFileFindings {
		issues = append(issues, issue{message: `there is no "description"; say in up to 400 characters what the item is for`})
	}
	return d, issues
}

// set takes one field, or says what is wrong with it.
func (d *description) set(key string, line int, value json.RawMessage) string {
	switch key {
	case "name":
		d.named, d.nameLine = true, line
		s, ok := stringOf(value)
		switch {
		case !ok:
			return `"name" must be text in quotes`
		case enplace.CheckHandle("", s) != nil:
			return fmt.Sprintf("the name %q is no key: %s; write a key%s", enplace.Shown(s, 80), keyRule, suggestion(s))
		}
		d.name = s
	case "description":
		s, ok := stringOf(value)
		switch {
		case !ok:
			return `"description" must be text in quotes`
		case !strings.ContainsFunc(s, visible):
			return `"description" is empty; say what the item is for`
		case utf8.RuneCountInString(s) > enplace.MaxDescriptionLength:
			return fmt.Sprintf(`"description" has %d characters; %d are the limit`, utf8.RuneCountInString(s), enplace.MaxDescriptionLength)
		case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }):
			return `"description" holds a line end or a control character; write it as one line`
		case strings.ContainsFunc(s, func(r rune) bool {
			return unicode.Is(unicode.Bidi_Control, r) && !strings.ContainsRune("\u061c\u200e\u200f", r)
		}):
			return `"description" holds a character that turns the direction of reading of what follows; take it out`
		}
		d.description = strings.TrimSpace(s)
	default:
		if low := strings.ToLower(key); low == "name" || low == "description" {
			return fmt.Sprintf("the field %q is written %q", enplace.Shown(key, 80), low)
		}
		return fmt.Sprintf("the field %q is not known; there are name and description, and tools go into %s", enplace.Shown(key, 80), enplace.ItemMiseName)
	}
	return ""
}

// visible reports whether a character shows: spaces and joiners alone are no description.
func visible(r rune) bool { return !unicode.IsSpace(r) && !unicode.Is(unicode.Cf, r) }

// KeyLine gives the line of environment.json that gives a definition its key; 0 where the folder's name does.
func KeyLine(d enplace.Definition) int {
	content, _ := d.File(enplace.ItemFileName)
	said, _ := readDescription(content)
	return said.nameLine
}

func stringOf(value json.RawMessage) (string, bool) {
	var s *string
	if json.Unmarshal(value, &s) != nil || s == nil {
		return "", false
	}
	return *s, true
}

// notJSON says where JSON ends to be valid, and what mends the usual mistakes.
func notJSON(content string, err error) issue {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return issue{message: "this is not valid JSON: " + enplace.Shown(err.Error(), 200)}
	}
	at := max(0, min(int(syntax.Offset)-1, len(content)))
	is := issue{line: 1 + strings.Count(content[:at], "\n"), message: "this is not valid JSON: " + enplace.Shown(syntax.Error(), 200)}
	switch {
	case strings.TrimSpace(content) == "":
		is.message = `this file is empty; write {"name": "…", "description": "…"}`
	case at == len(content):
	case content[at] == '/' || content[at] == '#':
		is.message += "; JSON has no comments"
	case (content[at] == '}' || content[at] == ']') && strings.HasSuffix(strings.TrimRight(content[:at], " \t\r\n"), ","):
		is.message += "; take out the comma before it"
	}
	return is
}

// firstLine gives the line on which a file begins to say something.
func firstLine(content string) int {
	return 1 + strings.Count(content[:len(content)-len(strings.TrimLeft(content, " \t\r\n"))], "\n")
}
