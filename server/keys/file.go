package keys

import (
	"os"
	"sync"

	"runner/hint"
	"runner/wholefile"
)

// File is a file with hashes of secrets. It is read again when it has changed. It may be used by several goroutines at
// once.
type File struct {
	path string

	mu sync.Mutex
	// looked says whether the file was looked at. seen is its state then; nil if it was missing.
	looked bool
	seen   os.FileInfo
}

// Source is what a server reads from a file, and again when the file has changed.
type Source struct {
	// Name says what it is, in the plural, such as "the API keys".
	Name string
	// Reread reads it again if its file has changed, or even if the file looks unchanged, and reports whether it took
	// something new. If the file cannot be used, all stays as it was; the error is returned once for each change, and
	// contains no secret.
	Reread func(unchanged bool) (changed bool, err error)
	// Len returns how many there are.
	Len func() int
}

// NewFile returns the file at path. It does not look at it yet.
func NewFile(path string) *File { return &File{path: path} }

// Update reads the file if it was never read or has changed since the last time, or even if it looks unchanged, and
// calls use with its content, one call at a time. It reports whether use took something new. An error of [ReadFile] or
// of use is returned once for each change.
func (f *File) Update(unchanged bool, use func(content []byte) error) (changed bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err != nil {
		info = nil
	}
	same := f.looked && !unchanged && sameFile(f.seen, info)
	f.looked, f.seen = true, info
	if same {
		return false, nil
	}
	content, err := ReadFile(f.path)
	if err == nil {
		err = use(content)
	}
	return err == nil, err
}

// sameFile reports whether two states of a file are the same; nil means that it is missing.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && a.Mode() == b.Mode()
}

// ReadFile reads a file with hashes of secrets. On systems with Unix permissions it refuses a file that others may
// write.
func ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, unreadable(path, err)
	case !info.Mode().IsRegular():
		return nil, problem("", "name a file", "%s is not a regular file", path)
	case info.Size() > maxFile:
		return nil, problem("", "name a key file", "%s has %d bytes; at most %d are allowed", path, info.Size(), maxFile)
	case info.Mode().Perm()&0o022 != 0:
		return nil, problem("", hint.Advice("chmod 600 "+path), "others may write %s", path)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	return content, nil
}

// unreadable says why a file cannot be read.
func unreadable(path string, err error) error {
	return problem("", "check the path and its permissions", "%s cannot be read: %w", path, hint.Reason(err))
}

// ReplaceFile atomically replaces a file with one that only its owner can read.
func ReplaceFile(path string, content []byte) error {
	if err := wholefile.Replace(path, content, 0o600); err != nil {
		return &hint.Error{Text: "API keys: the file cannot be written", Err: err,
			Advice: "check the space and the permissions of its folder"}
	}
	return nil
}
