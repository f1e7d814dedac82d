package mise

import (
	"cmp"
	"errors"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"enplace"
)

// document is a mise.toml with the place of each of its keys: the decoder gives values without places, the parser below it
// gives places without knowing what stands twice.
type document struct {
	values map[string]any
	places map[string]place
}

// maxDepth is how deep places are looked for; nothing of mise.toml that is checked lies deeper. A stranger's key may have any
// number of parts.
const maxDepth = 8

// place is where a key stands first.
type place struct {
	line  int // from 1
	order int // among all keys
}

// parse reads TOML, or says where it is none.
func parse(content string) (document, *enplace.Finding) {
	d := document{places: map[string]place{}}
	if err := toml.Unmarshal([]byte(content), &d.values); err != nil {
		f := enplace.Finding{Severity: enplace.FindingError, Message: "this is not valid TOML"}
		var at *toml.DecodeError
		if errors.As(err, &at) {
			var column int
			f.Line, column = at.Position()
			f.Message += ": " + enplace.Shown(strings.TrimPrefix(at.Error(), "toml: "), 200) + " (column " + strconv.Itoa(column) + ")"
		}
		return d, &f
	}
	d.locate(content)
	return d, nil
}

// locate fills the places. The content was decoded, so it parses.
func (d document) locate(content string) {
	w := walker{document: d, lines: []int{0}, arrays: map[string]int{}}
	for i := range len(content) {
		if content[i] == '\n' {
			w.lines = append(w.lines, i+1)
		}
	}
	w.parser.Reset([]byte(content))
	var table []string
	for w.parser.NextExpression() {
		switch e := w.parser.Expression(); e.Kind {
		case unstable.Table:
			table = w.keys(w.insideArrays, nil, e)
		case unstable.ArrayTable:
			table = w.keys(w.insideArrays, nil, e)
			name := pathOf(table...)
			table = append(table, strconv.Itoa(w.arrays[name]))
			w.arrays[name]++
			w.put(table, e.Child().Raw)
		case unstable.KeyValue:
			w.keyValue(table, e)
		}
	}
}

// walker goes through the expressions of a document.
type walker struct {
	document
	parser unstable.Parser
	lines  []int          // offsets at which lines begin
	arrays map[string]int // the length so far of each array of tables
}

// keys gives the path of a key below a parent and records each part of it. enter is asked after each part, for what else
// belongs to the path there.
func (w *walker) keys(enter func([]string) []string, parent []string, e *unstable.Node) []string {
	keys := slices.Clone(parent)
	for it := e.Key(); it.Next() && len(keys) < maxDepth; {
		if enter != nil {
			keys = enter(keys)
		}
		keys = append(keys, string(it.Node().Data))
		w.put(keys, it.Node().Raw)
	}
	return keys
}

// insideArrays leads a path to an array of tables on into its last element.
func (w *walker) insideArrays(keys []string) []string {
	if n := w.arrays[pathOf(keys...)]; n > 0 {
		return append(keys, strconv.Itoa(n-1))
	}
	return keys
}

func (w *walker) keyValue(parent []string, e *unstable.Node) {
	w.value(w.keys(nil, parent, e), e.Value())
}

// value goes on into inline tables and arrays.
func (w *walker) value(keys []string, v *unstable.Node) {
	if len(keys) >= maxDepth {
		return
	}
	switch v.Kind {
	case unstable.InlineTable:
		for it := v.Children(); it.Next(); {
			if it.Node().Kind == unstable.KeyValue {
				w.keyValue(keys, it.Node())
			}
		}
	case unstable.Array:
		i := 0
		for it := v.Children(); it.Next(); {
			if it.Node().Kind == unstable.Comment {
				continue
			}
			element := append(slices.Clone(keys), strconv.Itoa(i))
			if it.Node().Raw.Length > 0 {
				w.put(element, it.Node().Raw)
			}
			w.value(element, it.Node())
			i++
		}
	}
}

func (w *walker) put(keys []string, r unstable.Range) {
	path := pathOf(keys...)
	if _, ok := w.places[path]; ok {
		return
	}
	line := sort.SearchInts(w.lines, int(r.Offset)+1)
	w.places[path] = place{line: line, order: len(w.places)}
}

// pathOf names a key by the keys that lead to it; elements of arrays are keys by their number.
func pathOf(keys ...string) string { return strings.Join(keys, "\x00") }

// line gives the line of a key, or of the nearest one above that has a place; 0 for the document itself.
func (d document) line(path string) int {
	for {
		if p, ok := d.places[path]; ok {
			return p.line
		}
		i := strings.LastIndexByte(path, 0)
		if i < 0 {
			return 0
		}
		path = path[:i]
	}
}

// keysOf gives the keys of a table in the order of the file.
func (d document) keysOf(table map[string]any, path ...string) []string {
	var keys []string
	for key := range table {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(d.places[pathOf(append(path, a)...)].order, d.places[pathOf(append(path, b)...)].order), cmp.Compare(a, b))
	})
	return keys
}
