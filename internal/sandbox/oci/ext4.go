package oci

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// kind is what a volume's file system is made for.
type kind struct {
	prefix  string // of its templates
	journal int    // MiB
	// reserved are the MiB that only root of the host can write. On a full volume that was not unmounted the kernel needs some to
	// make its root writable, and those inside need that to remove something.
	reserved int
	options  []string
	folders  []string // that it has from the beginning, of root inside
}

// A volume that passes has no journal: all would be written twice, and thrown away. One that lasts has a small one, which holds more
// than any change of a moment, and stops at the first sign of a fault, before that spreads.
var (
	passing = kind{options: []string{"-O", "^has_journal,^resize_inode"}}
	lasting = kind{prefix: "lasting-", journal: 16, reserved: 1,
		options: []string{"-O", "has_journal,^resize_inode", "-J", "size=16", "-e", "remount-ro"},
		folders: []string{volumeRoot, volumeRoot + "/upper", volumeRoot + "/work", volumeMounts}}
)

// format makes an image file with an empty file system that has room for that many MiB.
func (v *volumes) format(ctx context.Context, image string, mib int, k kind) error {
	template, err := v.template(ctx, mib, k)
	if err != nil {
		return err
	}
	if err := copySparse(template, image); err != nil {
		return fmt.Errorf("copying an empty volume: %w", err)
	}
	return nil
}

// template gives the formatted empty image of a size, made when it is first asked for.
func (v *volumes) template(ctx context.Context, mib int, k kind) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	path := filepath.Join(v.templates, k.prefix+strconv.Itoa(mib)+".img")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	temp, folders := path+".new", path+".folders"
	defer os.RemoveAll(folders)
	if err := k.makeFolders(folders); err != nil {
		return "", err
	}
	defer os.Remove(temp)
	// Many small files are what package managers write, so there is an inode for each 16 KiB; the tables of inodes are on top of what
	// may be written.
	inodes := max(mib*64, 8192)
	size := mib + inodes*256>>20 + 4 + k.journal + k.reserved
	args := append([]string{"-q", "-F", "-b", "4096", "-I", "256", "-m", "0", "-N", strconv.Itoa(inodes), "-d", folders,
		"-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0"}, k.options...)
	out, err := exec.CommandContext(ctx, "mkfs.ext4", append(args, temp, strconv.Itoa(size)+"M")...).CombinedOutput()
	if err == nil && k.reserved > 0 {
		out, err = exec.CommandContext(ctx, "tune2fs", "-r", strconv.Itoa(k.reserved*256), temp).CombinedOutput()
	}
	if err != nil {
		return "", fmt.Errorf("formatting a volume: %w: %s", err, out)
	}
	if err := os.Chmod(temp, 0o600); err != nil {
		return "", err
	}
	return path, os.Rename(temp, path)
}

// makeFolders makes, in a new folder, those that a volume begins with.
func (k kind) makeFolders(dir string) error {
	os.RemoveAll(dir) // of an earlier process
	for _, name := range append([]string{""}, k.folders...) {
		if err := makeOwned(filepath.Join(dir, name), 0); err != nil {
			return err
		}
	}
	return nil
}

// cleanlyUnmounted reports whether the file system of an image was unmounted in order and has no known error. Without a journal
// that is the only sign that it is whole.
func cleanlyUnmounted(image string) bool {
	f, err := os.Open(image)
	if err != nil {
		return false
	}
	defer f.Close()
	var super [128]byte // the beginning of it
	if _, err := f.ReadAt(super[:], 1024); err != nil {
		return false
	}
	magic, state := binary.LittleEndian.Uint16(super[0x38:]), binary.LittleEndian.Uint16(super[0x3a:])
	needs := binary.LittleEndian.Uint32(super[0x60:])
	const valid, faulty, replay = 1, 2, 4 // of s_state, and of s_feature_incompat
	return magic == unix.EXT4_SUPER_MAGIC && state&(valid|faulty) == valid && needs&replay == 0
}

// repair mends what a crash of the host left half-written. What cannot be mended by itself stays readable as far as it goes.
func repair(ctx context.Context, image string) {
	if !cleanlyUnmounted(image) {
		_ = exec.CommandContext(ctx, "e2fsck", "-p", "-f", image).Run()
	}
}
