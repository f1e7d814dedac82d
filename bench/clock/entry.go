package main

// first is the program's entry, in assembly.
func first()
