package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds of a token: GitHub's have 40 to some hundred characters, and a short one could be guessed by what is redacted.
const (
	minToken = 20
	maxToken = 1000
)

// readToken reads a token from a file that is root's and nobody else's to read, and follows no link to it. Without a path
// there is none. No message has anything of the file's content.
func readToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	refuse := func(format string, args ...any) (string, error) {
		return "", useError{fmt.Errorf("--github-token-file %s: %s", path, fmt.Sprintf(format, args...))}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return refuse("it cannot be opened, or is a link: %v", err)
	}
	defer f.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return "", fmt.Errorf("looking at %s: %w", path, err)
	}
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return refuse("it is no file")
	case stat.Uid != uint32(os.Getuid()) || stat.Mode&0o077 != 0:
		return refuse("others than root may read it; chown root and chmod 600 it, and make another token if they may have")
	}
	content, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	token := strings.TrimSpace(string(content))
	if len(token) < minToken || len(content) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return refuse("it holds no token; write one line with one into it, and nothing else")
	}
	return token, nil
}
