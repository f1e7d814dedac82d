package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// field is one that a tool takes.
type field struct {
	name, about string
	required    bool
}

// fieldsOf gives the fields of a tool's input, in their order.
func fieldsOf[In any]() (all []field) {
	in := reflect.TypeFor[In]()
	for i := range in.NumField() {
		name, rest, _ := strings.Cut(in.Field(i).Tag.Get("json"), ",")
		all = append(all, field{name, in.Field(i).Tag.Get("jsonschema"), !strings.Contains(rest, "omitempty")})
	}
	return all
}

// toolFields are the fields of each tool, by its name.
type toolFields map[string][]field

// addTool adds a tool whose errors an agent can read, those about its fields too.
func addTool[In, Out any](s *mcp.Server, known toolFields, tool *mcp.Tool, do func(context.Context, In) (Out, error)) {
	known[tool.Name] = fieldsOf[In]()
	mcp.AddTool(s, tool, handle(do))
}

// check answers calls that lack a field of their tool, or bring one that it does not have: the library tells an agent the rule of the
// schema that was broken, and not what to write.
func (known toolFields) check(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if call, ok := req.GetParams().(*mcp.CallToolParamsRaw); ok && method == "tools/call" {
			if fields, ok := known[call.Name]; ok {
				if wrong := wrongFields(fields, call.Arguments); wrong != "" {
					var res mcp.CallToolResult
					res.SetError(fmt.Errorf("%s", wrong))
					return &res, nil
				}
			}
		}
		return next(ctx, method, req)
	}
}

// wrongFields says which fields are missing and which are not known, and lists those that there are; "" where nothing is amiss. What is
// no object is left to the schema.
func wrongFields(fields []field, raw json.RawMessage) string {
	given := map[string]json.RawMessage{}
	if len(raw) > 0 && json.Unmarshal(raw, &given) != nil {
		return ""
	}
	var wrong, takes []string
	for _, f := range fields {
		line := "- " + f.name
		if f.required {
			line += " (required)"
		}
		if f.about != "" {
			line += ": " + f.about
		}
		takes = append(takes, line)
		if _, ok := given[f.name]; f.required && !ok {
			wrong = append(wrong, f.name+" is missing")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(fields, func(f field) bool { return f.name == name }) {
			wrong = append(wrong, fmt.Sprintf("there is no field %q", name))
		}
	}
	switch {
	case len(wrong) == 0:
		return ""
	case len(takes) == 0:
		return strings.Join(wrong, "; ") + "; the tool takes no fields"
	}
	return strings.Join(wrong, "; ") + "; the fields are\n" + strings.Join(takes, "\n")
}
