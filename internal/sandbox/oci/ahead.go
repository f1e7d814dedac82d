package oci

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"enplace"
	"enplace/internal/image"
	"enplace/internal/sandbox"
)

// ahead is a stack of images that a waiting sandbox has at hand, as making one takes longer than attaching it. It stays
// detached, out of reach of whatever runs inside, until an owner mounts those very images. It keeps no image from being
// collected: whoever takes it acquires them.
type ahead struct {
	images []enplace.Digest
	mount  *os.File
	made   time.Time
}

// expected gives the images that a sandbox with these mounts could have had ahead.
func expected(mounts []sandbox.Mount) []enplace.Digest {
	for _, m := range mounts {
		if !m.Writable && m.Cache == "" {
			return m.Images
		}
	}
	return nil
}

// stackAhead makes a stack for an owner to come.
func (c *container) stackAhead(ctx context.Context, images []enplace.Digest) error {
	ctx, release, err := c.use(ctx)
	if err != nil {
		return err
	}
	defer release()
	var layers []*image.Layer
	defer func() {
		for _, l := range layers {
			_ = l.Close() // of one that was acquired it cannot fail
		}
	}()
	for _, d := range images {
		l, err := c.r.images.Acquire(ctx, d)
		if err != nil {
			return fmt.Errorf("image %s: %w", d, err)
		}
		layers = append(layers, l)
	}
	mount, err := image.Stack(image.StackOptions{Layers: layers, UserNS: int(c.userNS.Fd())})
	if err != nil {
		return err
	}
	c.dropAhead(c.ahead.Swap(&ahead{images: images, mount: mount, made: c.r.now()}))
	return nil
}

// has reports whether the sandbox has these images at hand.
func (c *container) has(images []enplace.Digest) bool {
	a := c.ahead.Load()
	return a != nil && slices.Equal(a.images, images)
}

// takeAhead gives the stack of these images, or nil. Another one is of no more use.
func (c *container) takeAhead(images []enplace.Digest) *os.File {
	a := c.ahead.Swap(nil)
	if a != nil && slices.Equal(a.images, images) {
		return a.mount
	}
	c.dropAhead(a)
	return nil
}

func (c *container) dropAhead(a *ahead) {
	if a != nil {
		go a.mount.Close() // which takes as long as the kernel likes
	}
}
