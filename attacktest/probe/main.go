// Command probe makes attempts at what a sandbox must refuse. It prints a line for each: its name, and "refused: …" or
// "SUCCEEDED". The attack tests run it inside, as root of a task and in a package's install script.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// attempt is one thing that must not work. It gives an error when it was refused.
type attempt struct {
	name string
	try  func() error
}

func main() {
	args := append(os.Args, "", "", "")
	var all []attempt
	switch args[1] {
	case "kernel":
		all = slices.Concat(namespaces(), calls(), sockets(), privileges(), processOne())
	case "files":
		all = slices.Concat(hostFiles(), devices())
	case "write":
		all = writes(args[2])
	case "net":
		all = network(args[2], args[3])
	case "take":
		take(args[2])
		return
	default:
		fmt.Println("usage: probe kernel | files | write DIR | net HOST:PORT ABSTRACT | take WHAT")
		os.Exit(2)
	}
	for _, a := range all {
		if err := a.try(); err != nil {
			fmt.Printf("%s\trefused: %s\n", a.name, strings.ReplaceAll(err.Error(), "\n", " "))
			continue
		}
		fmt.Printf("%s\tSUCCEEDED\n", a.name)
	}
}
