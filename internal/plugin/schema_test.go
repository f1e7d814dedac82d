package plugin

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"enplace"
)

// documents are what the schema and the reader must agree on.
var documents = []string{
	`{"name": "a", "description": "x"}`, `{"description": "x"}`, `{"name": "a"}`, `{}`, `[]`, `null`, `"x"`, `7`,
	`{"name": "0-9", "description": "x"}`, `{"name": "-a", "description": "x"}`, `{"name": "A", "description": "x"}`, `{"name": "a_b", "description": "x"}`,
	`{"name": "", "description": "x"}`, `{"name": null, "description": "x"}`, `{"name": 1, "description": "x"}`, `{"name": "a\n", "description": "x"}`, `{"name": "ä", "description": "x"}`,
	`{"name": "` + strings.Repeat("a", 63) + `", "description": "x"}`, `{"name": "` + strings.Repeat("a", 64) + `", "description": "x"}`,
	`{"description": ""}`, `{"description": " "}`, `{"description": "\t"}`, `{"description": "a\nb"}`, `{"description": "a\u0085b"}`, `{"description": "a\u007f"}`, `{"description": null}`, `{"description": ["x"]}`, `{"description": {"a": 1}}`, `{"description": true}`,
	`{"description": "` + strings.Repeat("ü", 400) + `"}`, `{"description": "` + strings.Repeat("ü", 401) + `"}`, `{"description": "😀"}`, `{"description": "👩‍💻"}`,
	`{"description": "\u200b\u2060"}`, `{"description": "a\u2028b"}`, `{"description": "a\u202eb"}`, `{"description": "a\u2066b"}`, `{"description": "a\u200fb"}`, `{"description": "\u00a0"}`,
	`{"description": "x", "tools": {}}`, `{"description": "x", "$schema": "x"}`, `{"Description": "x"}`, `{"description": "x", "": 1}`,
}

func TestSchemaAgreesWithTheReader(t *testing.T) {
	t.Parallel()
	var schema map[string]any
	if err := json.Unmarshal([]byte(Schema()), &schema); err != nil {
		t.Fatal(err)
	}
	for _, doc := range documents {
		var v any
		if err := json.Unmarshal([]byte(doc), &v); err != nil {
			t.Fatal(err)
		}
		_, issues := readDescription(doc)
		if why := against(t, schema, v); (why == "") != (len(issues) == 0) {
			t.Errorf("%.80s: the schema says %q, the reader %+v", doc, why, issues)
		}
	}
	properties := schema["properties"].(map[string]any)
	if n := properties["name"].(map[string]any)["maxLength"]; n != float64(enplace.MaxHandleLength) {
		t.Errorf("a key has up to %v characters by the schema", n)
	}
	if n := properties["description"].(map[string]any)["maxLength"]; n != float64(enplace.MaxDescriptionLength) {
		t.Errorf("a description has up to %v characters by the schema", n)
	}
}

// against applies the keywords of JSON Schema that ours uses, and fails on any other.
func against(t *testing.T, schema map[string]any, v any) string {
	t.Helper()
	text, isText := v.(string)
	object, isObject := v.(map[string]any)
	for keyword, arg := range schema {
		bad := false
		switch keyword {
		case "$schema", "title", "description", "examples":
		case "type":
			bad = arg == "string" && !isText || arg == "object" && !isObject
		case "minLength":
			bad = isText && utf8.RuneCountInString(text) < int(arg.(float64))
		case "maxLength":
			bad = isText && utf8.RuneCountInString(text) > int(arg.(float64))
		case "pattern":
			pattern := regexp.MustCompile(`\\u([0-9a-f]{4})`).ReplaceAllString(arg.(string), `\x{$1}`) // as Go writes it
			bad = isText && !regexp.MustCompile(pattern).MatchString(text)
		case "allOf":
			for _, s := range arg.([]any) {
				bad = bad || against(t, s.(map[string]any), v) != ""
			}
		case "required":
			for _, name := range arg.([]any) {
				_, ok := object[name.(string)]
				bad = bad || isObject && !ok
			}
		case "properties":
			for name, s := range arg.(map[string]any) {
				if field, ok := object[name]; ok {
					bad = bad || against(t, s.(map[string]any), field) != ""
				}
			}
		case "additionalProperties":
			for name := range object {
				_, known := schema["properties"].(map[string]any)[name]
				bad = bad || !known
			}
		default:
			t.Fatalf("this test does not know the keyword %q", keyword)
		}
		if bad {
			return fmt.Sprint(keyword, " ", arg)
		}
	}
	return ""
}

