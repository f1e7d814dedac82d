package xz

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func pack(t testing.TB, content []byte, args ...string) []byte {
	t.Helper()
	if _, err := exec.LookPath("xz"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no xz on this host")
		}
		t.Skip("no xz on this host")
	}
	cmd := exec.Command("xz", append([]string{"-c"}, args...)...)
	cmd.Stdin = bytes.NewReader(content)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sample() []byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 300_000)
	for i := range b {
		b[i] = byte(rnd.Uint32N(30)) + 'a'
	}
	return b
}

func unpack(b []byte) ([]byte, error) {
	z, err := NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

func TestReadsWhatXZWrites(t *testing.T) {
	t.Parallel()
	want := sample()
	for _, args := range [][]string{
		{"-0"}, {"-6"}, {"-9"}, {"--check=none"}, {"--check=crc32"}, {"--check=sha256"}, {"--block-size=20000"}, {"-T2", "--block-size=50000"},
	} {
		got, err := unpack(pack(t, want, args...))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("xz %v: %v, equal %v", args, err, bytes.Equal(got, want))
		}
	}
	one := pack(t, want)
	got, err := unpack(append(append(append([]byte{}, one...), make([]byte, 8)...), one...))
	if err != nil || !bytes.Equal(got, append(append([]byte{}, want...), want...)) {
		t.Errorf("two streams with padding: %v", err)
	}
	if got, err := unpack(pack(t, nil)); err != nil || len(got) != 0 {
		t.Errorf("empty: %v", err)
	}
}

func TestRefusesDamage(t *testing.T) {
	t.Parallel()
	packed := pack(t, sample()[:2000], "-0", "--check=crc32")
	for i := range packed {
		if got, err := unpack(packed[:i]); err == nil {
			t.Fatalf("cut at %d of %d: no error, %d bytes", i, len(packed), len(got))
		}
	}
	for i := range packed {
		damaged := bytes.Clone(packed)
		damaged[i] ^= 0x10
		if got, err := unpack(damaged); err == nil && bytes.Equal(got, sample()[:2000]) && i < len(packed)-12-8 {
			t.Logf("byte %d does not matter", i)
		} else if err == nil && !bytes.Equal(got, sample()[:2000]) {
			t.Fatalf("byte %d changed: other content without an error", i)
		}
	}
}

// A header may ask for 4 GiB before a single byte of content.
func TestRefusesAGiantDictionary(t *testing.T) {
	t.Parallel()
	packed := pack(t, sample()[:2000])
	head := packed[12 : 12+(int(packed[12])+1)*4]
	at := bytes.Index(head, []byte{0x21, 1})
	head[at+2] = 40
	binary.LittleEndian.PutUint32(head[len(head)-4:], crc32.ChecksumIEEE(head[:len(head)-4]))
	if _, err := unpack(packed); err == nil || !strings.Contains(err.Error(), "dictionary") {
		t.Fatalf("got %v", err)
	}
}

func FuzzReader(f *testing.F) {
	if _, err := exec.LookPath("xz"); err == nil {
		f.Add(pack(f, []byte("hello")))
		f.Add(pack(f, sample()[:3000], "--block-size=1000"))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		z, err := NewReader(bytes.NewReader(b))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(z, 1<<20))
	})
}
