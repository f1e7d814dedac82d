package guest

import (
	"bytes"
	"encoding/json"

	"enplace/internal/shim"
)

// Where the programs of Enplace are inside every sandbox, at each start: the guest's, and the target of the links that are shims.
const (
	Path     = "/run/enplace/guest"
	ShimPath = shim.Path
)

// ShimIndex says what the shims do for the conversations of one set. It holds every command that the set selects; a set that
// selects none needs an index too, or its conversations are told that their tools are not there yet.
type ShimIndex struct {
	Set      string `json:"set"`     // the set's hash
	Default  bool   `json:"default"` // what a shim takes that is called without any hint of a conversation
	Commands []Shim `json:"commands"`
}

// Shim is a command that a set selects. Failed, where it is not empty, says why its item could not be installed; then Target
// counts for nothing.
type Shim struct {
	Name   string `json:"name"`
	Target string `json:"target,omitempty"` // absolute
	Item   string `json:"item"`
	Scope  string `json:"scope"`
	Failed string `json:"failed,omitempty"`
}

// WrittenShims is what the command of WriteShims or DropShims prints, as JSON.
type WrittenShims struct {
	Links    int           `json:"links"`    // names that have a shim now, for any set
	Refused  []RefusedShim `json:"refused"`  // commands that have none
	Replaced []string      `json:"replaced"` // names at which something else stood in the folder of shims
}

// RefusedShim is a command that gets no shim, and why.
type RefusedShim struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// WriteShims gives the command that writes a set's index inside a sandbox and makes the folder of shims right. It may be
// killed at any moment and run again, beside shims that are called and beside others of its kind. It runs as root.
func WriteShims(i ShimIndex) Command { return shimsCommand(shimsRequest{Write: &i}) }

// DropShims gives the command that removes a set's index, and the shims that nothing selects any more.
func DropShims(set string) Command { return shimsCommand(shimsRequest{Drop: set}) }

// shimsRequest is what `enplace-guest shims` reads.
type shimsRequest struct {
	Write *ShimIndex `json:"write,omitempty"`
	Drop  string     `json:"drop,omitempty"`
}

func shimsCommand(r shimsRequest) Command {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // cannot be: strings and booleans
	}
	return Command{Argv: []string{Path, "shims"}, Dir: "/", Stdin: bytes.NewReader(b)}
}
