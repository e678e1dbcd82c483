// Package models finds the files of a model by its name.
//
// A name is a path to a GGUF file, or to a folder with one or with safetensors, or the name of a model that was
// downloaded (package names has the forms, package installed the places), or the address of an engine. It is resolved
// once, where a command or a request names it, to a [Model], whose [Source] says what kind of thing it is. Resolving
// looks at directories, names and the first bytes of the files: it loads no model, downloads nothing and writes
// nothing. A [Snapshot] detects that the files of a loaded model have changed.
//
// A name resolves to exactly one model, the best of several quantizations, or to an error that says what was looked
// for, where, and what was found. A name that is not a path can never reach outside of these places. A model that is
// split over several files is named by its first part, and all parts must exist.
package models

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"runner/hint"
	"runner/models/cache"
	"runner/models/catalog"
	"runner/models/installed"
	"runner/models/names"
)

// Source is where a model's weights come from.
type Source int

// The sources of models.
const (
	// Demo is the bundled model, which is a GGUF file once it is unpacked.
	Demo Source = iota
	// GGUF is a file, or the parts of a split model.
	GGUF
	// Folder is a folder with safetensors.
	Folder
	// Address is an engine on another machine, which has the files.
	Address
)

// DemoName is the name of the bundled model.
const DemoName = "demo"

// Model is what a name means. The zero value is the bundled model before it is unpacked.
type Model struct {
	// Name is what the user called it.
	Name   string
	Source Source
	// Path is what an engine opens: the file, which is the first part of a split model, the folder, or the address.
	Path string
	// Files are its files as they were found. An address has none.
	Files catalog.Entry
	// Selector is set where the name means several quantizations: it is the one that was taken, of those in Among.
	Selector string
	Among    []string
}

// IsFile reports whether the weights are in a GGUF file, or in the parts of one.
func (m *Model) IsFile() bool { return m.Source == Demo || m.Source == GGUF }

// Of returns the model that files are.
func Of(files catalog.Entry) Model {
	m := Model{Name: files.Name, Source: GGUF, Path: files.At(), Files: files}
	if files.Format == catalog.Safetensors {
		m.Source = Folder
	}
	return m
}

// Unpacked is the bundled model in its file.
func Unpacked(path string) Model {
	m := Of(entry(path))
	m.Name, m.Source = DemoName, Demo
	return m
}

// entry describes a file, which may be missing.
func entry(path string) catalog.Entry {
	e := catalog.Entry{Format: catalog.GGUF, Dir: filepath.Dir(path), Path: filepath.Base(path),
		Quant: catalog.QuantOf(filepath.ToSlash(path))}
	for _, p := range catalog.Parts(e.Path) {
		f := catalog.File{Path: p, Missing: true}
		if info, err := os.Stat(filepath.Join(e.Dir, p)); err == nil {
			f.Size, f.Missing = info.Size(), false
		}
		e.Files = append(e.Files, f)
	}
	return e
}

