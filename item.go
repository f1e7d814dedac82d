package enplace

import "time"

// Bounds of an item's definition.
const (
	MaxItemBytes         = 1 << 20 // all files of one item
	MaxItemFiles         = 200
	MaxDescriptionLength = 400 // characters
	MaxPluginItems       = 200
	MaxScopeItems        = 500
	MaxScopeBytes        = 16 << 20 // all files of a scope's items
)

// The files of an item that have a meaning.
const (
	ItemsFolder    = "environments" // of a plugin; fixed
	ItemFileName   = "environment.json"
	ItemMiseName   = "mise.toml"
	ItemScriptName = "setup.sh"
)

// ItemMode says whether conversations that read an item's scope have it unless told otherwise.
type ItemMode string

// The modes.
const (
	ItemAdded     ItemMode = "added"     // in the set of every conversation that reads its scope
	ItemAvailable ItemMode = "available" // in a set only where the home or a nearer scope added it
)

// ItemChoice is what a scope says of an item that it reads.
type ItemChoice string

// The choices. ChoiceInherit is the absence of one.
const (
	ChoiceAdded   ItemChoice = "added"
	ChoiceOff     ItemChoice = "off"
	ChoiceInherit ItemChoice = "inherit"
)

// ItemFile is one file of an item as it was normalised: UTF-8 text with line feeds, no byte-order mark.
type ItemFile struct {
	Path    string `json:"path" doc:"Relative to the item's folder"`
	Content string `json:"content"`
}

// DeclaredTool is one entry under [tools] of an item's mise.toml.
type DeclaredTool struct {
	Name    string `json:"name" doc:"As mise knows it, such as node or npm:prettier"`
	Version string `json:"version" doc:"As it is asked for, such as 24, 1.2.3 or latest"`
	Line    int    `json:"line" doc:"Of mise.toml"`
}

// Definition is what an item's folder says, normalised and checked.
type Definition struct {
	Key         string         `json:"key"`
	Folder      string         `json:"folder" doc:"Below environments/, as the plugin has it"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Files       []ItemFile     `json:"files" doc:"Ordered by path"`
	Tools       []DeclaredTool `json:"tools" doc:"In the order of mise.toml"`
}

// File gives the content of a file of the definition.
func (d Definition) File(path string) (content string, ok bool) {
	for _, f := range d.Files {
		if f.Path == path {
			return f.Content, true
		}
	}
	return "", false
}

// Severity says whether a finding stops an item.
type Severity string

// The severities.
const (
	FindingError   Severity = "error"   // the item is refused
	FindingWarning Severity = "warning" // it is taken, and probably not what was meant
	FindingNotice  Severity = "notice"  // it was taken after a change, such as of its line ends
)

// Finding is what a check of an item says, with the place that it is about.
type Finding struct {
	Severity Severity `json:"severity" enum:"error,warning,notice"`
	Item     string   `json:"item,omitempty" doc:"The item's folder"`
	File     string   `json:"file,omitempty" doc:"Relative to the plugin"`
	Line     int      `json:"line,omitempty" doc:"From 1; absent where there is none"`
	Message  string   `json:"message" doc:"What is wrong and what to do"`
}

// Item is a toolchain that a scope declares.
type Item struct {
	Definition
	Scope     Scope     `json:"scope"`
	Plugin    string    `json:"plugin,omitempty" doc:"The id of the plugin that it came with"`
	Mode      ItemMode  `json:"mode" enum:"added,available"`
	Enabled   bool      `json:"enabled" doc:"One that is not is in no set"`
	Locked    bool      `json:"locked" doc:"No nearer scope can switch it off, on, or use its key; the organisation's alone can be"`
	Findings  []Finding `json:"findings,omitempty" doc:"Of the last check: warnings and notices; errors where a later definition was refused and this one was kept"`
	UpdatedAt time.Time `json:"updated_at"`
}

// ListedItem is an item as a scope sees it: its own, or one that it inherits.
type ListedItem struct {
	Item
	Choice ItemChoice `json:"choice,omitempty" doc:"What the scope that was asked about says of it"`
	InSet  bool       `json:"in_set" doc:"Whether a conversation that reads just this scope and those above has it"`
	Reason string     `json:"reason" doc:"Why it is in the set, or is not"`
}

// UpdateItem changes how an item of a scope is offered; what is absent stays.
type UpdateItem struct {
	Mode    *ItemMode `json:"mode,omitempty" enum:"added,available"`
	Enabled *bool     `json:"enabled,omitempty"`
	Locked  *bool     `json:"locked,omitempty"`
}

// PutChoice says what a scope wants of an item that it reads.
type PutChoice struct {
	State ItemChoice `json:"state" enum:"added,off,inherit"`
}

// PluginSource says where a plugin is synced from.
type PluginSource struct {
	GitURL string `json:"git_url,omitempty" doc:"https"`
	Ref    string `json:"ref,omitempty" doc:"Branch, tag or commit; the remote's default unless set"`
	Path   string `json:"path,omitempty" doc:"The plugin's folder in the repository"`
}

// Plugin is a folder, archive or git repository attached to a scope, whose environments folder declares items.
type Plugin struct {
	ID       string       `json:"id"`
	Name     string       `json:"name"`
	Scope    Scope        `json:"scope"`
	Source   PluginSource `json:"source,omitzero" doc:"Absent for one that came as an archive"`
	Commit   string       `json:"commit,omitempty" doc:"The commit that the items came from"`
	Digest   Digest       `json:"digest,omitempty" doc:"Of the archive that the items came from"`
	Items    []string     `json:"items" doc:"Keys"`
	Findings []Finding    `json:"findings" doc:"Of the last sync; an item that it broke keeps its last good definition"`
	Error    *Failure     `json:"error,omitempty" doc:"Why the last sync could not read the source at all"`
	SyncedAt time.Time    `json:"synced_at"`
	// TriedAt is later than SyncedAt when the last sync failed.
	TriedAt   time.Time `json:"tried_at"`
	CreatedAt time.Time `json:"created_at"`
}

// CreatePlugin attaches a plugin of a git repository to a scope.
type CreatePlugin struct {
	Scope  Scope        `json:"scope"`
	Name   string       `json:"name"`
	Source PluginSource `json:"source"`
}
