package mise

import "enplace"

// Check reads a mise.toml of an item.
func Check(content string) ([]enplace.DeclaredTool, []enplace.Finding) {
	return nil, nil
}
