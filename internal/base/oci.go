package base

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"runtime"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"enplace"
)

// pull unpacks the image that a reference stands for now, and gives the source with its digest. Credentials come from the
// operator's own container configuration (~/.docker/config.json), as for every other client.
func pull(ctx context.Context, root *rootfs, reference string, out *lines) (string, error) {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return "", enplace.Invalidf("%q is not an image reference", reference).WithField("base.source").WithCause(err)
	}
	img, err := remote.Image(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		return "", pullFailed(ctx, reference, err)
	}
	digest, err := img.Digest()
	if err != nil {
		return "", pullFailed(ctx, reference, err)
	}
	layers, err := img.Layers()
	if err != nil {
		return "", pullFailed(ctx, reference, err)
	}
	for i, l := range layers {
		size, _ := l.Size() // for the line only
		out.printf("layer %d of %d, %d MiB", i+1, len(layers), size>>20)
		if err := unpackLayer(ctx, root, l); err != nil {
			return "", pullFailed(ctx, reference, fmt.Errorf("layer %d: %w", i+1, err))
		}
	}
	return string(OCI) + ":" + ref.Context().Digest(digest.String()).String(), nil
}

func pullFailed(ctx context.Context, reference string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return enplace.Errorf(enplace.KindUpstream, "the image %s cannot be had: %v", reference, err).WithField("base.source").WithCause(err)
}

// unpackLayer checks the layer against the image's own list of uncompressed digests, which the manifest's digest covers.
func unpackLayer(ctx context.Context, root *rootfs, l v1.Layer) error {
	want, err := l.DiffID()
	if err != nil {
		return err
	}
	content, err := l.Uncompressed()
	if err != nil {
		return err
	}
	defer content.Close()
	sum := sha256.New()
	lay := &layer{root: root, own: map[string]bool{}}
	if err := eachEntry(ctx, io.TeeReader(content, sum), lay.apply); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); want.Algorithm != "sha256" || got != want.Hex {
		return fmt.Errorf("its content has the digest sha256:%s, and %s was announced", got, want)
	}
	return nil
}
