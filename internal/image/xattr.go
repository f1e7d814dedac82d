package image

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	xattrOpaque     = "trusted.overlay.opaque"
	xattrCapability = "security.capability"
)

// readXattrs reads the attributes that are kept. The name's folder is a handle and the l-calls do not follow its last part,
// so they need no open file: that matters for whiteouts, links and FIFOs, which must not be opened.
func (w *walker) readXattrs(n *node, name string) error {
	names, err := getBytes(func(buf []byte) (int, error) { return unix.Llistxattr(name, buf) })
	if err != nil || len(names) == 0 {
		return err
	}
	for attr := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		if attr != xattrOpaque && attr != xattrCapability && !strings.HasPrefix(attr, "user.") {
			continue
		}
		value, err := getBytes(func(buf []byte) (int, error) { return unix.Lgetxattr(name, attr, buf) })
		if err != nil {
			return err
		}
		switch attr {
		case xattrOpaque:
			if string(value) != "y" { // other values speak of attributes that are not kept
				continue
			}
		case xattrCapability:
			if value = w.capability(value); value == nil {
				continue
			}
		}
		if n.stat.Xattrs == nil {
			n.stat.Xattrs = map[string][]byte{}
		}
		n.stat.Xattrs[attr] = value
	}
	return nil
}

// getBytes calls a function that fills a buffer and says ERANGE when it is too small. A file system without attributes, or
// an entry that lost one meanwhile, has none.
func getBytes(get func([]byte) (int, error)) ([]byte, error) {
	for size := 256; ; size = 1 << 16 {
		buf := make([]byte, size)
		n, err := get(buf)
		switch {
		case errors.Is(err, unix.ERANGE) && size < 1<<16:
			continue
		case errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENODATA):
			return nil, nil
		case err != nil:
			return nil, err
		}
		return buf[:n], nil
	}
}

// Layout of security.capability: 32 bits of revision and flags, four words of capabilities, and in revision 3 the host id of
// the root whose namespace the file was made in.
const (
	capRevisionMask = 0xff000000
	capRevision2    = 0x02000000
	capRevision3    = 0x03000000
	capV2Bytes      = 20
	capV3Bytes      = 24
)

// capability gives file capabilities as the namespace saw them: those of its own root become plain ones, so that they hold
// in whatever namespace the image is mounted. Those of another root mean nothing and are dropped.
func (w *walker) capability(v []byte) []byte {
	if w.options.IDBase == 0 || len(v) != capV3Bytes || binary.LittleEndian.Uint32(v)&capRevisionMask != capRevision3 {
		return v
	}
	if w.id(binary.LittleEndian.Uint32(v[capV2Bytes:])) != 0 {
		return nil
	}
	plain := bytes.Clone(v[:capV2Bytes])
	binary.LittleEndian.PutUint32(plain, binary.LittleEndian.Uint32(v)&^uint32(capRevisionMask)|capRevision2)
	return plain
}
