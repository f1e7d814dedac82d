package enplace

// Problem is how an Error crosses the wire: problem details (RFC 9457) with the kind, the field at fault and what mends it.
type Problem struct {
	Type     string   `json:"type" doc:"Always about:blank; kind tells problems apart"`
	Title    string   `json:"title" doc:"What the status means"`
	Status   int      `json:"status" doc:"The HTTP status"`
	Detail   string   `json:"detail" doc:"What is wrong and what to do"`
	Kind     Kind     `json:"kind" enum:"malformed,invalid,unauthenticated,forbidden,not_found,conflict,too_large,busy,upstream,unavailable,internal"`
	Field    string   `json:"field,omitempty" doc:"The field, file or parameter at fault"`
	Fixes    []string `json:"fixes,omitempty" doc:"Commands or steps that mend it, most likely first"`
	Instance string   `json:"instance" doc:"The request, as the server's log calls it"`
}

// Err rebuilds the Error.
func (p Problem) Err() *Error {
	return &Error{Kind: p.Kind, Message: p.Detail, Field: p.Field, Fixes: p.Fixes}
}
