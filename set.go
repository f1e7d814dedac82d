package enplace

import "time"

// SetItem is an item of a set, with the scope that declared it.
type SetItem struct {
	Definition
	Scope  Scope `json:"scope"`
	Locked bool  `json:"locked,omitempty" doc:"By the organisation; it has no part in the hash, because the same is installed"`
}

// Set is the ordered items of a conversation, with everything else that an installation depends on. It is made by ResolveSet
// and never changes.
type Set struct {
	Hash   string    `json:"hash" doc:"SHA-256, in hex"`
	Chain  Chain     `json:"chain"`
	Items  []SetItem `json:"items" doc:"The organisation's first, then the team's, then the person's; by key within each"`
	Egress Egress    `json:"egress" doc:"The strictest of the chain"`
	Base   Digest    `json:"base"`
	Arch   string    `json:"arch"`
	Mise   string    `json:"mise" doc:"The version of mise"`
	// Refresh is raised when latest is to be resolved anew, which makes another set of the same items.
	Refresh int `json:"refresh,omitempty"`

	Left    []LeftOut `json:"left_out" doc:"Items that the chain reads and the set does not have"`
	Clashes []Clash   `json:"clashes" doc:"Keys that two scopes of the chain declare"`
}

// LeftOut is an item that is not in a set, and why.
type LeftOut struct {
	Key    string `json:"key"`
	Scope  Scope  `json:"scope"`
	Reason string `json:"reason"`
}

// Clash is one key declared twice along a chain: refused where it is declared, and settled by rule where it arises all the same.
type Clash struct {
	Key    string `json:"key"`
	Used   Scope  `json:"used" doc:"Whose definition is used"`
	Unused Scope  `json:"unused"`
	Reason string `json:"reason"`
}

// Choice is what a scope says of an item that it reads.
type Choice struct {
	Scope Scope      `json:"scope"`
	Key   string     `json:"key"`
	State ItemChoice `json:"state"`
}

// SetInput is everything that a set is made from.
type SetInput struct {
	Chain   Chain
	Items   []Item           // of the scopes of the chain; others do not count
	Choices []Choice         // likewise
	Egress  map[Scope]Egress // of the scopes that have a policy
	Base    Digest
	Arch    string
	Mise    string
	Refresh int
}

// ToolStatus is a tool of an item as it stands on a computer or in a bundle.
type ToolStatus struct {
	Name      string     `json:"name"`
	Requested string     `json:"requested"`
	Resolved  string     `json:"resolved,omitempty" doc:"The exact version; absent until it is installed"`
	Status    ItemStatus `json:"status,omitempty" enum:"pending,installing,installed,failed,interrupted" doc:"Of this tool alone: its item may have failed by something else"`
	Commands  []string   `json:"commands,omitempty" doc:"What it brings onto PATH"`

	Source  *ToolSource `json:"source,omitempty" doc:"What it was fetched from, where its backend fetches it from an address"`
	Scripts []string    `json:"scripts,omitempty" doc:"The packages whose install scripts ran for it, with the scripts' names"`
}

// ToolSource is where a version of a tool was fetched from, and what came: a computer that installs the same version asks for
// nothing else, and takes no other bytes.
type ToolSource struct {
	URL      string            `json:"url"`
	Checksum string            `json:"checksum" doc:"Algorithm and digest of what came"`
	Backend  string            `json:"backend" doc:"Which of mise's backends fetched it, with the name that the tool has there"`
	Options  map[string]string `json:"options,omitempty" doc:"What the item says of how it is fetched"`
}

// ItemStatus is the state of an item on a computer.
type ItemStatus string

// The states.
const (
	ItemPending     ItemStatus = "pending"
	ItemInstalling  ItemStatus = "installing"
	ItemInstalled   ItemStatus = "installed"
	ItemFailed      ItemStatus = "failed"
	ItemInterrupted ItemStatus = "interrupted" // the installation was killed; it is redone
)

