package server

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"enplace"
)

// newAPI makes the huma API of a server, with JSON as the only format and no pages of its own.
func newAPI(s *Server) huma.API {
	setUpHuma()
	cfg := huma.DefaultConfig("Enplace", s.cfg.Version)
	cfg.CreateHooks = nil // they put $schema into bodies
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath = "", "", ""
	cfg.RejectUnknownQueryParameters = true
	format := huma.Format{Marshal: writeJSON, Unmarshal: readJSON}
	cfg.Formats = map[string]huma.Format{"application/json": format, "json": format}
	cfg.Info.Description = description
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", BearerFormat: "enp_…", Description: "An API key, made by POST /v1/keys"},
	}
	cfg.Security = []map[string][]string{{"bearer": {}}}
	registry := cfg.Components.Schemas
	registry.RegisterTypeAlias(reflect.TypeFor[enplace.Egress](), reflect.TypeFor[egressSchema]())
	registry.RegisterTypeAlias(reflect.TypeFor[enplace.Packages](), reflect.TypeFor[enplace.PackageLists]())
	registry.RegisterTypeAlias(reflect.TypeFor[problem](), reflect.TypeFor[enplace.Problem]())
	return humago.New(routeMux{s}, cfg)
}

const description = `Everything in place before an agent starts: projects with their packages, built once into immutable
versions, and tasks that start with them in milliseconds; and computers of people and rooms, with the tools that their
organisation, team and they themselves declare.

Errors are problem details (RFC 9457) with a kind from a closed list, the field at fault and what mends it. Lists come in
pages: send next as cursor for the page after. A request that changes something takes an Idempotency-Key: sent again with the
same key within a day, it gets the first answer and changes nothing more.`

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// egressSchema describes enplace.Egress, which is also written as the bare policy.
type egressSchema enplace.Egress

// Schema gives both forms.
func (*egressSchema) Schema(huma.Registry) *huma.Schema {
	policy := &huma.Schema{Type: huma.TypeString, Enum: []any{"open", "allowlist", "none"}}
	bare := &huma.Schema{Type: huma.TypeString, Enum: []any{"open", "none"}}
	whole := &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: false, Required: []string{"policy"},
		Properties: map[string]*huma.Schema{
			"policy": policy,
			"hosts": {
				Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString},
				Description: "For allowlist: host names, *.example.org for all below one",
			},
		},
	}
	return &huma.Schema{OneOf: []*huma.Schema{bare, whole}}
}

// schemaOf gives the schema of a type.
func schemaOf[T any](r huma.Registry) *huma.Schema { return r.Schema(reflect.TypeFor[T](), true, "") }

// streamed documents the bodies of a route that takes bytes, or bytes and JSON.
func streamed(api huma.API, description string, types map[string]*huma.Schema) *huma.RequestBody {
	content := map[string]*huma.MediaType{}
	for t, schema := range types {
		content[t] = &huma.MediaType{Schema: schema}
	}
	return &huma.RequestBody{Required: true, Description: description, Content: content}
}

// finishDocument makes what huma derived into what is served: paths as OpenAPI writes them, and the problem of every
// operation. It gives the document's bytes.
func finishDocument(doc *huma.OpenAPI) ([]byte, error) {
	paths := make(map[string]*huma.PathItem, len(doc.Paths))
	for path, item := range doc.Paths {
		paths[strings.ReplaceAll(path, "...}", "}")] = item
		for _, op := range operations(item) {
			op.Responses["default"] = &huma.Response{
				Description: "What is wrong, and what to do",
				Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: schemaOf[enplace.Problem](doc.Components.Schemas)}},
			}
		}
	}
	doc.Paths = paths
	b, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the OpenAPI document: %w", err)
	}
	return append(b, '\n'), nil
}

// operations gives the operations of a path.
func operations(item *huma.PathItem) []*huma.Operation {
	all := []*huma.Operation{item.Get, item.Head, item.Post, item.Put, item.Delete}
	return slices.DeleteFunc(all, func(op *huma.Operation) bool { return op == nil })
}
