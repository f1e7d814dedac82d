package shim

// The few functions of package strings that are needed here. That package brings the tables of Unicode, and initialising those
// is a tenth of the time that a shim takes.

// after gives what follows a prefix.
func after(s, prefix string) (rest string, ok bool) {
	if len(s) < len(prefix) || s[:len(prefix)] != prefix {
		return s, false
	}
	return s[len(prefix):], true
}

// cut gives what is before and after the first such byte; all of s where there is none.
func cut(s string, sep byte) (before, rest string, found bool) {
	for i := range len(s) {
		if s[i] == sep {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// afterLast gives what follows the last such byte; all of s where there is none.
func afterLast(s string, sep byte) string {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == sep {
			return s[i+1:]
		}
	}
	return s
}
