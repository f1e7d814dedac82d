package project

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/build"
	"enplace/internal/image"
)

// pythonPart is a distribution as an image of the environment's has it, file by file what its wheel is made of, with the bytecode.
type pythonPart struct {
	Package enplace.ResolvedPackage `json:"package"`
	Wheels  string                  `json:"wheels"` // what it was chosen from: see lockedPackage.wheels
	Site    string                  `json:"site"`
	Info    string                  `json:"info"` // its folder of metadata, in Site
	Image   enplace.Digest          `json:"image"`
	Build   int                     `json:"build"` // that installed it
	Paths   []string                `json:"paths"`
}

func (part pythonPart) info() string { return part.Site + "/" + part.Info }

// pythonParts are what the last Python layer of an environment left to the next one. They keep no image: what is collected is no
// part any more.
type pythonParts struct {
	Parts []pythonPart   `json:"parts"`
	Laid  enplace.Digest `json:"laid,omitempty"` // an image of the empty virtual environment with all of them
}

// reuse is what a Python step takes from earlier layers of its environment, so that it need not copy and compile what they have, and
// what it leaves to later ones.
//
// All parts of the last layer are laid below the step's sandbox before anything is resolved. Once it is known what is to come, the
// others are taken away file by file; then uv runs as it would otherwise, finds installed what stayed, and has the last word. A
// part stays only where the resolution offers the very wheels that it was chosen from.
type reuse struct {
	*plan
	laid  []pythonPart
	image enplace.Digest // of them and the empty virtual environment

	lock pythonLock // of the installation
	got  installedPython
}

// partsKey is what the parts of the environment are kept by, for each interpreter.
func (r *reuse) partsKey() any {
	return map[string]any{"recipe": recipeVersion, "step": "python parts", "environment": r.run.Environment, "path": r.root, "venv": r.emptyVenv}
}

// known gives the parts whose image is still there.
func (r *reuse) known(ctx context.Context) (pythonParts, error) {
	var last pythonParts
	if r.python.InPlace || r.python.NoBinary || len(r.python.Unlocked) > 0 { // there is no resolution to hold them against
		return last, nil
	}
	if _, err := r.run.Recall(ctx, r.partsKey(), &last); err != nil {
		return last, fmt.Errorf("looking for packages of earlier layers: %w", err)
	}
	n := len(last.Parts)
	last.Parts = slices.DeleteFunc(last.Parts, func(part pythonPart) bool {
		_, err := r.s.cfg.Images.Stat(part.Image)
		return err != nil
	})
	if n > len(last.Parts) {
		r.run.Log.Note("%d packages are installed anew, as the images that had them are gone", n-len(last.Parts))
		last.Laid = ""
	}
	return last, nil
}

// below gives the image that the step begins with: the empty virtual environment, with the parts. Where they cannot be put together
// all are installed from scratch.
func (r *reuse) below(ctx context.Context) (enplace.Digest, error) {
	last, err := r.known(ctx)
	if err != nil {
		return "", err
	}
	return r.lay(ctx, last)
}

func (r *reuse) lay(ctx context.Context, last pythonParts) (_ enplace.Digest, err error) {
	if len(last.Parts) == 0 {
		return r.emptyVenv, nil
	}
	if r.image = last.Laid; r.image == "" || r.s.cfg.Images.Verify(ctx, r.image) != nil {
		r.image, err = r.compose(ctx, last.Parts)
	}
	switch {
	case err == nil:
		r.laid = last.Parts
		return r.image, nil
	case ctx.Err() != nil:
		return "", err
	case errors.Is(err, image.ErrTooManyParts):
		r.run.Log.Note("all packages are installed anew, as those of earlier builds lie in too many images")
	default:
		r.run.Log.Note("all packages are installed anew, as those of earlier builds cannot be put together")
		r.s.cfg.Logger.Warn("laying earlier packages below a Python step", "environment", r.run.Environment, "err", err)
	}
	return r.emptyVenv, nil
}

func (r *reuse) compose(ctx context.Context, have []pythonPart) (enplace.Digest, error) {
	parts := []image.Part{{Image: r.emptyVenv}}
	paths := map[enplace.Digest]map[string]bool{}
	for _, part := range have {
		of := paths[part.Image]
		if of == nil {
			of = map[string]bool{}
			paths[part.Image] = of
			parts = append(parts, image.Part{Image: part.Image, Keep: func(path string) bool { return of[path] }})
		}
		for _, path := range part.Paths {
			of[path] = true
		}
	}
	info, err := r.s.cfg.Images.Compose(ctx, parts, "", image.DirOptions{})
	return info.Digest, err
}

// took notes what the installation made of it, and says so.
func (r *reuse) took(sh *build.Shell, in *installation, got installedPython) {
	r.lock, r.got = in.lock, got
	if len(r.laid) == 0 {
		return
	}
	var builds []int
	taken := 0
	for _, d := range got.Distributions {
		if d.known != nil {
			taken++
			builds = append(builds, d.known.Build)
		}
	}
	slices.Sort(builds)
	from := strings.Trim(fmt.Sprint(slices.Compact(builds)), "[]")
	if from = "build " + strings.ReplaceAll(from, " ", ", "); taken == 0 {
		from = "earlier builds"
	}
	sh.Note("%d of %d packages taken from %s, %d installed", taken, len(got.Distributions), from, len(got.Distributions)-taken)
}

// leave notes what the layer that was made leaves to the next one. Nothing depends on it, so a failure is only logged.
func (r *reuse) leave(ctx context.Context, layer enplace.Digest, found pythonFindings) {
	next := pythonParts{}
	var fresh []freshPart
	for i, d := range r.got.Distributions {
		if d.known != nil {
			next.Parts = append(next.Parts, *d.known)
		} else {
			fresh = append(fresh, r.fresh(d, found.Packages[i]))
		}
	}
	if len(fresh) == 0 && len(next.Parts) == len(r.laid) {
		next.Laid = r.image
	}
	log := r.s.cfg.Logger.With("environment", r.run.Environment, "build", r.run.N)
	if len(fresh) > 0 {
		verified, err := r.verify(ctx, layer, next.Parts, fresh)
		if err != nil {
			log.Info("packages of a layer are not taken by later ones", "err", err)
		}
		next.Parts = append(next.Parts, verified...)
	}
	if err := r.run.Remember(ctx, r.partsKey(), next); err != nil {
		log.Warn("noting which packages a layer has", "err", err)
	}
}

// clear takes away what would stand in the way of what is to be installed next; without a lock, everything.
func (in *installation) clear(ctx context.Context, lock pythonLock) error {
	if _, real := lock["pip"]; (real || lock == nil) && !in.pipGone {
		in.pipGone = true
		if err := in.displacePip(ctx, in.sh); err != nil {
			return err
		}
	}
	return in.unlay(ctx, lock)
}

// unlay takes away what was laid below and is not to come: uv would take it for what an earlier command installed.
func (in *installation) unlay(ctx context.Context, lock pythonLock) error {
	later := in.later
	if !later.agrees(lock) || !later.agrees(in.done) {
		later = nil // what is installed first decides what the others come to
	}
	var gone []string
	in.laid = slices.DeleteFunc(slices.Clone(in.laid), func(part pythonPart) bool {
		if lock.wants(part) || in.done.wants(part) || later.wants(part) {
			return false
		}
		gone = append(gone, part.Paths...)
		return true
	})
	if len(gone) == 0 {
		return nil
	}
	cmd := in.script(removeScript, in.root)
	cmd.Stdin = strings.Join(gone, "\x00")
	return in.sh.Do(ctx, cmd)
}