// SplitAddress reports whether a name is the address of an engine, http://HOST:PORT or KIND+http://HOST:PORT, and
// splits it into the kind, if it has one, and the URL. An address with a path, without a kind, is that of a page.
func SplitAddress(name string) (kind, address string, ok bool) {
	scheme, rest, _ := strings.Cut(name, "://")
	kind, base, ok := strings.Cut(scheme, "+")
	if address = base + "://" + rest; !ok {
		kind, address = "", name
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsAny(name, " \n\t") {
		return "", "", false
	}
	return kind, address, kind != "" || strings.Trim(u.Path, "/") == "" && u.RawQuery == "" && u.Fragment == ""
}

// IsAddress reports whether a name is the address of an engine.
func IsAddress(name string) bool {
	_, _, ok := SplitAddress(name)
	return ok
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

// Resolve finds the model called name: the bundled one, the engine at an address, or what [Find] finds.
func Resolve(name string, memory int64) (Model, error) {
	switch {
	case name == DemoName || strings.EqualFold(name, DemoName) && !isThere(name):
		return Model{Name: DemoName}, nil
	case IsAddress(name):
		return Model{Name: name, Source: Address, Path: name}, nil
	}
	return Find(name, memory)
}

// Find finds the files of the model called name: a path to a file, or to a folder with config.json and safetensors or
// with one GGUF model; else a name in any form that [names.Parse] reads, of a model in the Hugging Face cache or in the
// folders of LM Studio and Ollama. A file of that name has priority. Every error is an [*Error].
//
// Of several quantizations it takes the best that memory bytes hold, or the usual one if memory is 0.
func Find(name string, memory int64) (Model, error) {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.Mode().IsRegular():
		return file(name)
	case err == nil && (isGGUF(name) || !info.IsDir()):
		return Model{}, &Error{Name: name, Detail: "is not a regular file", Advice: "name a .gguf file"}
	}
	n, invalid := names.Parse(name, Hosts()...)
	if err == nil {
		if m, ok, err := folder(name); ok || err != nil {
			return m, err
		}
		if _, cached := cache.Default().Find(n.Repo); !cached || isPathLike(name) {
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
	return Model{}, &Error{Name: name, Detail: "cannot be accessed: " + hint.Reason(err).Error(),
		Advice: "check the path and its permissions", Err: err}
}

// IsName reports whether text names a model and is not a prompt, without a look at the models that were downloaded.
// That holds for the bundled model and an address, for an existing regular file or a folder with a model, for one word
// that ends in .gguf, for a well-known model, and for a repository in the Hugging Face cache. Any other text is a name
// if [LooksLikeName] says so; only resolving it finds out whether there is such a model.
func IsName(text string) bool {
	if strings.ContainsAny(text, " \t\r\n") && !isThere(text) {
		return false
	}
	if strings.EqualFold(text, DemoName) || isGGUF(text) || isThere(text) || IsAddress(text) {
		return true
	}
	n, err := names.Parse(text, Hosts()...)
	if err != nil {
		return false
	}
	if n.Repo != "" {
		_, cached := cache.Default().Find(n.Repo)
		return cached
	}
	_, _, known := names.Find(n.Word)
	return known
}

// isThere reports whether path is a regular file or a folder with models or the weights of one.
func isThere(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode().IsRegular() {
		return err == nil
	}
	_, ok, _ := folder(path)
	return ok
}

// LooksLikeName reports whether text has the form of a model's name or path, even if there is no such model: it looks
// like a name by [names.LooksLike], or it has no white space, but a slash and a letter, unlike 100/7.
func LooksLikeName(text string) bool {
	return names.LooksLike(text) || strings.Contains(text, "/") && strings.ContainsFunc(text, unicode.IsLetter) &&
		!strings.ContainsAny(text, " \t\r\n")
}

// folder finds the only model in a folder: its safetensors, or else a GGUF model. It reports false if there is none.
func folder(name string) (m Model, ok bool, err error) {
	entries, err := os.ReadDir(name)
	if err != nil {
		return Model{}, false, &Error{Name: name, Detail: "cannot be read: " + hint.Reason(err).Error(),
			Advice: "check its permissions", Err: err}
	}
	var files []catalog.File
	weights := false
	for _, e := range entries {
		if info, err := os.Stat(filepath.Join(name, e.Name())); err == nil && info.Mode().IsRegular() {
			files = append(files, catalog.File{Path: e.Name(), Size: info.Size()})
			weights = weights || filepath.Ext(e.Name()) == ".safetensors"
		}
	}
	if e, err := catalog.Folder(files); err == nil {
		e.Dir = name
		m, err := use(name, e)
		m.Path = name // as the user wrote it
		return m, true, err
	}
	all := catalog.GGUFs(files)
	switch {
	case len(all) == 1:
		m, err := file(filepath.Join(name, all[0].Path))
		m.Name = name
		return m, true, err
	case len(all) > 1:
		var paths []string
		for _, g := range all {
			paths = append(paths, g.Path)
		}
		return Model{}, true, &Error{Name: name, Detail: fmt.Sprintf("has %d models: %s", len(all), catalog.List(paths)),
			Advice: "name one, for instance " + filepath.Join(name, paths[0])}
	case weights:
		return Model{}, true, &Error{Name: name, Detail: "has safetensors but no config.json",
			Advice: "download the rest of the repository; the configuration and the tokenizer are needed too"}
	}
	return Model{}, false, nil
}

// file resolves a path to an existing file.
func file(path string) (Model, error) {
	e := entry(path)
	if _, part, count, ok := catalog.Part(path); ok && part != 1 {
		return Model{}, &Error{Name: path, Detail: fmt.Sprintf("is part %d of %d of a split model", part, count),
			Advice: "name the first part, " + e.Files[0].Path}
	}
	for i, f := range e.Files {
		if f.Missing {
			return Model{}, &Error{Name: path, Detail: catalog.PartMissing(i+1, len(e.Files), f.Path),
				Advice: "download all parts into the same folder", Err: fs.ErrNotExist}
		}
	}
	m, err := use(path, e)
	m.Path = path // as the user wrote it
	return m, err
}

// use makes a model of one that was found. What is wrong with it is an error.
func use(name string, e catalog.Entry) (Model, error) {
	if e.Place == catalog.Ollama {
		installed.Describe(&e) // some files of Ollama's are GGUF that nothing else reads
	}
	if e.Problem != "" {
		return Model{}, &Error{Name: name, Repo: e.Repo, Detail: e.Problem, Advice: "download it again"}
	}
	if bad := installed.Check(&e); bad != nil {
		detail := bad.Detail
		if base := filepath.Base(bad.Path); base != filepath.Base(name) {
			detail = base + " " + detail
		}
		return Model{}, &Error{Name: name, Detail: detail, Advice: string(bad.Advice), Err: bad}
	}
	m := Of(e)
	m.Name = name
	return m, nil
}

func isGGUF(name string) bool { return strings.EqualFold(filepath.Ext(name), ".gguf") }

// isPathLike reports whether name can only be meant as a path.
func isPathLike(name string) bool {
	return filepath.IsAbs(name) || strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../") ||
		strings.HasPrefix(name, "~")
}
