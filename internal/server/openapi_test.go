package server_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

const golden = "../../docs/openapi.json"

func TestOpenAPI(t *testing.T) {
	t.Parallel()
	b := start(t)
	doc := b.srv.OpenAPI()
	if *update {
		if err := os.WriteFile(golden, doc, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(doc, want) {
		t.Errorf("the document and %s differ; run go test ./internal/server -update and look at what changed", golden)
	}
	if resp, served := b.request(t, "GET", "/openapi.json", nil, "Authorization", ""); resp.StatusCode != 200 || served != string(doc) {
		t.Errorf("served without a key: %d", resp.StatusCode)
	}
}

// The routes as routes.go writes them, and those of the document: neither has one that the other lacks.
func TestRoutesAndDocumentAgree(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("routes.go")
	if err != nil {
		t.Fatal(err)
	}
	routes := map[string]bool{}
	for _, m := range regexp.MustCompile(`handle\(at, "([A-Z]+ [^"]+)", "([a-z-]+)"`).FindAllStringSubmatch(string(source), -1) {
		routes[strings.ReplaceAll(m[1], "...}", "}")+" "+m[2]] = true
	}
	var doc struct {
		OpenAPI string `json:"openapi"`
		Paths   map[string]map[string]struct {
			OperationID string                     `json:"operationId"`
			Summary     string                     `json:"summary"`
			Responses   map[string]json.RawMessage `json:"responses"`
			Security    []any                      `json:"security"`
		} `json:"paths"`
		Components struct {
			Schemas         map[string]json.RawMessage `json:"schemas"`
			SecuritySchemes map[string]json.RawMessage `json:"securitySchemes"`
		} `json:"components"`
	}
	if err := json.Unmarshal(start(t).srv.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") || doc.Components.SecuritySchemes["bearer"] == nil || doc.Components.Schemas["Problem"] == nil {
		t.Errorf("version %q, schemes %v", doc.OpenAPI, doc.Components.SecuritySchemes)
	}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			route := strings.ToUpper(method) + " " + path + " " + op.OperationID
			if !routes[route] {
				t.Errorf("the document has %s, and the mux has not", route)
			}
			delete(routes, route)
			if op.Summary == "" || op.Responses["default"] == nil {
				t.Errorf("%s has no summary or no problem", route)
			}
		}
	}
	for route := range routes {
		t.Errorf("the mux has %s, and the document has not", route)
	}
}

// Every list comes in pages, with the same parameters and the same envelope.
func TestEveryListIsPaged(t *testing.T) {
	t.Parallel()
	type schema struct {
		Ref        string                     `json:"$ref"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Parameters  []struct {
				Name   string `json:"name"`
				Schema struct {
					Maximum float64 `json:"maximum"`
				} `json:"schema"`
			} `json:"parameters"`
			Responses map[string]struct {
				Content map[string]struct {
					Schema schema `json:"schema"`
				} `json:"content"`
			} `json:"responses"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(start(t).srv.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	lists := 0
	for path, methods := range doc.Paths {
		op := methods["get"]
		answer := op.Responses["200"].Content["application/json"].Schema
		list := strings.HasPrefix(op.OperationID, "list-")
		if of := doc.Components.Schemas[strings.TrimPrefix(answer.Ref, "#/components/schemas/")]; (of.Properties["items"] != nil && of.Properties["next"] != nil) != list {
			t.Errorf("%s at %s answers %s, and is a list by its name or by its answer alone", op.OperationID, path, answer.Ref)
		}
		if !list {
			continue
		}
		lists++
		bounds := map[string]float64{}
		for _, p := range op.Parameters {
			bounds[p.Name] = p.Schema.Maximum
		}
		if _, ok := bounds["cursor"]; !ok || bounds["limit"] < 500 {
			t.Errorf("%s at %s has the parameters %v", op.OperationID, path, bounds)
		}
	}
	if lists < 15 {
		t.Errorf("there are %d lists: this looks at the wrong thing", lists)
	}
}
