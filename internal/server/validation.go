package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"enplace"
)

// setUpHuma makes huma answer with our problems, compare names of fields exactly, and take arrays for never null. The library
// keeps these for the whole process; they are the same for every Server.
var setUpHuma = sync.OnceFunc(func() {
	huma.ValidateStrictCasing = true
	huma.DefaultArrayNullable = false
	huma.NewError = func(status int, msg string, _ ...error) huma.StatusError {
		return &problem{Problem: enplace.Problem{Type: "about:blank", Status: status, Title: http.StatusText(status), Detail: msg}}
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		return problemOf(ctx.Context(), refused(ctx.Operation(), status, msg, errs))
	}
})

// refused turns what huma found wrong with a request into an error of ours.
func refused(op *huma.Operation, status int, msg string, errs []error) error {
	var details []*huma.ErrorDetail
	for _, err := range errs {
		var d *huma.ErrorDetail
		if !errors.As(err, &d) {
			return fmt.Errorf("%s: %w", msg, err)
		}
		details = append(details, d)
	}
	switch {
	case len(details) == 0 && status == http.StatusBadRequest:
		return enplace.Errorf(enplace.KindMalformed, "a JSON body is required").WithField("body")
	case len(details) == 0:
		return errors.New(msg)
	case status == http.StatusBadRequest:
		return enplace.Errorf(enplace.KindMalformed, "the body is not JSON: %s", details[0].Message).WithField("body")
	}
	slices.SortFunc(details, func(a, b *huma.ErrorDetail) int { // what could not be read comes first
		return cmp.Or(-cmp.Compare(unexpected(a), unexpected(b)), cmp.Compare(a.Location, b.Location), cmp.Compare(a.Message, b.Message))
	})
	e := enplace.Invalidf("")
	for i, d := range details {
		field, message, malformed := readDetail(d)
		if i == 0 {
			e.Field, e.Message = field, message
		} else if i < 10 {
			e.Message += "; " + field + ": " + message
		}
		if malformed {
			e.Kind = enplace.KindMalformed
		}
		if d.Message == validation.MsgUnexpectedProperty && op != nil && len(e.Fixes) == 0 {
			e.Fixes = append(e.Fixes, "remove it, or correct its name; /openapi.json describes "+op.OperationID)
		}
	}
	return e
}

func unexpected(d *huma.ErrorDetail) int {
	if d.Message == validation.MsgUnexpectedProperty {
		return 1
	}
	return 0
}

// The messages of huma that name a field in their text.
var beforeRequired, afterRequired, _ = strings.Cut(validation.MsgExpectedRequiredProperty, "%s")

// readDetail says which field is at fault and why, and whether the request could not be read at all.
func readDetail(d *huma.ErrorDetail) (field, message string, malformed bool) {
	in, field, nested := strings.Cut(d.Location, ".")
	if !nested {
		field = in
	}
	if rest, ok := strings.CutPrefix(d.Message, beforeRequired); ok && strings.HasSuffix(rest, afterRequired) {
		name := strings.TrimSuffix(rest, afterRequired)
		if nested {
			name = field + "." + name
		}
		return name, "is required", false
	}
	message = d.Message
	switch message {
	case validation.MsgUnexpectedProperty:
		return field, "is not a field of this request", true
	case validation.MsgExpectedMatchExactlyOneSchema:
		message = `must be "open", "none", or {"policy": "allowlist", "hosts": ["example.org"]}` // egress is the only one
	}
	return field, message, in != "body"
}

// readJSON reads one JSON value; what follows it is refused, and so is what readers take in different ways. Of a body that is read
// twice the first time is into an any.
func readJSON(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if _, first := v.(*any); first && err == nil {
		err = ambiguous(data)
	}
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		field := mismatch.Field
		for embedded, inner, ok := strings.Cut(field, "."); ok && strings.ToLower(embedded) != embedded; embedded, inner, ok = strings.Cut(field, ".") {
			field = inner // the name of a type is nobody's business
		}
		return fmt.Errorf("%s cannot hold this %s", cmp.Or(field, "it"), mismatch.Value)
	}
	return err
}

// decode reads and checks a JSON body where huma does not, because the route takes others too.
func decode[T any](ctx context.Context, api huma.API, data []byte, out *T) error {
	var raw any
	if err := readJSON(data, &raw); err != nil {
		return enplace.Errorf(enplace.KindMalformed, "the body is not JSON: %s", err).WithField("body")
	}
	res := &huma.ValidateResult{}
	path := huma.NewPathBuffer(nil, 0)
	path.Push("body")
	registry := api.OpenAPI().Components.Schemas
	huma.Validate(registry, schemaOf[T](registry), path, huma.ModeWriteToServer, raw, res)
	if len(res.Errors) > 0 {
		return refused(nil, http.StatusUnprocessableEntity, "", res.Errors)
	}
	if err := readJSON(data, out); err != nil {
		return enplace.Invalidf("%s", err).WithField("body")
	}
	return ctx.Err()
}
