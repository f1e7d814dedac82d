package provision

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"enplace"
	"enplace/internal/sandbox"
)

// Bounds of what a box says of the tools that were installed inside. It is the word of whoever is root there.
const (
	localTimeout = 10 * time.Second
	localLimit   = 1 << 20
	maxLocal     = 200
	maxLocalText = 200
)

// Local gives the tools that were installed inside of a box, with `mise use`, by name.
func Local(ctx context.Context, box Box) ([]enplace.ToolStatus, error) {
	out := &bounded{limit: localLimit}
	exit, err := box.Exec(ctx, sandbox.Command{
		Argv: []string{enplace.ShimsDir + "/mise", "ls", "--json", "--global"}, Env: sandbox.BaseEnv(), Dir: "/",
		Stdout: out, Timeout: localTimeout, Whole: true,
	})
	tools := []enplace.ToolStatus{}
	if err != nil || exit.Code != 0 { // also where no set was brought onto it yet, so that there is no such program
		return tools, fatal(ctx, err)
	}
	var listed map[string][]struct {
		Version   string `json:"version"`
		Requested string `json:"requested_version"`
		Installed bool   `json:"installed"`
	}
	if err := json.Unmarshal(out.Bytes(), &listed); err != nil {
		return tools, fmt.Errorf("reading what is installed inside: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		for _, v := range listed[name] {
			if v.Installed && len(tools) < maxLocal {
				tools = append(tools, enplace.ToolStatus{
					Name: enplace.Shown(name, maxLocalText), Requested: enplace.Shown(v.Requested, maxLocalText), Resolved: enplace.Shown(v.Version, maxLocalText),
				})
			}
		}
	}
	return tools, nil
}
