// Package models finds the files of a model by its name.
//
// A name is a path to a GGUF file or to a folder with safetensors, or a name in the local Hugging Face cache. Resolving
// a name looks only at directories and names: it opens no model, downloads nothing and writes nothing. A [Snapshot]
// detects that the files of a loaded model have changed.
//
// A name resolves to exactly one model, or to an error that says what was looked for, where, and what was found. A name
// can never reach outside the cache. A model that is split over several files is named by its first part, and all parts
// must exist.
package models

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// Model is where a model's weights are.
type Model struct {
	// Name is what the user called it.
	Name string
	// Path is the file to open. For a split model it is the first part, for a folder the folder.
	Path string
	// Parts are all files of the model in order. Path is the first unless it is a folder.
	Parts []string
}

// Error says why a name did not resolve to a model.
type Error struct {
	Name string
	// Detail is one line without the name.
	Detail string
	// Advice is one line that tells the user what to do.
	Advice string
	// Err is the cause, for instance fs.ErrNotExist. It may be nil.
	Err error
}

func (e *Error) Error() string { return fmt.Sprintf("model %q: %s", e.Name, e.Detail) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint tells the user what to do next.
func (e *Error) Hint() string { return e.Advice }

// Resolve finds the model called name: a path to a file, or to a folder with config.json and safetensors, or
// ORG/REPO, ORG/REPO:FILE or ORG/REPO:QUANT in the local Hugging Face cache (see package cache). A file of that name
// has priority. Every error is an [*Error].
func Resolve(name string) (Model, error) {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.Mode().IsRegular():
		return file(name)
	case err == nil && (isGGUF(name) || !info.IsDir()):
		return Model{}, &Error{Name: name, Detail: "is not a regular file", Advice: "name a .gguf file"}
	}
	if m, ok := folder(name); ok {
		return m, nil
	}
	ref, ok := parseReference(name)
	if ok && !isPathLike(name) && (err != nil || ref.repo.Exists()) {
		return ref.resolve()
	}
	if err == nil {
		return Model{}, &Error{Name: name, Detail: "is a directory", Advice: "name a .gguf file in it"}
	}
	e := &Error{Name: name, Detail: "no such file",
		Advice: "check the path, or name a model of the Hugging Face cache as ORG/REPO", Err: err}
	if !errors.Is(err, fs.ErrNotExist) {
		e.Detail, e.Advice = "cannot be accessed: "+cause(err), "check the path and its permissions"
	}
	return Model{}, e
}

// IsName reports whether text names a model and is not a prompt. That holds for an existing regular file or a
// folder with a model, for one word that ends in .gguf, and for a name in the Hugging Face cache. It is false for a
// well-formed name without a model, see [LooksLikeName].
func IsName(text string) bool {
	if isGGUF(text) && !strings.ContainsAny(text, " \t\r\n") {
		return true
	}
	if info, err := os.Stat(text); err == nil && info.Mode().IsRegular() {
		return true
	}
	if _, ok := folder(text); ok {
		return true
	}
	ref, ok := parseReference(text)
	return ok && ref.repo.Exists()
}

// LooksLikeName reports whether text has the form of a model's name or path, even if there is no such model. It has no
// white space, but a slash and a letter, unlike 100/7.
func LooksLikeName(text string) bool {
	return strings.Contains(text, "/") && strings.ContainsFunc(text, unicode.IsLetter) &&
		!strings.ContainsAny(text, " \t\r\n")
}

// folder finds a model in a folder with config.json and safetensors.
func folder(path string) (Model, bool) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return Model{}, false
	}
	m := Model{Name: path, Path: path}
	config, weights := false, false
	for _, e := range entries {
		name := e.Name()
		isWeights := strings.HasSuffix(name, ".safetensors")
		if isWeights || strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".jinja") {
			m.Parts = append(m.Parts, filepath.Join(path, name))
		}
		config, weights = config || name == "config.json", weights || isWeights
	}
	return m, config && weights
}

// file resolves a path to an existing file.
func file(path string) (Model, error) {
	m := Model{Name: path, Path: path, Parts: []string{path}}
	part, count, ok := splitPart(path)
	if !ok {
		return m, nil
	}
	parts := partNames(path, count)
	if part != 1 {
		return Model{}, &Error{Name: path, Detail: fmt.Sprintf("is part %d of %d of a split model", part, count),
			Advice: "name the first part, " + filepath.Base(parts[0])}
	}
	if err := checkParts(path, parts); err != nil {
		return Model{}, err
	}
	m.Parts = parts
	return m, nil
}

// checkParts reports the first part that is missing.
func checkParts(name string, parts []string) error {
	for i, p := range parts {
		if _, err := os.Stat(p); err != nil {
			return &Error{Name: name, Detail: fmt.Sprintf("part %d of %d is missing (%s)", i+1, len(parts), filepath.Base(p)),
				Advice: "download all parts into the same folder", Err: err}
		}
	}
	return nil
}

func isGGUF(name string) bool { return strings.EqualFold(filepath.Ext(name), ".gguf") }

// isPathLike reports whether name can only be meant as a path.
func isPathLike(name string) bool {
	return filepath.IsAbs(name) || strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../") ||
		strings.HasPrefix(name, "~")
}

// cause returns the system's reason without the path, which the caller names.
func cause(err error) string {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}
