package main

import "enplace/internal/shim"

// first is the program's entry, in assembly: it calls quick before Go's runtime is there, whose start is nine tenths of what a shim
// costs, and goes on to the runtime, and to main, where quick returns. The program has to be linked with -ldflags "-E main.first";
// without it, it is as good and slower.
func first() //nolint:unused // the linker's entry

// What first leaves for quick: where the kernel put the arguments and variables; and what stands for a goroutine and for the memory
// of a thread, all of it zero: that a stack ends at 0 means that it is never too small.
var (
	stack  *shim.Stack  //nolint:unused // in assembly
	g      [128]uintptr //nolint:unused // in assembly
	thread [2]uintptr   //nolint:unused // in assembly
)

//nolint:unused // in assembly
func quick() { shim.BecomeQuickly(stack) }
