// Package faulttest kills a real server at random moments of real work, and at chosen system calls, fills its disk, damages its
// images, takes its registries away and has many read what is being removed, and holds it to its word: what it acknowledged is
// there, what ran says what became of it, and nothing that it started is left. It is apart from the packages it tests because a
// fault is nobody's own: it falls between them.
package faulttest
