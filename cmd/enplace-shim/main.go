// Command enplace-shim is what every tool of a computer is called through: links of the tools' names lead to it. It is a program
// apart from the guest because it runs before each command of each tool, and what a program links is paid for at each start.
package main

import (
	"os"

	"enplace/internal/shim"
)

func main() { shim.Become(os.Args, os.Environ()) }
