package enplace

import "time"

// KeyKind says what a key belongs to.
type KeyKind string

// The kinds of key.
const (
	KeyOperator KeyKind = "operator" // everything
	KeyPerson   KeyKind = "person"   // what that person created
	KeyHarness  KeyKind = "harness"  // start and read tasks of one harness, read its environment
	KeyAgent    KeyKind = "agent"    // commands and files of one task, or commands of one conversation
)

// Key is an API key. Its secret is shown once, when it is made, and stored hashed.
type Key struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	Kind      KeyKind    `json:"kind" enum:"operator,person,harness,agent"`
	Subject   string     `json:"subject,omitempty" doc:"The person's login, the harness's id, the task's id, or conversation:ID"`
	Secret    string     `json:"key,omitempty" doc:"The key itself; only in the answer that made it"`
	CreatedBy string     `json:"created_by"`
	CreatedAt time.Time  `json:"created_at"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
	LastUsed  *time.Time `json:"last_used_at,omitempty"`
}

// CreateKey asks for a key.
type CreateKey struct {
	Name    string  `json:"name" maxLength:"200"`
	Kind    KeyKind `json:"kind" enum:"operator,person,harness,agent"`
	Subject string  `json:"subject,omitempty" doc:"The person's login, the harness's id, the task's id, or conversation:ID"`
}

// Identity says who a key belongs to.
type Identity struct {
	Name    string  `json:"name" doc:"As in owner and created_by"`
	KeyID   string  `json:"key_id"`
	Kind    KeyKind `json:"kind" enum:"operator,person,harness,agent"`
	Subject string  `json:"subject,omitempty"`
}

// Caller is who asks: the key that a request came with.
type Caller struct {
	KeyID   string
	Kind    KeyKind
	Subject string
}

// Name is how records call the caller: operator, a person's login, or a harness's or task's id.
func (c Caller) Name() string {
	if c.Kind == KeyOperator {
		return "operator"
	}
	return c.Subject
}

// AuditEntry is the record of one change.
type AuditEntry struct {
	ID     string         `json:"id"`
	At     time.Time      `json:"at"`
	Actor  string         `json:"actor"`
	KeyID  string         `json:"key_id,omitempty"`
	Action string         `json:"action" doc:"Such as environment.create"`
	Target string         `json:"target"`
	Detail map[string]any `json:"detail,omitempty"`
}

// Page asks for a part of a list: at most Limit entries after Cursor.
type Page struct {
	Limit  int
	Cursor string // opaque to callers; empty for the first page
}

// List is a page of a list.
type List[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty" doc:"The cursor of the next page; absent on the last"`
}
