package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"enplace/internal/durable"
)

// tape is a bounded file of lines. The first half of the limit goes into the file at the path. What comes after goes into
// parts, files in a folder beside it named for where they start, and the oldest part is dropped whenever all would be over the
// limit. Closing joins them into the one file. Bytes are counted as they were written, dropped ones too: a reader's place
// stays true while parts go.
type tape struct {
	path  string
	limit int64

	mu      sync.Mutex
	head    *part
	parts   []*part
	sealed  bool // the head is full
	size    int64
	total   int64 // bytes ever written
	err     error // of the disk; one that was full is tried again
	closed  bool
	readers int
	grown   chan struct{} // closed when there is more to read; nil while nobody waits
}

// part is a stretch of the tape.
type part struct {
	file        *os.File
	start, size int64
}

func (p part) end() int64 { return p.start + p.size }

// writing holds the tapes that this process writes, so that Open finds the one that stands behind a path.
var writing = struct {
	sync.Mutex
	tapes map[string]*tape
}{tapes: map[string]*tape{}}

func createTape(path string, limit int64) (*tape, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	writing.Lock()
	defer writing.Unlock()
	if writing.tapes[path] != nil {
		return nil, fmt.Errorf("%s is being written already", path)
	}
	if err := errors.Join(os.RemoveAll(partsFolder(path)), remove(path)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	t := &tape{path: path, limit: limit, head: &part{file: f}}
	writing.tapes[path] = t
	return t, nil
}

func openTape(path string) (*tape, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	writing.Lock()
	defer writing.Unlock()
	if t := writing.tapes[path]; t != nil {
		t.mu.Lock()
		t.readers++
		t.mu.Unlock()
		return t, nil
	}
	if err := join(path); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &tape{path: path, head: &part{file: f, size: info.Size()}, total: info.Size(), closed: true, readers: 1}, nil
}

// gap stands where output is missing, since the disk was full.
const gap = ours + "output is missing here: the disk of the server was full\n"

// append adds whole lines.
func (t *tape) append(text []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		if !durable.IsFull(t.err) {
			return t.err
		}
		text = append([]byte(gap), text...) // there may be room again
		t.err = nil
	}
	for len(text) > 0 {
		p, room, err := t.last()
		if err != nil {
			t.err = err
			return err
		}
		n := fitting(text, room)
		if n == 0 {
			if t.err = t.rotate(); t.err != nil {
				return t.err
			}
			continue
		}
		t.drop(int64(n))
		if _, err := p.file.WriteAt(text[:n], p.size); err != nil {
			t.err = fmt.Errorf("writing log: %w", durable.Full(err))
			return t.err
		}
		p.size += int64(n)
		t.size += int64(n)
		t.total += int64(n)
		text = text[n:]
	}
	t.wake()
	return nil
}

// last gives the part that is being written, and what it still takes.
func (t *tape) last() (*part, int64, error) {
	if !t.sealed {
		return t.head, t.limit/2 - t.head.size, nil
	}
	if len(t.parts) == 0 {
		if err := t.rotate(); err != nil {
			return nil, 0, err
		}
	}
	p := t.parts[len(t.parts)-1]
	return p, t.limit/8 - p.size, nil
}

// fitting gives the length of the whole lines at the start of text that fit into room.
func fitting(text []byte, room int64) int {
	if int64(len(text)) <= room {
		return len(text)
	}
	return bytes.LastIndexByte(text[:max(room, 0)], '\n') + 1
}

// rotate starts the next part.
func (t *tape) rotate() error {
	folder := partsFolder(t.path)
	if !t.sealed {
		t.sealed = true
		if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("writing log: %w", durable.Full(err))
		}
	}
	f, err := os.OpenFile(filepath.Join(folder, partName(t.total)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("writing log: %w", durable.Full(err))
	}
	t.parts = append(t.parts, &part{file: f, start: t.total})
	return nil
}

// drop makes room for n bytes within the limit. The part being written stays: it is small beside the limit.
func (t *tape) drop(n int64) {
	for len(t.parts) > 1 && t.size+n > t.limit {
		oldest := t.parts[0]
		_ = os.Remove(oldest.file.Name()) // one that stays behind costs room until the log is closed
		_ = oldest.file.Close()
		t.size -= oldest.size
		t.parts = append(t.parts[:0], t.parts[1:]...)
	}
}

// read gives the n bytes that stand at the place at, io.EOF where nothing does yet, or the length of the gap that begins there.
func (t *tape) read(at int64, p []byte) (n int, gap int64, err error) {
	for {
		from, gap := t.find(at)
		if gap > 0 {
			return 0, gap, nil
		}
		n := min(int64(len(p)), from.end()-at)
		if n <= 0 {
			return 0, 0, io.EOF
		}
		// Outside the lock: a slow disk under a reader must not hold up the writer. The part may be dropped meanwhile.
		got, err := from.file.ReadAt(p[:n], at-from.start)
		if errors.Is(err, os.ErrClosed) && t.dropped(at) {
			continue
		}
		if got > 0 {
			err = nil
		}
		return got, 0, err
	}
}

func (t *tape) find(at int64) (from part, gap int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at < t.head.size || len(t.parts) == 0 {
		return *t.head, 0
	}
	for _, p := range t.parts {
		if at < p.start {
			return part{}, p.start - at
		}
		if at < p.end() {
			return *p, 0
		}
	}
	return *t.parts[len(t.parts)-1], 0
}

func (t *tape) dropped(at int64) bool {
	_, gap := t.find(at)
	return gap > 0
}

// wait gives a channel that is closed when something comes after the place at, or says that nothing will.
func (t *tape) wait(at int64) (grown <-chan struct{}, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at < t.total {
		return nil, false
	}
	if t.closed {
		return nil, true
	}
	if t.grown == nil {
		t.grown = make(chan struct{})
	}
	return t.grown, false
}

func (t *tape) wake() {
	if t.grown != nil {
		close(t.grown)
		t.grown = nil
	}
}

// close joins the parts, syncs, and tells the readers. They keep the files open that they are reading.
func (t *tape) close() error {
	t.mu.Lock()
	first, head := t.err, t.head.file
	t.mu.Unlock()

	err := head.Sync()
	if err == nil {
		err = join(t.path)
	}
	if err == nil {
		err = durable.SyncFolder(filepath.Dir(t.path))
	}
	writing.Lock()
	delete(writing.tapes, t.path)
	writing.Unlock()

	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.wake()
	if err != nil {
		err = fmt.Errorf("closing log: %w", durable.Full(err))
	}
	return errors.Join(first, err, t.closeFiles())
}

// release takes a reader away.
func (t *tape) release() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readers--
	return t.closeFiles()
}

// closeFiles closes the files once neither writer nor reader needs them.
func (t *tape) closeFiles() error {
	if !t.closed || t.readers > 0 {
		return nil
	}
	err := t.head.file.Close()
	for _, p := range t.parts {
		err = errors.Join(err, p.file.Close())
	}
	return err
}
