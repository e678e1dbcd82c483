//go:build unix && !solaris && !illumos && !aix

package store

import (
	"errors"
	"os"
	"syscall"
)

// lock waits for a shared lock on f, which processes with open traces hold.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_SH) }

// tryLockAlone takes the lock if no process has it.
func tryLockAlone(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func unlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