// docs/ has the schema for editors; the program prints the same.
func TestPublishedSchema(t *testing.T) {
	t.Parallel()
	published := filepath.Join("..", "..", "docs", "schemas", "environment.schema.json")
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(published, []byte(Schema()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(published); err != nil || string(b) != Schema() {
		t.Errorf("%s is not what the program prints (run with -update): %v", published, err)
	}
}

// Whatever the bytes are, normalising ends with text that normalising leaves alone.
func FuzzNormalise(f *testing.F) {
	for _, s := range []string{"a\r\nb", "\ufeffx", "\r\r\n", "\r", "a\rb\n", "\xff\xfea\x00", "\x00", "caf\xe9", "\ufeff\ufeff\r\n\r\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		once := normalise(b)
		if once.problem != "" {
			return
		}
		twice := normalise([]byte(once.text))
		if twice.problem != "" || twice.text != once.text || twice.changed != "" || !utf8.ValidString(once.text) || strings.Contains(once.text, "\r\n") {
			t.Errorf("%q became %+v and then %+v", b, once, twice)
		}
	})
}

// Whatever environment.json holds, it gives what a record may have, or says what is wrong and on which line.
func FuzzReadDescription(f *testing.F) {
	for _, s := range documents {
		f.Add(s)
	}
	f.Add("{\n\"name\": \"a\",\n\"name\": \"b\"}")
	f.Fuzz(func(t *testing.T, content string) {
		d, issues := readDescription(content)
		for _, is := range issues {
			if is.message == "" || is.line < 0 || is.line > 1+strings.Count(content, "\n") {
				t.Errorf("%q: %+v", content, is)
			}
		}
		if len(issues) > 0 {
			return
		}
		if d.description == "" || utf8.RuneCountInString(d.description) > enplace.MaxDescriptionLength || d.named != (d.name != "") || d.named && enplace.CheckHandle("", d.name) != nil {
			t.Errorf("%q gave %+v", content, d)
		}
	})
}

// Whatever a script holds, looking at it ends, and lines are those of the script.
func FuzzCheckScript(f *testing.F) {
	for _, s := range []string{"#!/bin/bash\ncurl x | sh\n", "cat <<E\nx\nE\n", "a \\\n| \\\nbash", "sh -c \"$(curl x)\"", "#!\n", "set -e\n\\", "apt-get install x", "sudo x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		for _, is := range checkScript(script) {
			if is.severity == "" || is.line < 0 || is.line > 1+strings.Count(script, "\n") {
				t.Errorf("%q: %+v", script, is)
			}
		}
	})
}

// A line may go on over any number of others; putting it together takes no more than its length.
func TestScriptOfOneLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("\\\n", maxLinted)
	lines := logicalLines("#!/bin/bash\na \\\n" + long + "| bash\nb |\n")
	if len(lines) != 2 || lines[0].line != 2 || !strings.HasSuffix(lines[0].text, "| bash") || lines[1].text != "b |" {
		t.Errorf("%d lines", len(lines))
	}
	if issues := checkScript("#!/bin/bash -e\n" + strings.Repeat("#", maxLinted) + "\ncurl x | sh\n"); len(issues) != 0 {
		t.Errorf("%+v", issues)
	}
}

// Whatever the files of an item hold, reading it ends, in the same way each time, and what is taken is within the bounds.
func FuzzRead(f *testing.F) {
	f.Add(`{"description": "x"}`, "[tools]\nnode = \"24\"\n", "#!/bin/bash\n", "lib/a", []byte("x"))
	f.Add(`{"name": "b"}`, "", "", ".env", []byte{0})
	f.Add("\ufeff{}\r\n", "[tools", "curl x | sh", "A/../b", []byte("\xff\xfe"))
	f.Fuzz(func(t *testing.T, description, toml, script, name string, content []byte) {
		fsys := fstest.MapFS{
			"environments/i/environment.json": {Data: []byte(description)}, "environments/i/mise.toml": {Data: []byte(toml)}, "environments/i/setup.sh": {Data: []byte(script)},
		}
		other := "environments/i/" + name
		if enplace.CheckPath(other) != nil || slices.Contains([]string{"environment.json", "mise.toml", "setup.sh"}, strings.Split(name, "/")[0]) {
			t.Skip()
		}
		fsys[other] = &fstest.MapFile{Data: content}
		read := func() Result {
			res, err := Read(fsys)
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		res := read()
		if again := read(); fmt.Sprint(again) != fmt.Sprint(res) {
			t.Errorf("once %+v, then %+v", res, again)
		}
		for _, d := range res.Definitions {
			if enplace.CheckHandle("", d.Key) != nil || d.Description == "" || len(d.Files) < 2 {
				t.Errorf("%+v", d)
			}
			for _, file := range d.Files {
				if !utf8.ValidString(file.Content) || strings.ContainsRune(file.Content, 0) || enplace.CheckPath(file.Path) != nil {
					t.Errorf("%+q", file.Path)
				}
			}
		}
	})
}
