//go:build unix && !solaris && !illumos && !aix

package cache

import (
	"errors"
	"os"
	"syscall"
)

// TryLock takes an exclusive lock on an open file, until it is closed. The error is [ErrBusy] if another descriptor has
// it, also one of this process, or says why locks do not work here.
func TryLock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EACCES) {
		return ErrBusy
	}
	return err
}
