// Package mise knows mise: what a mise.toml may say, how tools are installed with it, and how what was installed is read back.
// Facts are those of mise 2026.9.15.
package mise

// Pinned is the version of mise that these facts are of, and that a base brings.
const Pinned = "2026.9.15"
