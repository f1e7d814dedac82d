package base

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"enplace"
	"enplace/internal/durable"
)

// Registry is where a tool comes from.
type Registry string

// The registries.
const (
	PyPI Registry = "pypi"
	NPM  Registry = "npm"
)

// Tool is a program that is put into the base: one file of a registry, pinned by version and hash.
type Tool struct {
	Name     string   `json:"name"`
	Version  string   `json:"version"`
	Registry Registry `json:"registry"`
	Package  string   `json:"package"`
	File     string   `json:"file"`   // its name in the registry
	SHA256   string   `json:"sha256"` // of that file, in hex
}

// The names of the tools.
const (
	ToolNPM  = "npm"
	ToolUV   = "uv"
	ToolMise = "mise"
)

// The pins. To move one: change the version, download the file by hand, compare it with the registry's own hash (PyPI gives
// the SHA-256, npm a SHA-512), and write down its SHA-256.
const (
	npmVersion  = "11.21.2" // the last that runs on Debian 13's Node.js 20
	uvVersion   = "0.13.9"
	miseVersion = "2026.9.15"
)

// DefaultTools gives the tools for an architecture in Go's words. mise is missing on arm64: no file of that version is
// published where its hash could be checked.
func DefaultTools(arch string) []Tool {
	npm := Tool{ToolNPM, npmVersion, NPM, "npm", "npm-" + npmVersion + ".tgz", "8ad8563b81e71b90ef405b140bccf3ba9b5e7884ab210bd49ee4e2f4bc6f61f5"}
	switch arch {
	case "amd64":
		return []Tool{npm,
			{ToolUV, uvVersion, PyPI, "uv", "uv-" + uvVersion + "-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
				"d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19"},
			{ToolMise, miseVersion, NPM, "@jdxcode/mise-linux-x64", "mise-linux-x64-" + miseVersion + ".tgz",
				"b51f2463bc4fcdc3b0959b1454792f64be3612e73d856cbca4a062e39e070e74"}}
	case "arm64":
		return []Tool{npm,
			{ToolUV, uvVersion, PyPI, "uv", "uv-" + uvVersion + "-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64.whl",
				"5435c5ce14a56431208ca0996416d310f1598e8c2c8ba707688985a16bb82dbe"}}
	}
	return []Tool{npm}
}

const (
	maxDownload     = 256 << 20
	maxIndex        = 64 << 20
	downloadTimeout = 15 * time.Minute
)

// fetch gives a file of Dir/downloads with the tool's bytes, checked against its hash, whoever put it there.
func (b *Builder) fetch(ctx context.Context, t Tool, out *lines) (string, error) {
	dir := filepath.Join(b.cfg.Dir, "downloads")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(dir, t.SHA256)
	if f, err := os.Open(file); err == nil {
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		if err = errors.Join(err, f.Close()); err == nil && hex.EncodeToString(sum.Sum(nil)) == t.SHA256 {
			return file, nil
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, downloadTimeout, fmt.Errorf("downloading %s took longer than %s", t.Name, downloadTimeout))
	defer cancel()
	address, err := b.address(ctx, t)
	if err != nil {
		return "", downloadFailed(t, err)
	}
	out.printf("downloading %s %s", t.Name, t.Version)
	if err := download(ctx, address, t.SHA256, file); err != nil {
		return "", downloadFailed(t, err)
	}
	return file, nil
}

func downloadFailed(t Tool, err error) error {
	return enplace.Errorf(enplace.KindUpstream, "%s %s could not be had from its registry: %v", t.Name, t.Version, err).WithCause(err).
		WithFix("check that the registry can be reached from this machine, or name a mirror of it")
}

// address says where a tool's file is. npm's paths follow from the name; PyPI's do not, so its index is asked.
func (b *Builder) address(ctx context.Context, t Tool) (string, error) {
	if t.Registry == NPM {
		return strings.TrimSuffix(b.cfg.NPM, "/") + "/" + t.Package + "/-/" + t.File, nil
	}
	index := strings.TrimSuffix(b.cfg.PyPI, "/") + "/" + t.Package + "/"
	// PEP 691. Every index of today answers it; one that does not says so by its content type.
	resp, err := get(ctx, index, "application/vnd.pypi.simple.v1+json")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var page struct {
		Files []struct{ Filename, URL string }
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxIndex)).Decode(&page); err != nil {
		return "", fmt.Errorf("reading %s: %w", index, err)
	}
	for _, f := range page.Files {
		if f.Filename == t.File {
			base := resp.Request.URL // after redirects, which relative addresses count from
			u, err := base.Parse(f.URL)
			if err != nil {
				return "", err
			}
			return u.String(), nil
		}
	}
	return "", fmt.Errorf("%s has no file %s", index, t.File)
}

func get(ctx context.Context, address, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s answered %s", req.URL.Redacted(), resp.Status)
	}
	return resp, nil
}

// download puts a file in place only when its bytes are the right ones.
func download(ctx context.Context, address, want, file string) error {
	resp, err := get(ctx, address, "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	tmp, err := os.CreateTemp(filepath.Dir(file), durable.New)
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails once it is renamed
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(tmp, sum), io.LimitReader(resp.Body, maxDownload+1))
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if n > maxDownload {
		return fmt.Errorf("the file is larger than %d MiB", maxDownload>>20)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return fmt.Errorf("its SHA-256 is %s, and %s is the right one", got, want)
	}
	return os.Rename(tmp.Name(), file)
}
