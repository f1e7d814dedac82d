package source

import (
	"context"
	"io"
	"time"

	"enplace"
)

// GitRunner runs a command inside a sandbox that has git, with the sandbox's own environment (proxy, certificates) and env
// added to it, in one working directory that all calls of an import share. An error says that it could not be run; a command
// that failed gives its exit status.
type GitRunner func(ctx context.Context, argv, env []string, stdin io.Reader, stdout, stderr io.Writer) (exit int, err error)

// GitOptions say what the operator allows.
type GitOptions struct {
	AllowHTTP       bool          // plain http:// too, for hosts inside; https:// alone otherwise
	DescribeTimeout time.Duration // what `git describe` may cost; 20 s when zero, never tried when negative
}

// CheckGit refuses a source that Git would refuse before it runs anything.
func CheckGit(g enplace.GitSource, o GitOptions) error { return nil }

// Git imports a commit of a git repository, or a folder of it.
func Git(ctx context.Context, run GitRunner, g enplace.GitSource, sink Sink, o GitOptions) (Result, error) {
	return Result{}, enplace.Invalidf("not yet")
}
