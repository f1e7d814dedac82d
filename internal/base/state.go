package base

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"enplace/internal/durable"
)

// lockFile takes an exclusive lock on a file and waits for it until ctx ends. The lock goes with the process that holds it.
func lockFile(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	told := false
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if !told {
			told = true
			waiting()
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, context.Cause(ctx)
		case <-time.After(200 * time.Millisecond): // a blocking flock could not be called off
		}
	}
}

func (b *Builder) record() string { return filepath.Join(b.cfg.Dir, "base.json") }

func (b *Builder) read() (Base, error) {
	data, err := os.ReadFile(b.record())
	if err != nil {
		return Base{}, err
	}
	var rec Base
	if err := json.Unmarshal(data, &rec); err != nil {
		return Base{}, fmt.Errorf("reading %s: %w", b.record(), err)
	}
	return rec, nil
}

func (b *Builder) write(rec Base) error {
	data, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(b.record(), append(data, '\n'), 0o600)
}
