package cache

import (
	"os"
	"path/filepath"
)

// Free returns how many bytes this user can still write below dir, which need not exist. It reports false where the
// system does not say.
func Free(dir string) (int64, bool) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return 0, false
	}
	for {
		if _, err := os.Stat(dir); err == nil {
			return free(dir)
		}
		up := filepath.Dir(dir)
		if up == dir {
			return 0, false
		}
		dir = up
	}
}
