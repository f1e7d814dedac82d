package server

import (
	"testing"

	"enplace"
)

func TestNumbersTooLargeForTheirFields(t *testing.T) {
	t.Parallel()
	var v struct {
		enplace.ExecRequest
		A struct {
			B int `json:"b"`
		} `json:"a"`
	}
	for body, want := range map[string]string{
		`{"timeout": 1e30}`:  "timeout cannot hold this number 1e30",
		`{"a": {"b": 1e30}}`: "a.b cannot hold this number 1e30",
		`[]`:                 "it cannot hold this array",
	} {
		if err := readJSON([]byte(body), &v); err == nil || err.Error() != want {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestJSONThatMeansThisOrThat(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"a": 1, "b": {"a": 1}, "c": [{"a": 1}, {"a": 2}]}`: "",
		`{"a": "a", "b": "a", "c": ["a", "a"]}`:              "",
		`[1, "a", {"a": {}}, {}, "a"]`:                       "",
		`"\ud83d\ude00 \\ud800 \u00e4"`:                      "",
		`"\\\ud83d\ude00"`:                                   "",
		`7`:                                                  "",
		`{"a": 1, "a": 1}`:                                   `the field "a" is there twice; keep one`,
		`{"a": 1, "\u0061": 2}`:                              `the field "a" is there twice; keep one`,
		`[{"b": {"c": [], "d": 1, "c": {}}}]`:                `the field "c" is there twice; keep one`,
		`{"a": {"b": 1}, "c": [], "a": 2}`:                   `the field "a" is there twice; keep one`,
		`"\ud800"`:                                           "it holds text that is no Unicode",
		`"\ud800\u0041"`:                                     "it holds text that is no Unicode",
		`{"\\\\\udc00": 1}`:                                  "it holds text that is no Unicode",
		"\"\xff\"":                                           "it holds text that is no Unicode",
	} {
		var v any
		err := readJSON([]byte(body), &v)
		if err == nil != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}
