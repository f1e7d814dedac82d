// Package attacktest attacks the whole product as its users' code and its callers could: from inside, as root of a task and of a
// package's install script, and from outside, through the API. A test fails when an attack succeeds. It is apart from the packages
// that it attacks because it believes none of them: it knows the built programs, the API, and what the host shows of them.
//
// docs/threat-model.md says what is promised and names the test that holds each promise; a test here holds that page to it.
package attacktest
