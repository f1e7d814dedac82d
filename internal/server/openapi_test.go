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