// InstalledItem is an item of a set as it stands on a computer or in a bundle.
type InstalledItem struct {
	Key        string       `json:"key"`
	Scope      Scope        `json:"scope"`
	Tools      []ToolStatus `json:"tools"`
	Status     ItemStatus   `json:"status" enum:"pending,installing,installed,failed,interrupted"`
	Error      string       `json:"error,omitempty" doc:"What failed, in a line"`
	ErrorTail  string       `json:"error_tail,omitempty" doc:"The end of what it printed, redacted"`
	Notes      []string     `json:"notes,omitempty" doc:"What is worth knowing of an installation that succeeded"`
	ElapsedMS  int64        `json:"elapsed_ms,omitempty"`
	Definition string       `json:"definition,omitempty" doc:"SHA-256 of the definition that this is the state of"`
}

// BundleStatus is the state of a set's bundle.
type BundleStatus string

// The states.
const (
	BundleBuilding    BundleStatus = "building"
	BundleReady       BundleStatus = "ready"
	BundleFailed      BundleStatus = "failed"
	BundleNotPrepared BundleStatus = "not_prepared" // the chain's egress is restricted: computers install directly
)

// Bundle is the image of an installed set.
type Bundle struct {
	Status  BundleStatus    `json:"status" enum:"building,ready,failed,not_prepared"`
	Reason  string          `json:"reason,omitempty" doc:"Why it failed, is not prepared, or waits to be built again"`
	Image   Digest          `json:"image,omitempty"`
	Bytes   int64           `json:"bytes,omitempty"`
	Items   []InstalledItem `json:"items,omitempty" doc:"With exact versions"`
	BuiltAt *time.Time      `json:"built_at,omitempty"`
	UsedAt  *time.Time      `json:"used_at,omitempty"`
}

// RetriedSet says what a retry of a set reached.
type RetriedSet struct {
	Computers int    `json:"computers" doc:"On how many the set is tried again"`
	Bundle    Bundle `json:"bundle"`
}

// ConversationSet is the set of a conversation as it stands on its computer.
type ConversationSet struct {
	Hash    string          `json:"hash"`
	Chain   Chain           `json:"chain"`
	Items   []InstalledItem `json:"items"`
	RetryAt *time.Time      `json:"retry_at,omitempty" doc:"When what failed is tried again by itself; one that is past is tried now, or at the computer's next use where it is stopped"`
	Bundle  Bundle          `json:"bundle"`
	Egress  Egress          `json:"egress"`
	Left    []LeftOut       `json:"left_out"`
	Clashes []Clash         `json:"clashes"`
}

// ExplainedTool says of one tool which scope, item and line gave it, what of it is installed, and whose commands run instead.
type ExplainedTool struct {
	ToolStatus
	Item       string     `json:"item"`
	Scope      Scope      `json:"scope"`
	File       string     `json:"file"`
	Line       int        `json:"line"`
	ItemStatus ItemStatus `json:"item_status" enum:"pending,installing,installed,failed,interrupted"`
	Overridden []Override `json:"overridden_by,omitempty" doc:"Other items of the set that give the same, and whose commands run"`
}

// Override is an item of a set whose commands run instead of those of another's tool.
type Override struct {
	Item     string   `json:"item"`
	Scope    Scope    `json:"scope"`
	Commands []string `json:"commands" doc:"Which of the tool's, as far as they are known"`
}

// ExplainedSet is a set with the reason for each of its parts.
type ExplainedSet struct {
	Hash    string          `json:"hash"`
	Chain   Chain           `json:"chain"`
	Tools   []ExplainedTool `json:"tools"`
	Scripts []SetScript     `json:"scripts" doc:"Items with a setup.sh"`
	Egress  Egress          `json:"egress"`
	From    []ScopeEgress   `json:"egress_from" doc:"The policies of the chain that make it"`
	Left    []LeftOut       `json:"left_out"`
	Clashes []Clash         `json:"clashes"`
}

// SetScript is an item's setup.sh.
type SetScript struct {
	Item  string     `json:"item"`
	Scope Scope      `json:"scope"`
	State ItemStatus `json:"status"`
}

// ScopeEgress is the egress policy of a scope.
type ScopeEgress struct {
	Scope  Scope  `json:"scope"`
	Egress Egress `json:"egress"`
}
