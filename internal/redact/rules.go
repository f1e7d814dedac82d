package redact

// rule finds one kind of secret. match is given where the anchor stands and where it ends, and gives what to hide, or nothing.
// It may look at many bytes only where it then hides them, or where no other anchor can begin: see Redactor.find.
type rule struct {
	anchor string // at least two bytes; in lower case where fold is set
	fold   bool   // the anchor's case does not matter
	within bool   // what is kept or hidden may hold other secrets: look on right behind the anchor
	match  func(p []byte, at, body int) (from, to int)
	why    string
}

// begins is on the path of every byte pair that some anchor begins with.
func (r *rule) begins(p []byte) bool {
	if len(p) < len(r.anchor) {
		return false
	}
	if !r.fold {
		return string(p[:len(r.anchor)]) == r.anchor
	}
	for i := range len(r.anchor) {
		c := p[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != r.anchor[i] {
			return false
		}
	}
	return true
}

// rules are always on. Of two whose anchors begin alike the longer one comes first.
var rules = []rule{
	{anchor: "://", within: true, match: userinfo, why: "scheme://user:password@host; git and pip print the URL that failed"},
	{anchor: "authorization", fold: true, match: authorization, why: "an HTTP header in a trace, or -H of curl"},
	{anchor: "bearer ", fold: true, match: bearer, why: "a header's value without its name, as HTTP libraries print it"},
	{anchor: "private-token", fold: true, match: header, why: "GitLab's header"},
	{anchor: "x-api-key", fold: true, match: header, why: "the header of many APIs"},

	{anchor: "password", fold: true, match: assigned, why: "query values, variables and JSON; PGPASSWORD= ends like this too"},
	{anchor: "passwd", fold: true, match: assigned, why: "the older spelling"},
	{anchor: "passphrase", fold: true, match: assigned, why: "of keys"},
	{anchor: "secret_access_key", fold: true, match: assigned, why: "AWS; the id beside it has a shape, the key has none"},
	{anchor: "secretaccesskey", fold: true, match: assigned, why: "AWS, in JSON"},
	{anchor: "secret", fold: true, match: assigned, why: "client_secret= and the like"},
	{anchor: "token", fold: true, match: assigned, why: "access_token=, _authToken= of .npmrc, X-Amz-Security-Token="},
	{anchor: "api_key", fold: true, match: assigned, why: "query values and variables"},
	{anchor: "api-key", fold: true, match: assigned, why: "query values"},
	{anchor: "apikey", fold: true, match: assigned, why: "query values and JSON"},
	{anchor: "_auth", match: assigned, why: ".npmrc: user and password in base64"},
	{anchor: "-signature", fold: true, match: assigned, why: "X-Amz-Signature=, X-Goog-Signature=: a signed URL is a key to its object"},
	{anchor: "&sig", match: assigned, why: "Azure's signed URLs"},
	{anchor: "?sig", match: assigned, why: "Azure's signed URLs"},

	{anchor: "enp_", match: shape(20, alnum), why: "our own keys"},
	{anchor: "github_pat_", match: shape(20, dashed), why: "GitHub, fine-grained"},
	{anchor: "ghp_", match: shape(20, alnum), why: "GitHub, classic"},
	{anchor: "gho_", match: shape(20, alnum), why: "GitHub, OAuth"},
	{anchor: "ghu_", match: shape(20, alnum), why: "GitHub, user to server"},
	{anchor: "ghr_", match: shape(20, alnum), why: "GitHub, refresh"},
	{anchor: "ghs_", match: shape(20, dotted), why: "GitHub, installation and Actions; newer ones hold dots"},
	{anchor: "glpat-", match: shape(20, dotted), why: "GitLab"},
	{anchor: "npm_", match: shape(36, alnum), why: "npm; npm_config_… has an underscore before that"},
	{anchor: "pypi-", match: apart(digits(shape(40, dashed))), why: "PyPI uploads"},
	{anchor: "sk_live_", match: shape(16, alnum), why: "Stripe"},
	{anchor: "sk_test_", match: shape(16, alnum), why: "Stripe"},
	{anchor: "rk_live_", match: shape(16, alnum), why: "Stripe"},
	{anchor: "sk-", match: apart(digits(shape(20, dashed))), why: "OpenAI, Anthropic and those who copy them"},
	{anchor: "AKIA", match: awsID, why: "AWS, long-lived"},
	{anchor: "ASIA", match: awsID, why: "AWS, temporary"},
	{anchor: "AIza", match: shape(35, dashed), why: "Google API keys"},
	{anchor: "ya29.", match: shape(20, dotted), why: "Google OAuth"},
	{anchor: "xoxb-", match: shape(10, dashed), why: "Slack, bot"},
	{anchor: "xoxp-", match: shape(10, dashed), why: "Slack, user"},
	{anchor: "xoxa-", match: shape(10, dashed), why: "Slack, app"},
	{anchor: "xoxr-", match: shape(10, dashed), why: "Slack, refresh"},
	{anchor: "xoxs-", match: shape(10, dashed), why: "Slack, session"},
	{anchor: "xapp-", match: shape(10, dashed), why: "Slack, app level"},
	{anchor: "hf_", match: shape(30, alnum), why: "Hugging Face"},
	{anchor: "eyJ", match: apart(jwt), why: "JSON web tokens: three parts, the first of which is a JSON object"},
	{anchor: keyBegin, match: privateKey, why: "private keys of PEM and OpenSSH"},
}
