package redact

type matcher = func(p []byte, at, body int) (from, to int)

// userinfo hides the password, or the whole of a userinfo that looks like a token. The last @ before the path ends it: people
// forget to encode the one in their password.
func userinfo(p []byte, _, body int) (int, int) {
	end, colon := -1, -1
	for i := body; i < len(p) && authority(p[i]); i++ {
		switch {
		case p[i] == '@':
			end = i
		case p[i] == ':' && colon < 0:
			colon = i
		}
	}
	switch {
	case end <= body:
		return 0, 0
	case colon < 0 || colon > end:
		if accountName(p[body:end]) {
			return 0, 0
		}
		return body, end
	case colon+1 == end || string(p[colon+1:end]) == "x-oauth-basic": // the token stands in the user's place
		return body, end
	}
	return colon + 1, end
}

// accountName tells git@ and deploy@ from a token.
func accountName(p []byte) bool {
	for _, c := range p {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return len(p) <= 12
}

// authorization hides the credentials behind the name of their scheme, or the only word of a value.
func authorization(p []byte, _, body int) (int, int) {
	from := separator(p, body, true)
	if from < 0 {
		return 0, 0
	}
	to := run(p, from, word)
	if next := run(p, to, blank); next > to && run(p, from, letter) == to {
		if end := run(p, next, word); end > next {
			return next, end
		}
	}
	return from, to
}

func bearer(p []byte, _, body int) (int, int) {
	if to := run(p, body, dotted); to-body >= 16 {
		return body, run(p, to, word)
	}
	return 0, 0
}

// assigned hides the value behind name=, name="…" and "name": "…". A colon without quotes is prose.
func assigned(p []byte, _, body int) (int, int) { return assignment(p, separator(p, body, false)) }

// header hides the value behind name: as well.
func header(p []byte, _, body int) (int, int) { return assignment(p, separator(p, body, true)) }

// assignment hides the value that begins at from, but for placeholders such as $TOKEN and ***, and words that are no value.
func assignment(p []byte, from int) (int, int) {
	if from < 0 || from == len(p) {
		return 0, 0
	}
	switch p[from] {
	case '$', '{', '*', '=', '<':
		return 0, 0
	}
	to := from
	if quote := p[from-1]; quote == '"' || quote == '\'' {
		for to < len(p) && p[to] != quote && p[to] != '\n' {
			if p[to] == '\\' {
				to++
			}
			to++
		}
		to = min(to, len(p))
	} else {
		to = run(p, from, value)
	}
	switch string(p[from:to]) {
	case "None", "null", "nil", "true", "false", "undefined":
		return 0, 0
	}
	return from, to
}

// separator gives where a value begins behind = or : with the quotes and blanks around it, or -1. A colon in front of a value
// without quotes counts when bare is set.
func separator(p []byte, i int, bare bool) int {
	named := i < len(p) && (p[i] == '"' || p[i] == '\'')
	if named {
		i++
	}
	sep := run(p, i, blank)
	if sep == len(p) || p[sep] != ':' && (p[sep] != '=' || sep > i) {
		return -1
	}
	i = sep + 1
	if p[sep] == ':' {
		i = run(p, i, blank)
	}
	if i < len(p) && (p[i] == '"' || p[i] == '\'') {
		return i + 1
	}
	if p[sep] == ':' && !bare {
		return -1
	}
	return i
}

// shape takes a token of at least that many characters of a kind behind the anchor, and hides both.
func shape(least int, kind func(byte) bool) matcher {
	return func(p []byte, at, body int) (int, int) {
		if to := run(p, body, kind); to-body >= least {
			return at, to
		}
		return 0, 0
	}
}

// digits asks for a digit as well: sk-learn-contrib-something is no key.
func digits(m matcher) matcher {
	return func(p []byte, at, body int) (int, int) {
		from, to := m(p, at, body)
		for _, c := range p[from:to] {
			if c >= '0' && c <= '9' {
				return from, to
			}
		}
		return 0, 0
	}
}

// apart asks that the token begins a word: disk-… holds no key. What an escape such as %20 or \n ends with is no word.
func apart(m matcher) matcher {
	return func(p []byte, at, body int) (int, int) {
		if at > 0 && dashed(p[at-1]) && !(at > 1 && p[at-2] == '\\') && !(at > 2 && p[at-3] == '%') {
			return 0, 0
		}
		return m(p, at, body)
	}
}

func jwt(p []byte, at, _ int) (int, int) {
	i := at
	for part := range 3 {
		end := run(p, i, dashed)
		if end-i < 8 || part < 2 && (end == len(p) || p[end] != '.') {
			return 0, 0
		}
		i = end + 1
	}
	return at, i - 1
}

// awsID takes exactly sixteen capitals and digits behind the anchor.
func awsID(p []byte, at, body int) (int, int) {
	capital := func(c byte) bool { return c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' }
	end := run(p[:min(len(p), body+17)], body, capital)
	if end-body != 16 {
		return 0, 0
	}
	return at, end
}

// run gives where the bytes of a kind that begin at i end.
func run(p []byte, i int, kind func(byte) bool) int {
	for i < len(p) && kind(p[i]) {
		i++
	}
	return i
}

func blank(c byte) bool  { return c == ' ' || c == '\t' }
func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func alnum(c byte) bool  { return letter(c) || c >= '0' && c <= '9' }
func dashed(c byte) bool { return alnum(c) || c == '-' || c == '_' }
func dotted(c byte) bool { return dashed(c) || c == '.' }

// word is what runs up to a blank or a quote.
func word(c byte) bool { return c > ' ' && c != '"' && c != '\'' && c != '`' }

// value is what may stand in a value in a query, an argument list or a shell line.
func value(c byte) bool {
	return word(c) && c != '&' && c != ',' && c != ';' && c != ')' && c != '}' && c != '<' && c != '>' && c != '|'
}

// authority is what may stand between :// and the path.
func authority(c byte) bool {
	return word(c) && c != '/' && c != '?' && c != '#' && c != '<' && c != '>' && c != '\\'
}
