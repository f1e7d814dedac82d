package main

// first is the program's entry, in assembly.
func first() //nolint:unused // the linker's entry: -E main.first
