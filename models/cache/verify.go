package cache

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Damage is a file of a snapshot that is not as it was on the hub.
type Damage struct {
	// File is the path in the repository, Commit one of the commits whose snapshot has it.
	File, Commit string
	// Etag is the name of the blob, Got the hash of its bytes. Got is empty if there are none.
	Etag, Got string
}

func (d Damage) String() string {
	if d.Got == "" {
		return fmt.Sprintf("%s is missing", d.File)
	}
	return fmt.Sprintf("%s is damaged: its bytes have the hash %.12s, not %.12s", d.File, d.Got, d.Etag)
}

// Verification is what a check found.
type Verification struct {
	// Files is the number of blobs whose hash was computed, Bytes their size.
	Files int
	Bytes int64
	// Damaged are the files that are damaged or missing, sorted by commit and path. A blob is named once.
	Damaged []Damage
	// Unknown are the paths of files whose hash is not known, because they are copies and no links, or because the
	// names of their blobs are no hashes.
	Unknown []string
}

// Verify computes the hash of each blob that a snapshot uses and compares it with the blob's name: the SHA-256 in 64
// hexadecimal digits, or git's SHA-1 of a blob in 40. progress may be nil. It is called with the bytes so far and in
// all, now and then. The error is that of ctx or of a file that cannot be read. Nothing is written.
func (r Repo) Verify(ctx context.Context, progress func(done, total int64)) (Verification, error) {
	var v Verification
	commits, err := r.Commits()
	if err != nil {
		return v, err
	}
	type task struct {
		Damage
		size int64
		sum  *Hash
	}
	var tasks []task
	var total int64
	seen := map[string]bool{}
	for _, commit := range commits {
		files, err := r.Files(commit)
		if err != nil {
			return v, err
		}
		for _, f := range files {
			if f.Etag != "" && seen[f.Etag] {
				continue
			}
			seen[f.Etag] = true
			d := Damage{File: f.Path, Commit: commit, Etag: f.Etag}
			sum, err := NewHash(f.Etag, f.Size)
			switch {
			case f.Missing:
				v.Damaged = append(v.Damaged, d)
			case err != nil:
				v.Unknown = append(v.Unknown, f.Path)
			default:
				tasks = append(tasks, task{d, f.Size, sum})
				total += f.Size
			}
		}
	}
	buffer := make([]byte, 1<<20)
	for _, t := range tasks {
		before := v.Bytes
		err := hashFile(ctx, t.sum, filepath.Join(r.Blobs(), t.Etag), buffer, func(n int) {
			v.Bytes += int64(n)
			if progress != nil {
				progress(v.Bytes, total)
			}
		})
		if err != nil {
			return v, err
		}
		v.Files++
		if t.Got = t.sum.Name(); t.Got != t.Etag || v.Bytes-before != t.size {
			v.Damaged = append(v.Damaged, t.Damage)
		}
	}
	slices.SortFunc(v.Damaged, func(a, b Damage) int {
		return cmp.Or(strings.Compare(a.Commit, b.Commit), strings.Compare(a.File, b.File))
	})
	return v, nil
}

func hashFile(ctx context.Context, sum *Hash, path string, buffer []byte, read func(n int)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := f.Read(buffer)
		sum.Write(buffer[:n])
		read(n)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
