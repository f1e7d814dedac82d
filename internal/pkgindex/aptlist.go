package pkgindex

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
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
	"enplace/internal/source/xz"
)

const (
	maxListPacked   = 256 << 20
	maxListUnpacked = 2 << 30
	maxListLine     = 1 << 20
	maxListPackages = 2_000_000
)

// listHeader stands, as one line of JSON, before the packed bytes in a file of the cache folder.
type listHeader struct {
	URL      string    `json:"url"`
	Modified string    `json:"modified"`
	Fetched  time.Time `json:"fetched"`
}

// fetchList asks the mirror. Suites differ in which of the two packings they have. An old list that is still right is given
// back with a new time.
func (x *Index) fetchList(ctx context.Context, base string, old *aptList) (*aptList, error) {
	var err error
	for _, ending := range []string{".gz", ".xz"} {
		r := request{client: x.c.HTTP, url: base + ending, limit: maxListPacked}
		if old != nil {
			r.since = old.modified
		}
		var fresh *aptList
		r.read = func(h http.Header, body io.Reader) (err error) {
			fresh, err = x.keepList(base, h.Get("Last-Modified"), body)
			return err
		}
		switch _, err = get(ctx, r); {
		case err == nil:
			return fresh, nil
		case errors.Is(err, errUnchanged):
			same := *old
			same.until = x.c.Now().Add(aptTTL)
			return &same, nil
		case !errors.Is(err, errAbsent):
			return nil, err
		}
	}
	return nil, err
}

// prepareCache makes the cache folder, and removes what a killed process was writing there.
func (x *Index) prepareCache() {
	if x.c.CacheDir == "" {
		return
	}
	_ = os.MkdirAll(x.c.CacheDir, 0o700)
	leftovers, _ := filepath.Glob(filepath.Join(x.c.CacheDir, newList))
	for _, f := range leftovers {
		_ = os.Remove(f)
	}
}

// newList names the lists that are being written.
const newList = ".list-*"

// keepList parses a packed list, and keeps it in the cache folder if it is whole. That folder is a convenience: a list that
// cannot be written there is as good as one that is.
func (x *Index) keepList(base, modified string, body io.Reader) (*aptList, error) {
	now := x.c.Now()
	if x.c.CacheDir == "" {
		return parsePacked(body, modified, now)
	}
	f, err := os.CreateTemp(x.c.CacheDir, newList)
	if err != nil {
		return parsePacked(body, modified, now)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	header, _ := json.Marshal(listHeader{URL: base, Modified: modified, Fetched: now})
	out := bufio.NewWriter(f)
	_, _ = out.Write(append(header, '\n'))
	l, err := parsePacked(io.TeeReader(body, indulgent{out}), modified, now)
	if err == nil && out.Flush() == nil && f.Sync() == nil {
		_ = os.Rename(f.Name(), x.listFile(base))
	}
	return l, err
}

// indulgent hides the errors of a writer, which remembers them for Flush: a full disk must not end what is read.
type indulgent struct{ out *bufio.Writer }

func (i indulgent) Write(p []byte) (int, error) {
	_, _ = i.out.Write(p)
	return len(p), nil
}

func (x *Index) listFile(base string) string {
	return filepath.Join(x.c.CacheDir, "packages-"+enplace.DigestOf([]byte(base)).Hex()[:32])
}

// loadList reads a list of an earlier start, or gives nil.
func (x *Index) loadList(base string) *aptList {
	if x.c.CacheDir == "" {
		return nil
	}
	f, err := os.Open(x.listFile(base))
	if err != nil {
		return nil
	}
	defer f.Close()
	r := bufio.NewReader(f)
	line, err := r.ReadSlice('\n')
	var h listHeader
	if err != nil || json.Unmarshal(line, &h) != nil || h.URL != base || h.Fetched.After(x.c.Now()) {
		return nil
	}
	l, err := parsePacked(r, h.Modified, h.Fetched)
	if err != nil {
		return nil
	}
	return l
}

// parsePacked parses a list packed by gzip or xz, to the end of its last checksum.
func parsePacked(r io.Reader, modified string, fetched time.Time) (*aptList, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	head, _ := in.Peek(6)
	var plain io.Reader
	var err error
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		plain, err = gzip.NewReader(in)
	case bytes.Equal(head, []byte("\xfd7zXZ\x00")):
		plain, err = xz.NewReader(in)
	default:
		err = errors.New("neither gzip nor xz")
	}
	if err != nil {
		return nil, err
	}
	l, err := parsePackages(&bounded{r: plain, left: maxListUnpacked})
	if err != nil {
		return nil, err
	}
	l.modified, l.until = modified, fetched.Add(aptTTL)
	return l, nil
}

// parsePackages reads the stanzas of a Packages file (Debian policy 5, DebianRepository/Format).
func parsePackages(r io.Reader) (*aptList, error) {
	l := &aptList{packages: map[string][]aptVersion{}, provides: map[string][]string{}}
	arches := map[string]string{} // one string for each, and not one for each package
	var name, version, arch, provides string
	count := 0
	end := func() error {
		if name != "" && version != "" && printable(name) && printable(version) {
			if count++; count > maxListPackages {
				return fmt.Errorf("more than %d packages", maxListPackages)
			}
			if _, ok := arches[arch]; !ok {
				arches[arch] = arch
			}
			l.packages[name] = append(l.packages[name], aptVersion{version, arches[arch]})
			for p := range strings.SplitSeq(provides, ",") {
				if p, _, _ = strings.Cut(strings.TrimSpace(p), " "); p != "" && p != name {
					p, _, _ = strings.Cut(p, ":")
					l.provides[p] = append(l.provides[p], name)
				}
			}
		}
		name, version, arch, provides = "", "", "", ""
		return nil
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxListLine)
	for lines.Scan() {
		line := lines.Bytes()
		if len(bytes.TrimSpace(line)) == 0 {
			if err := end(); err != nil {
				return nil, err
			}
			continue
		}
		field, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || line[0] == ' ' || line[0] == '\t' {
			continue
		}
		switch string(field) {
		case "Package":
			name = string(bytes.TrimSpace(value))
		case "Version":
			version = string(bytes.TrimSpace(value))
		case "Architecture":
			arch = string(bytes.TrimSpace(value))
		case "Provides":
			provides = string(bytes.TrimSpace(value))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return l, end()
}
