package testenv

import (
	"os"
	"syscall"
	"testing"
)

// TestMounts mounts a file system in the process that may do that.
func TestMounts(t *testing.T) {
	if !Mounts(t) {
		return
	}
	dir := t.TempDir()
	Mount(t, "tmpfs", dir, "tmpfs", 0, "size=64k")
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil || int64(s.Blocks)*s.Bsize != 64<<10 {
		t.Errorf("the disk has %d blocks of %d bytes: %v", s.Blocks, s.Bsize, err)
	}
}

// TestFailuresAreNoSkips: only what the system does not allow is skipped.
func TestFailuresAreNoSkips(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.EPERM: true, &os.PathError{Op: "fork/exec", Err: syscall.ENOSPC}: true,
		syscall.ENOENT: false, syscall.EMFILE: false, nil: false,
	} {
		if refused(err) != want {
			t.Errorf("%v counts as not allowed: %v", err, !want)
		}
	}
}
