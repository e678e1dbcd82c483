//go:build !linux

package room

import (
	"errors"
	"os"
)

// memoryFile fails: only Linux has files in memory that other processes can open.
func memoryFile() (f *os.File, path string, err error) {
	return nil, "", errors.New("only Linux has such files")
}
