// Package plugin reads a plugin's folder: which items it declares, and what is wrong with them. It needs no server, so that a
// plugin's own CI can ask the same questions.
package plugin
