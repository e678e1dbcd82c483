//go:build !unix || solaris || illumos || aix

package store

import (
	"errors"
	"os"
)

func lock(*os.File) error { return errors.ErrUnsupported }

func tryLockAlone(*os.File) (bool, error) { return false, errors.ErrUnsupported }

func unlock(*os.File) error { return errors.ErrUnsupported }
