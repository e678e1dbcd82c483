package library

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"runner/models/installed"
	"runner/wholefile"
)

// Limits of the file of further names.
const (
	maxNames    = 1000
	maxNameFile = 2 << 20
)

// nameFile is the file of the further names of models. It is read at each use, because other programs may change it,
// and replaced as a whole; the last to write wins.
type nameFile struct {
	path string
	mu   sync.Mutex
}

// content is JSON, {"names": {NAME: MODEL}}.
type content struct {
	Names map[string]string `json:"names"`
}

// bare is a name without the tag latest, which means the same.
func bare(name string) string { return strings.TrimSuffix(name, ":latest") }

// read reads the file. A missing file has no names.
func (f *nameFile) read() (map[string]string, error) {
	if f.path == "" {
		return map[string]string{}, nil
	}
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxNameFile+1))
	if err != nil {
		return nil, err
	}
	var c content
	if err := json.Unmarshal(text, &c); err != nil || len(text) > maxNameFile {
		return nil, errors.Join(fmt.Errorf("%s is not a file of names; remove or correct it", f.path), err)
	}
	if c.Names == nil {
		c.Names = map[string]string{}
	}
	return c.Names, nil
}

// write replaces the file.
func (f *nameFile) write(all map[string]string) error {
	text, err := json.MarshalIndent(content{all}, "", "  ")
	if err != nil {
		return err
	}
	return wholefile.Write(f.path, append(text, '\n'), 0o600)
}

// find returns the model that a further name means.
func (f *nameFile) find(name string) (model string, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all, err := f.read()
	model, ok = all[bare(name)]
	return model, ok, err
}

// remove removes a name and reports whether it was there.
func (f *nameFile) remove(name string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all, err := f.read()
	if err != nil {
		return false, err
	}
	if _, ok := all[bare(name)]; !ok {
		return false, nil
	}
	delete(all, bare(name))
	return true, f.write(all)
}

// set gives a model another name.
func (f *nameFile) set(name, model string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	all, err := f.read()
	if err != nil {
		return err
	}
	if _, there := all[bare(name)]; !there && len(all) >= maxNames {
		return fmt.Errorf("%w: %d", ErrFull, maxNames)
	}
	all[bare(name)] = model
	return f.write(all)
}

// Names returns the further names, each with the model that it means.
func (l *Library) Names() (map[string]string, error) {
	l.names.mu.Lock()
	defer l.names.mu.Unlock()
	return l.names.read()
}

// Named returns the model that a further name means.
func (l *Library) Named(name string) (model string, ok bool, err error) { return l.names.find(name) }

// Name gives a model another name, or lets a further name mean another model. The model is a name that [Library.Find]
// knows, best as [catalog.Entry.Spelled] has it, or one that the program serves. Errors are a [*names.Error], and wrap
// [ErrTaken] or [ErrFull].
func (l *Library) Name(name, model string) error {
	n, err := Parse(name)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, found := installed.Find(l.cfg.Cache, n); len(found) > 0 {
		return fmt.Errorf("%q: %w", name, ErrTaken)
	}
	return l.names.set(name, model)
}
