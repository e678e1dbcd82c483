package models

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"runner/models/cache"
)

// Cached lists the repositories in the Hugging Face cache that have at least one GGUF model, sorted, as ORG/REPO.
func Cached() []string {
	repos, err := cache.Default().Repos()
	if err != nil {
		return nil
	}
	var names []string
	for _, repo := range repos {
		ref := reference{name: repo.ID(), repo: repo}
		if _, files, err := ref.models(); err == nil && len(files) > 0 {
			names = append(names, ref.name)
		}
	}
	return names
}

// reference is a parsed ORG/REPO or ORG/REPO:SELECTOR.
type reference struct {
	name, selector string
	repo           cache.Repo
}

func parseReference(name string) (reference, bool) {
	id, selector, selected := strings.Cut(name, ":")
	repo, err := cache.Default().Repo(id)
	if err != nil || selected && selector == "" {
		return reference{}, false
	}
	return reference{name: name, repo: repo, selector: selector}, true
}

func (r reference) resolve() (Model, error) {
	if !r.repo.Exists() {
		return Model{}, &Error{Name: r.name,
			Detail: "no such file, and not in the Hugging Face cache at " + r.repo.Cache().Dir(),
			Advice: "download it first, for instance with: hf download " + r.repo.ID(), Err: fs.ErrNotExist}
	}
	commit, files, err := r.models()
	if err != nil {
		return Model{}, err
	}
	if len(files) == 0 {
		return Model{}, &Error{Name: r.name, Detail: "the Hugging Face cache has the repository but no GGUF file of it",
			Advice: "download a repository with GGUF files", Err: fs.ErrNotExist}
	}
	chosen := r.choose(files)
	switch {
	case len(chosen) == 0:
		return Model{}, &Error{Name: r.name, Detail: fmt.Sprintf("no GGUF file matches %q; there is %s", r.selector,
			list(files)),
			Advice: fmt.Sprintf("name one, for instance %s:%s", r.repo.ID(), files[0]), Err: fs.ErrNotExist}
	case len(chosen) > 1:
		return Model{}, &Error{Name: r.name, Detail: fmt.Sprintf("%d GGUF files match: %s", len(chosen), list(chosen)),
			Advice: fmt.Sprintf("name one, for instance %s:%s", r.repo.ID(), chosen[0])}
	}
	path, err := r.repo.Entry(commit, chosen[0])
	if err != nil {
		return Model{}, err
	}
	m, err := file(path)
	if part := (*Error)(nil); errors.As(err, &part) {
		return Model{}, &Error{Name: r.name, Detail: part.Detail, Advice: "download the repository again", Err: err}
	}
	m.Name = r.name
	return m, err
}

// choose returns the files that the selector means: the file with that path or base name or, if there is none, those
// with the selector as a word of their names. Without a selector it returns all files.
func (r reference) choose(files []string) []string {
	if r.selector == "" {
		return files
	}
	var exact, tagged []string
	for _, f := range files {
		if f == r.selector || path.Base(f) == r.selector {
			exact = append(exact, f)
		}
		if hasTag(f, r.selector) {
			tagged = append(tagged, f)
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return tagged
}

// hasTag reports whether tag, for instance "Q4_K_M", is a word of the file's name, so that Q4_K does not mean Q4_K_M.
func hasTag(file, tag string) bool {
	name, tag := strings.ToLower(strings.TrimSuffix(path.Base(file), path.Ext(file))), strings.ToLower(tag)
	for at := 0; ; {
		i := strings.Index(name[at:], tag)
		if i < 0 {
			return false
		}
		start, end := at+i, at+i+len(tag)
		if (start == 0 || !wordByte(name[start-1])) && (end == len(name) || !wordByte(name[end])) {
			return true
		}
		at = start + 1
	}
}

func wordByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z'
}

// models returns the main commit and lists the models of its snapshot by slash-separated path: every GGUF file except
// the later parts of a split model and extra files such as a vision projector or an importance matrix.
func (r reference) models() (commit string, paths []string, err error) {
	commit, err = r.repo.Main()
	if errors.Is(err, cache.ErrNoSnapshot) {
		return "", nil, &Error{Name: r.name, Detail: "the Hugging Face cache has the repository but not its main revision",
			Advice: "download the repository again", Err: fs.ErrNotExist}
	}
	var files []cache.File
	if err == nil {
		files, err = r.repo.Files(commit)
	}
	if err != nil {
		return "", nil, &Error{Name: r.name, Detail: "the Hugging Face cache cannot be read: " + cause(err),
			Advice: "check its permissions", Err: err}
	}
	for _, f := range files {
		base := strings.ToLower(path.Base(f.Path))
		if part, _, ok := splitPart(f.Path); !isGGUF(f.Path) || ok && part != 1 || strings.HasPrefix(base, "mmproj") ||
			strings.Contains(base, "imatrix") {
			continue
		}
		paths = append(paths, f.Path)
	}
	return commit, paths, nil
}

// list names the files in one line. Of many files it names only the first few.
func list(files []string) string {
	const most = 8
	if len(files) > most {
		return strings.Join(files[:most], ", ") + fmt.Sprintf(" and %d more", len(files)-most)
	}
	return strings.Join(files, ", ")
}
