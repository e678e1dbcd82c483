package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"runner/cmd/runner/render"
	"runner/models/cache"
	"runner/models/random"
)

// shapeFile returns the file of a model with random weights in a shape, and how many layers it has. It is made once and
// kept in the user's cache folder. layers is how many are wanted, or 0 for all.
func (a *app) shapeFile(ctx context.Context, name string, layers int, say func(string)) (path string, has int,
	err error) {
	c, ok := random.Shape(name)
	if !ok {
		hint := "use " + alternatives(random.Shapes())
		if near := nearest(name, random.Shapes()); near != "" {
			hint = "did you mean " + near + "?"
		}
		return "", 0, &usageError{what: fmt.Sprintf("--shape cannot be %q", name), hint: hint}
	}
	switch {
	case layers == 1, layers > c.Layers: // the layers of some are of two kinds in turns
		return "", 0, &usageError{what: fmt.Sprintf("--layers cannot be %d", layers),
			hint: fmt.Sprintf("use 2 to %d, which %s has", c.Layers, name)}
	case layers > 0:
		c.Layers = layers
	}
	folder, err := os.UserCacheDir()
	if err != nil {
		folder = os.TempDir()
	}
	folder = filepath.Join(folder, "runner", "shapes")
	path = filepath.Join(folder, fmt.Sprintf("%s-%d-layers-random.gguf", name, c.Layers))
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return path, c.Layers, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", 0, &inputError{what: fmt.Sprintf("the folder %s cannot be made: %v", folder, reason(err)),
			hint: "set XDG_CACHE_HOME to a folder that can be written", err: err}
	}
	if free, ok := cache.Free(folder); ok && free < c.Size()+c.Size()/50 {
		return "", 0, &inputError{what: fmt.Sprintf("the weights of %s take %s, and there are %s free in %s", name,
			render.Size(c.Size()), render.Size(free), folder), hint: "free some space, or use fewer --layers"}
	}
	f, err := os.CreateTemp(folder, ".new-*")
	if err != nil {
		return "", 0, err
	}
	defer os.Remove(f.Name()) // it is gone after the rename
	say(fmt.Sprintf("making %s of random weights", render.Size(c.Size())))
	err = random.Write(&stopping{ctx: ctx, f: f, done: func(n int64) {
		done := min(1, float64(n)/float64(c.Size()))
		say(fmt.Sprintf("making %s of random weights %3.0f%%", render.Size(c.Size()), 100*done))
	}}, c)
	if e := f.Close(); err == nil {
		err = e
	}
	switch {
	case ctx.Err() != nil:
		return "", 0, errInterrupted
	case err != nil:
		return "", 0, err
	}
	return path, c.Layers, os.Rename(f.Name(), path)
}

// stopping writes to a file until a context ends.
type stopping struct {
	ctx     context.Context
	f       *os.File
	written int64
	done    func(written int64)
}

// Write implements io.Writer.
func (s *stopping) Write(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.f.Write(b)
	s.written += int64(n)
	s.done(s.written)
	return n, err
}
