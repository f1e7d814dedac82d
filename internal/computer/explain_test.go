package computer_test

import (
	"fmt"
	"strings"
	"testing"

	"enplace/internal/toolchain/toolchaintest"
)

// Of a tool that is asked for in several versions each is explained by itself.
func TestExplainSeveralVersionsOfATool(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	with := h.Direct("ann")
	h.Attach("person:ann", "own", toolchaintest.Item("own", "", "[tools]\nnode = [\n  \"24\",\n  \"22\",\n]\n[[tools.go]]\nversion = \"1.26\"\n[[tools.go]]\nversion = \"1.25\"\n"))
	explained, err := h.computers.Explain(t.Context(), operator, with)
	check(t, err)
	var got []string
	for _, tool := range explained.Tools {
		got = append(got, fmt.Sprintf("%d:%s@%s", tool.Line, tool.Name, tool.Requested))
	}
	if all := strings.Join(got, " "); all != "3:node@24 4:node@22 6:go@1.26 8:go@1.25" {
		t.Error(all)
	}
}
