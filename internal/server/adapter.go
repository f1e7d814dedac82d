package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"enplace"
)

// rule is what the adapter holds the requests of one route to.
type rule struct {
	limit  int64  // bytes of the body
	of     string // what the body is, for the message about its limit
	open   bool   // needs no key
	raw    bool   // the body is bytes, and is streamed
	secret bool   // the answer is shown once and never stored
	sealed bool   // the body is a secret, of which not even a hash is stored
}

// option changes the rule or the document of one route.
type option func(*rule, *huma.Operation)

func limit(bytes int64, of string) option {
	return func(r *rule, _ *huma.Operation) { r.limit, r.of = bytes, of }
}
func open(r *rule, op *huma.Operation)     { r.open = true; op.Security = []map[string][]string{} }
func raw(r *rule, _ *huma.Operation)       { r.raw = true }
func secret(r *rule, _ *huma.Operation)    { r.secret = true }
func sealed(r *rule, _ *huma.Operation)    { r.sealed = true }
func created(_ *rule, op *huma.Operation)  { op.DefaultStatus = http.StatusCreated }
func accepted(_ *rule, op *huma.Operation) { op.DefaultStatus = http.StatusAccepted }

// answers documents an answer that is not JSON; several types can be given.
func answers(status, description string, types ...string) option {
	return func(_ *rule, op *huma.Operation) {
		content := map[string]*huma.MediaType{}
		for _, t := range types {
			content[t] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
		}
		if op.Responses == nil {
			op.Responses = map[string]*huma.Response{}
		}
		op.Responses[status] = &huma.Response{Description: description, Content: content}
	}
}

// section is a part of the document.
type section struct {
	*Server
	tag string
}

// handle adds a route: "METHOD /path", the operation's id, and a summary with a description behind its first line.
func handle[I, O any](s section, route, id, text string, h func(context.Context, enplace.Caller, *I) (*O, error), opts ...option) {
	method, path, _ := strings.Cut(route, " ")
	summary, description, _ := strings.Cut(text, "\n")
	op := huma.Operation{
		Method: method, Path: path, OperationID: id, Summary: summary, Description: description, Tags: []string{s.tag},
		MaxBodyBytes: -1, BodyReadTimeout: -1, // the exchange's body sees to both
	}
	r := rule{limit: enplace.MaxJSONBytes, of: "a JSON body"}
	for _, o := range opts {
		o(&r, &op)
	}
	if changes(method) && !r.secret {
		op.Parameters = []*huma.Param{{
			Name: "Idempotency-Key", In: "header", Description: "1 to 255 printable ASCII characters, new for each request",
			Schema: &huma.Schema{Type: huma.TypeString},
		}}
	}
	s.rules[route] = r
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := h(ctx, exchangeOf(ctx).caller, in)
		if err != nil {
			return nil, problemOf(ctx, err)
		}
		return out, nil
	})
}

// routeMux is the mux that huma registers its routes on.
type routeMux struct{ *Server }

var _ humago.Mux = routeMux{}

// HandleFunc puts the adapter before a route's handler.
func (m routeMux) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	rule := m.rules[pattern]
	m.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		ex := exchangeOf(r.Context())
		ex.rule = rule
		m.serve(ex, r, h)
	})
}

// serve sees to identity, limits and idempotency, and lets the handler do the rest.
func (s *Server) serve(ex *exchange, r *http.Request, h http.HandlerFunc) {
	if !ex.rule.open {
		var err error
		if ex.caller, err = s.identify(r); err != nil {
			s.fail(ex, r, err)
			return
		}
		leave, err := s.quotas.enter(ex.caller.KeyID)
		if err != nil {
			s.fail(ex, r, err)
			return
		}
		defer leave()
	}
	if r.ContentLength > ex.rule.limit {
		ex.Header().Set("Connection", "close") // rather than reading it all
		s.fail(ex, r, tooLarge(ex.rule))
		return
	}
	if r.ContentLength != 0 {
		ex.body = &body{
			ReadCloser: http.MaxBytesReader(ex.ResponseWriter, r.Body, ex.rule.limit),
			control:    http.NewResponseController(ex.ResponseWriter),
		}
		r.Body = ex.body
		if !ex.rule.raw {
			r.Header.Set("Content-Type", "application/json") // whatever curl -d called it
		}
	}
	if key := r.Header.Values("Idempotency-Key"); len(key) > 0 && changes(r.Method) {
		s.once(ex, r, key, h)
		return
	}
	h(ex, r)
}

func changes(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodDelete
}

// identify finds out who asks.
func (s *Server) identify(r *http.Request) (enplace.Caller, error) {
	header := r.Header.Get("Authorization")
	scheme, secret, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") || strings.TrimSpace(secret) == "" {
		return enplace.Caller{}, enplace.Errorf(enplace.KindUnauthenticated, "this request carries no API key").WithField("Authorization").
			WithFix("send the header `Authorization: Bearer enp_…`, or set ENPLACE_KEY for the command line").
			WithFix("the server's first start wrote a key to operator.key in its data directory")
	}
	return s.cfg.Keys.Authenticate(r.Context(), strings.TrimSpace(secret))
}

// unmatched answers what no route takes: 405 where another method would do, else 404.
func (s *Server) unmatched(w http.ResponseWriter, r *http.Request) {
	ex := exchangeOf(r.Context())
	var allow []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
		probe := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := s.mux.Handler(probe); pattern != "/" {
			allow = append(allow, method)
		}
	}
	if len(allow) == 0 {
		s.fail(ex, r, enplace.NotFoundf("there is no route %s", shorten(r.URL.Path)).WithFix("/openapi.json lists the routes"))
		return
	}
	ex.Header().Set("Allow", strings.Join(allow, ", "))
	p := problemOf(r.Context(), enplace.Errorf(enplace.KindMalformed, "%s takes %s, and not %s",
		shorten(r.URL.Path), strings.Join(allow, ", "), shorten(r.Method)).WithField("method"))
	p.Status, p.Title = http.StatusMethodNotAllowed, http.StatusText(http.StatusMethodNotAllowed)
	s.send(ex, p)
}

// shorten is for what a request says of itself, in messages.
func shorten(s string) string { return enplace.Shown(s, 200) }
