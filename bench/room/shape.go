package room

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"runner/cmd/runner/cli"
	"runner/cmd/runner/flags"
	"runner/cmd/runner/render"
	"runner/hint"
	"runner/models/cache"
	"runner/models/random"
)

// shapeConfig returns the shape that the options ask for, with their layers.
func (a *bencher) shapeConfig(o *options) (random.Config, error) {
	name, layers := o.shape, o.layers
	c, ok := a.shapeOf(name)
	if !ok {
		hint := "use " + flags.Alternatives(random.Shapes())
		if near := cli.Nearest(name, random.Shapes()); near != "" {
			hint = "did you mean " + near + "?"
		}
		return c, cli.Usage("--shape cannot be %q", name).Hint("%s", hint)
	}
	switch {
	case layers == 1, layers > c.Layers: // the layers of some are of two kinds in turns
		return c, cli.Usage("--layers cannot be %d", layers).Hint("use 2 to %d, which %s has", c.Layers, name)
	case layers > 0:
		c.Layers = layers
	}
	return c, nil
}

// shapeFile returns the file of a model with random weights in the shape and with the layers that the options ask for,
// and how many layers it has. It is made once and kept in the user's cache folder. One that is damaged is made again.
func (a *bencher) shapeFile(ctx context.Context, o *options, say func(string)) (path string, has int, err error) {
	c, err := a.shapeConfig(o)
	if err != nil {
		return "", 0, err
	}
	folder, err := os.UserCacheDir()
	if err != nil {
		folder = os.TempDir()
	}
	folder = filepath.Join(folder, "runner", "shapes")
	path = filepath.Join(folder, shapeName(o.shape, c.Layers))
	switch err := random.Check(path, c); {
	case err == nil:
		return path, c.Layers, nil
	case !errors.Is(err, os.ErrNotExist):
		a.note(fmt.Sprintf("warning: %s cannot be used, and is made again: %v", path, hint.Reason(err)))
	}
	return path, c.Layers, makeShape(ctx, path, o.shape, c, say)
}

// shapeName is the name of a shape's file.
func shapeName(shape string, layers int) string {
	return fmt.Sprintf("%s-%d-layers-random.gguf", shape, layers)
}

// shapeInMemory makes the same file in memory. It is gone when f is closed, or this process ends.
func (a *bencher) shapeInMemory(ctx context.Context, o *options, say func(string)) (f *os.File, path string, has int,
	err error) {
	c, err := a.shapeConfig(o)
	if err != nil {
		return nil, "", 0, err
	}
	f, path, err = memoryFile()
	if err != nil {
		return nil, "", 0, cli.Input("no file can be made in memory: %v", err).From(err).
			Hint("leave --in-memory out; the file is then made in the cache folder")
	}
	if free := a.free(); free > 0 && free < c.Size()+c.Size()/10 { // the engine needs some more
		err = cli.Input("the weights of %s take %s, and %s of memory are free", o.shape, render.Size(c.Size()),
			render.Size(free)).
			Hint("use fewer --layers, or leave --in-memory out")
	} else {
		err = writeShape(ctx, f, c, say)
	}
	if err != nil {
		f.Close()
		return nil, "", 0, err
	}
	return f, path, c.Layers, nil
}

// makeShape makes the file of a shape.
func makeShape(ctx context.Context, path, name string, c random.Config, say func(string)) error {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return cli.Input("the folder %s cannot be made: %v", folder, hint.Reason(err)).From(err).
			Hint("set XDG_CACHE_HOME to a folder that can be written")
	}
	sweepShapes(folder)
	if free, ok := cache.Free(folder); ok && free < c.Size()+c.Size()/50 {
		return cli.Input("the weights of %s take %s, and there are %s free in %s", name, render.Size(c.Size()),
			render.Size(free), folder).
			Hint("free some space, or use fewer --layers")
	}
	f, err := os.CreateTemp(folder, newShape)
	if err != nil {
		return cli.Input("nothing can be written in %s: %v", folder, hint.Reason(err)).From(err).
			Hint("set XDG_CACHE_HOME to a folder that can be written")
	}
	defer os.Remove(f.Name()) // it is gone after the rename
	err = writeShape(ctx, f, c, say)
	if err == nil {
		err = f.Sync() // a machine that stops now does not leave the name with half of the weights
	}
	if e := f.Close(); err == nil {
		err = e
	}
	switch {
	case ctx.Err() != nil:
		return cli.ErrInterrupted
	case err != nil:
		return err
	}
	return os.Rename(f.Name(), path)
}

// writeShape writes a shape and says how far it is.
func writeShape(ctx context.Context, f *os.File, c random.Config, say func(string)) error {
	say(fmt.Sprintf("making %s of random weights", render.Size(c.Size())))
	err := random.Write(&stopping{ctx: ctx, f: f, done: func(n int64) {
		done := min(1, float64(n)/float64(c.Size()))
		say(fmt.Sprintf("making %s of random weights %3.0f%%", render.Size(c.Size()), 100*done))
	}}, c)
	if ctx.Err() != nil {
		return cli.ErrInterrupted
	}
	return err
}

// newShape is the name of a file that is being made, as os.CreateTemp takes it.
const newShape = ".new-*"

// leftTime is how long nothing was written to a file that is being made when its program has surely ended.
const leftTime = time.Hour

// sweepShapes removes the files of programs that ended while they made them. They can be as large as models.
func sweepShapes(folder string) {
	list, _ := filepath.Glob(filepath.Join(folder, newShape))
	for _, path := range list {
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > leftTime {
			_ = os.Remove(path)
		}
	}
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
