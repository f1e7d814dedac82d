// Package faulttest kills a real server at random moments of real work, and holds it to its word: what it acknowledged is
// there after the restart, what ran says that it was interrupted, and nothing that it started is left. It is apart from the
// packages it tests because a fault is nobody's own: it falls between them.
package faulttest
