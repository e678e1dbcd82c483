// Package models finds the files of a model by its name.
//
// A name is a path to a GGUF file, or to a folder with one or with safetensors, or the name of a model that was
// downloaded (package names has the forms, package installed the places). Resolving a name looks at directories, names
// and the first bytes of the files: it loads no model, downloads nothing and writes nothing. A [Snapshot] detects that
// the files of a loaded model have changed.
//
// A name resolves to exactly one model, the best of several quantizations, or to an error that says what was looked
// for, where, and what was found. A name that is not a path can never reach outside of these places. A model that is
// split over several files is named by its first part, and all parts must exist.
package models

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"runner/models/choice"
	"runner/models/installed"
	"runner/models/names"
	"runner/models/peek"
)

// Model is where a model's weights are.
type Model struct {
	// Name is what the user called it.
	Name string
	// Path is the file to open. For a split model it is the first part, for a folder the folder.
	Path string
	// Parts are all files of the model in order. Path is the first unless it is a folder.
	Parts []string
	// Selector is set where the name means several quantizations: it is the one that was taken, of those in Among.
	Selector string
	Among    []string
}

// Error says why a name did not resolve to a model.
type Error struct {
	Name string
	// Detail is one line without the name.
	Detail string
	// Advice is one line that tells the user what to do.
	Advice string
	// Repo is the repository on the Hugging Face hub that the name means, if it means one. Downloading it may help.
	Repo string
	// Near are names that may have been meant, the nearest first.
	Near []string
	// Err is the cause, for instance fs.ErrNotExist. It may be nil.
	Err error
}

func (e *Error) Error() string { return fmt.Sprintf("model %q: %s", e.Name, e.Detail) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint tells the user what to do next.
func (e *Error) Hint() string { return e.Advice }

// Resolve finds the model called name: a path to a file, or to a folder with config.json and safetensors or with one
// GGUF model; else a name in any form that [names.Parse] reads, of a model in the Hugging Face cache or in the
// folders of LM Studio and Ollama. A file of that name has priority. Every error is an [*Error].
//
// Of several quantizations it takes the usual one; [ResolveFor] takes the best that a machine's memory holds.
func Resolve(name string) (Model, error) { return ResolveFor(name, 0) }

// ResolveFor is [Resolve] for a machine with some bytes of memory. 0 means that it is not known.
func ResolveFor(name string, memory int64) (Model, error) {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.Mode().IsRegular():
		return file(name)
	case err == nil && (isGGUF(name) || !info.IsDir()):
		return Model{}, &Error{Name: name, Detail: "is not a regular file", Advice: "name a .gguf file"}
	}
	if m, ok := folder(name); ok {
		if err := contents(name, m.Parts); err != nil {
			return Model{}, err
		}
		return m, nil
	}
	n, invalid := names.Parse(name, Hosts()...)
	if err == nil {
		if m, ok, err := inDirectory(name); ok || err != nil {
			return m, err
		}
		if _, cached := inCache(n.Repo); !cached || isPathLike(name) {
			return Model{}, &Error{Name: name, Detail: "is a directory without a model",
				Advice: "name a .gguf file, or a folder with one or with config.json and safetensors"}
		}
	}
	switch {
	case isPathLike(name) || isGGUF(name) && n.Repo == "":
	case invalid == nil && n.Repo != "":
		return resolveRepo(name, n, memory)
	case invalid == nil && errors.Is(err, fs.ErrNotExist):
		return resolveWord(name, n, memory)
	}
	if errors.Is(err, fs.ErrNotExist) {
		e := &Error{Name: name, Detail: "no such file",
			Advice: "check the path, or name a model of the Hugging Face cache as ORG/REPO", Err: err}
		if bad := (*names.Error)(nil); errors.As(invalid, &bad) && strings.Contains(name, "://") {
			e.Detail, e.Advice = bad.Detail, bad.Advice
		}
		return Model{}, e
	}
	return Model{}, &Error{Name: name, Detail: "cannot be accessed: " + cause(err),
		Advice: "check the path and its permissions", Err: err}
}

// IsName reports whether text names a model and is not a prompt. That holds for an existing regular file or a folder
// with a model, for one word that ends in .gguf, for a well-known model, and for a model that was downloaded. It is
// false for a well-formed name without a model, see [LooksLikeName].
func IsName(text string) bool {
	if strings.ContainsAny(text, " \t\r\n") && !isThere(text) {
		return false
	}
	if isGGUF(text) || isThere(text) {
		return true
	}
	n, err := names.Parse(text, Hosts()...)
	if err != nil {
		return false
	}
	if n.Repo != "" {
		_, cached := inCache(n.Repo)
		return cached
	}
	if _, _, known := names.Find(n.Word); known {
		return true
	}
	// A word of a language may be the name of a model too. It is a prompt unless it looks like a name.
	return names.LooksLike(text) && isHere(n.Word)
}

// isThere reports whether path is a regular file or a folder with models or the weights of one.
func isThere(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode().IsRegular() {
		return err == nil
	}
	if _, ok := folder(path); ok {
		return true
	}
	_, ok, _ := inDirectory(path)
	return ok
}

// isHere reports whether a model with this name of one word was downloaded.
func isHere(word string) bool {
	found, _ := installed.List()
	return slices.ContainsFunc(found, func(m installed.Model) bool {
		return m.Place == installed.Ollama && sameOllamaName(m.Name, word) ||
			m.Repo != "" && sameRepo(afterSlash(m.Repo), word)
	})
}

// LooksLikeName reports whether text has the form of a model's name or path, even if there is no such model: it looks
// like a name by [names.LooksLike], or it has no white space, but a slash and a letter, unlike 100/7.
func LooksLikeName(text string) bool {
	return names.LooksLike(text) || strings.Contains(text, "/") && strings.ContainsFunc(text, unicode.IsLetter) &&
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
	_, part, count, ok := choice.Part(path)
	if ok {
		parts := choice.Parts(path)
		if part != 1 {
			return Model{}, &Error{Name: path, Detail: fmt.Sprintf("is part %d of %d of a split model", part, count),
				Advice: "name the first part, " + filepath.Base(parts[0])}
		}
		if err := checkParts(path, parts); err != nil {
			return Model{}, err
		}
		m.Parts = parts
	}
	if err := contents(path, m.Parts); err != nil {
		return Model{}, err
	}
	return m, nil
}

// contents returns an error if one of a model's files is something that is taken for weights by mistake.
func contents(name string, parts []string) error {
	for _, p := range parts {
		if err := content(name, p); err != nil {
			return err
		}
	}
	return nil
}

func content(name, path string) error {
	var err error
	switch filepath.Ext(path) {
	case ".json", ".jinja", ".model", ".tiktoken", ".txt": // files beside the weights of a folder
	case ".safetensors":
		if filepath.Base(path) != filepath.Base(name) { // a file that was named should be GGUF
			err = peek.CheckSafetensors(path)
			break
		}
		fallthrough
	default:
		err = peek.Check(path)
	}
	if err == nil {
		return nil
	}
	e := &Error{Name: name, Detail: "cannot be used: " + err.Error(), Advice: "download the file again", Err: err}
	if kind := (*peek.Error)(nil); errors.As(err, &kind) {
		e.Detail, e.Advice = kind.Detail, kind.Advice
		if filepath.Base(path) != filepath.Base(name) {
			e.Detail = filepath.Base(path) + " " + kind.Detail
		}
	}
	return e
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
