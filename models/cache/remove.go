package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"runner/models/catalog"
)

// ErrLinked says that a repository's folder is a link. What it leads to may belong to something else.
var ErrLinked = errors.New("the folder of the repository is a link, so its files lie elsewhere")

// Removal is what a removal did.
type Removal struct {
	// Files is the number of entries of snapshots that were removed. Bytes is the disk space of the blobs.
	Files int
	Bytes int64
	// All reports that nothing is left of the repository.
	All bool
}

// Remove removes the files of snapshots for which gone returns true. With them go the snapshots that have no more
// files, the references to these, and the blobs that no other snapshot uses.
//
// It removes links but never what they lead to, unless that is a blob of the repository. The error is [ErrLinked] if
// the repository's folder itself is a link, and fs.ErrNotExist if there is none. References go first and blobs last,
// so that other programs see a cache that is whole at any time. A download into the repository that runs meanwhile
// fails.
func (r Repo) Remove(gone func(commit string, f catalog.File) bool) (Removal, error) {
	info, err := os.Lstat(r.Dir())
	switch {
	case err != nil:
		return Removal{}, err
	case !info.IsDir():
		return Removal{}, fmt.Errorf("%s: %w", r.ID(), ErrLinked)
	}
	// A root refuses every path that leads out of it.
	root, err := os.OpenRoot(r.Dir())
	if err != nil {
		return Removal{}, err
	}
	defer root.Close()
	p, err := r.planRemoval(root, gone)
	if err != nil {
		return Removal{}, err
	}
	done := Removal{Bytes: p.bytes}
	if err := r.removeRefs(root, p.commits); err != nil {
		return done, err
	}
	for _, e := range p.entries {
		if err := root.Remove(filepath.FromSlash(e)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return done, err
		}
		done.Files++
		// A folder that still has files cannot be removed.
		for dir := path.Dir(e); path.Dir(path.Dir(dir)) != "."; dir = path.Dir(dir) {
			if root.Remove(filepath.FromSlash(dir)) != nil {
				break
			}
		}
	}
	for _, commit := range p.commits {
		// huggingface_hub keeps what it knows of a commit in the last two.
		for _, place := range []string{"snapshots/" + commit, ".no_exist/" + commit, "trees/" + commit + ".json"} {
			if err := root.RemoveAll(filepath.FromSlash(place)); err != nil {
				return done, err
			}
		}
	}
	for _, etag := range p.blobs {
		name := filepath.Join("blobs", etag)
		size := sizeOf(root, name)
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return done, err
		}
		done.Bytes += size
	}
	// Only an empty folder can be removed. One with a download that did not finish stays.
	if p.kept == 0 && len(p.entries) > 0 && root.Remove("blobs") == nil {
		done.All = true
		return done, os.RemoveAll(r.Dir())
	}
	return done, nil
}

// removal is what there is to remove.
type removal struct {
	entries []string // with slashes, relative to the repository
	bytes   int64    // of entries that are no links
	commits []string // whose snapshots go
	kept    int      // how many snapshots stay
	blobs   []string // that only removed entries use
}

func (r Repo) planRemoval(root *os.Root, gone func(commit string, f catalog.File) bool) (removal, error) {
	var p removal
	used, dropped := map[string]bool{}, map[string]bool{}
	var order []string
	commits, err := r.Commits()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	for _, commit := range commits {
		files, err := r.Files(commit)
		if err != nil {
			return p, err
		}
		left := 0
		for _, f := range files {
			switch {
			case !gone(commit, f):
				left++
				used[f.Etag] = true
				continue
			case f.Etag == "":
				p.bytes += sizeOf(root, filepath.Join("snapshots", commit, filepath.FromSlash(f.Path)))
			case !dropped[f.Etag]:
				dropped[f.Etag] = true
				order = append(order, f.Etag)
			}
			p.entries = append(p.entries, path.Join("snapshots", commit, f.Path))
		}
		if left == 0 {
			p.commits = append(p.commits, commit)
		} else {
			p.kept++
		}
	}
	for _, etag := range order {
		if !used[etag] {
			p.blobs = append(p.blobs, etag)
		}
	}
	return p, nil
}

// removeRefs removes the references to commits.
func (r Repo) removeRefs(root *os.Root, commits []string) error {
	gone := map[string]bool{}
	for _, c := range commits {
		gone[c] = true
	}
	var refs []string
	err := fs.WalkDir(root.FS(), "refs", func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if commit, err := r.Commit(p[len("refs/"):]); err == nil && gone[commit] {
			refs = append(refs, p)
		}
		return nil
	})
	for _, p := range refs {
		err = errors.Join(err, root.Remove(filepath.FromSlash(p)))
	}
	return err
}

// sizeOf returns the size of a regular file, and 0 for anything else.
func sizeOf(root *os.Root, name string) int64 {
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}
