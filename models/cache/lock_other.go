//go:build !unix || solaris || illumos || aix

package cache

import (
	"errors"
	"os"
)

// TryLock says that locks do not work on this system.
func TryLock(*os.File) error { return errors.ErrUnsupported }
