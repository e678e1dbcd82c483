//go:build unix && !solaris && !illumos && !aix

package store

import (
	"errors"
	"os"
	"syscall"
)

// lock waits for a shared lock on f. Processes with open traces hold it.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_SH) }

// tryLockAlone takes the lock exclusively if no other process holds it, and reports whether it did.
func tryLockAlone(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func unlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
