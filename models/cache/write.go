package cache

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"runner/models/catalog"
	"runner/wholefile"
)

// tag marks the folder as a cache for backup programs (bford.info/cachedir).
const tag = `Signature: 8a477f597d28d172789f06886806bc55
# This file is a cache directory tag created by runner.
# For information about cache directory tags, see https://bford.info/cachedir/
`

// Prepare makes the folders of a repository. Tools that scan the cache complain about a repository without them.
func (r Repo) Prepare() error {
	for _, dir := range []string{r.Blobs(), r.Snapshots()} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	path := filepath.Join(r.cache.dir, "CACHEDIR.TAG")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(tag)
	return errors.Join(err, f.Close())
}

// How entries are made. Tests of systems without links replace both.
var (
	symlink  = os.Symlink
	hardlink = os.Link
)

// Publish adds files to a commit's snapshot. Their etags are those of blobs, which must be in the cache. A snapshot
// that did not exist appears with all files at once. In one that exists, each file appears whole, in no order.
//
// The entries are relative links to the blobs. Where links do not work, the entries are the files themselves, as
// huggingface_hub does it, and linked is false: then other revisions may not find the blobs, and fetch them again.
func (r Repo) Publish(commit string, files []catalog.File) (linked bool, err error) {
	final, err := r.Snapshot(commit)
	if err != nil {
		return false, err
	}
	for _, f := range files {
		if _, err := r.Entry(commit, f.Path); err != nil {
			return false, err
		}
		if _, err := r.Blob(f.Etag); err != nil {
			return false, err
		}
	}
	if err := r.Prepare(); err != nil {
		return false, err
	}
	if _, err := os.Lstat(final); !errors.Is(err, fs.ErrNotExist) {
		return r.enter(final, files)
	}
	// The new folder lies where scans of the cache do not look.
	fresh := filepath.Join(r.Dir(), ".new-"+rand.Text())
	defer os.RemoveAll(fresh)
	linked, err = r.enter(fresh, files)
	if err != nil {
		return false, err
	}
	if err := os.Rename(fresh, final); err == nil {
		return linked, wholefile.Sync(r.Snapshots())
	} else if _, missing := os.Lstat(final); missing != nil {
		return false, err
	}
	// Another program made the snapshot meanwhile.
	return r.enter(final, files)
}

// enter makes the entries of files in a folder that is or becomes a snapshot.
func (r Repo) enter(dir string, files []catalog.File) (linked bool, err error) {
	linked = true
	for _, f := range files {
		place := filepath.Join(dir, filepath.FromSlash(f.Path))
		blob := filepath.Join(r.Blobs(), f.Etag)
		info, err := os.Lstat(place)
		switch {
		case err == nil && info.IsDir():
			return false, fmt.Errorf("%s is a folder", place)
		case err == nil && info.Mode().IsRegular():
			// It was made where links do not work, maybe from this very blob.
			linked = false
			continue
		}
		if _, err := os.Stat(blob); err != nil {
			return false, err
		}
		if err := os.MkdirAll(filepath.Dir(place), 0o777); err != nil {
			return false, err
		}
		// A snapshot is two folders below the repository's, and each folder in the file's path is one more.
		up := strings.Repeat(".."+string(filepath.Separator), 2+strings.Count(f.Path, "/"))
		asLink, err := enterOne(place, blob, filepath.Join(up, "blobs", f.Etag))
		if err != nil {
			return false, err
		}
		linked = linked && asLink
	}
	return linked, syncTree(dir)
}

// enterOne makes place a link to target, which is the relative path of blob, or else a file with its bytes.
func enterOne(place, blob, target string) (linked bool, err error) {
	if was, err := os.Readlink(place); err == nil && was == target {
		return true, nil
	}
	temporary := place + "." + rand.Text() + ".tmp"
	defer os.Remove(temporary)
	linked = true
	if symlink(target, temporary) != nil {
		linked = false
		if hardlink(blob, temporary) != nil {
			if err := copyFile(temporary, blob); err != nil {
				return false, err
			}
		}
	}
	return linked, os.Rename(temporary, place)
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// HasBlob reports whether the cache has the blob of a file, in the right size. Its content was verified when it was
// written.
func (r Repo) HasBlob(f catalog.File) bool {
	blob, err := r.Blob(f.Etag)
	if err != nil {
		return false
	}
	info, err := os.Stat(blob)
	return err == nil && info.Mode().IsRegular() && info.Size() == f.Size
}

// HasEntry reports whether a commit's snapshot has a file itself and not as a link, as where links do not work.
func (r Repo) HasEntry(commit string, f catalog.File) bool {
	place, err := r.Entry(commit, f.Path)
	if err != nil {
		return false
	}
	info, err := os.Lstat(place)
	return err == nil && info.Mode().IsRegular() && info.Size() == f.Size
}

// syncTree syncs a folder and those in it.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return wholefile.Sync(path)
	})
}

// SetRef makes a reference, for instance main, name a commit.
func (r Repo) SetRef(name, commit string) error {
	path, err := r.Ref(name)
	if err != nil {
		return err
	}
	if _, err := r.Snapshot(commit); err != nil {
		return err
	}
	if was, err := os.ReadFile(path); err == nil && string(was) == commit {
		return nil
	}
	// There is no newline: huggingface_hub takes the file as it is.
	return wholefile.Write(path, []byte(commit), 0o666)
}
