// Package installed lists the models on this machine: those in the Hugging Face cache, and those that Ollama and LM
// Studio downloaded, where they are plain GGUF files or folders for MLX.
//
// Finding them reads folders and small files alone. [Describe] reads the header of one model. What other
// programs wrote may be damaged or hostile: names are checked before they become part of a path, small files have a
// limit, and no link leads out of a folder of Ollama's. Nothing is written.
package installed

import (
	"cmp"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"runner/models/cache"
	"runner/models/catalog"
	"runner/models/hub/download"
	"runner/models/names"
)

// Places returns all places, in the order of their priority.
func Places() []catalog.Place {
	return []catalog.Place{catalog.HuggingFace, catalog.LMStudio, catalog.Ollama}
}

// Folders returns the folders of a place. They need not exist.
func Folders(p catalog.Place) []string {
	switch p {
	case catalog.HuggingFace:
		return []string{cache.Dir()}
	case catalog.LMStudio:
		return lmStudioDirs()
	case catalog.Ollama:
		return ollamaDirs()
	}
	return nil
}

// Partial is a download that did not finish, or that another process is at.
type Partial struct {
	download.Unfinished
	// Name is what runner pull calls the model: its repository, with the quantization or the file after a colon if that is
	// known.
	Name string
	// Quant is the quantization, if it is known.
	Quant string
	// Tool is the program that began it.
	Tool string
}

// Own is the Tool of a download that this program began.
const Own = "runner"

// List returns the models on this machine, in the order of the places and then of their names, and the downloads in
// the Hugging Face cache that did not finish. What cannot be read is left out.
func List() (models []catalog.Entry, partials []Partial) {
	repos, _ := cache.Default().Repos()
	for _, r := range repos {
		models = append(models, InRepo(r)...)
		partials = append(partials, Unfinished(r)...)
	}
	models = append(models, lmStudio()...)
	models = append(models, ollama()...)
	slices.SortStableFunc(models, func(a, b catalog.Entry) int {
		if a.Place != b.Place {
			return 0
		}
		return strings.Compare(a.Name, b.Name)
	})
	return models, partials
}

// Find returns the models in a cache that a name means, and their repository. That is the first repository with such a
// model, or else the first that is there.
func Find(c cache.Cache, n names.Name) (repo cache.Repo, found []catalog.Entry) {
	ids, selector := n.OnHub()
	for _, id := range ids {
		r, ok := c.Find(id)
		if !ok {
			continue
		}
		repo = cmp.Or(repo, r)
		if commit, err := r.Revision(n.Revision); err == nil {
			if found = catalog.Match(InCommit(r, commit), selector); len(found) > 0 {
				return r, found
			}
		}
	}
	return repo, nil
}

// Whole returns the first model in a cache that a name means and that is whole.
func Whole(c cache.Cache, n names.Name) (catalog.Entry, bool) {
	_, found := Find(c, n)
	for _, m := range found {
		if m.Problem == "" {
			return m, true
		}
	}
	return catalog.Entry{}, false
}

// InRepo returns the models of the main revision of a repository in the cache.
func InRepo(r cache.Repo) []catalog.Entry {
	commit, err := r.Main()
	if err != nil {
		return nil
	}
	return InCommit(r, commit)
}

// InCommit returns the models of a commit's snapshot in the cache.
func InCommit(r cache.Repo, commit string) []catalog.Entry {
	files, err := r.Files(commit)
	if err != nil {
		return nil
	}
	dir, err := r.Snapshot(commit)
	if err != nil {
		return nil
	}
	return inFolder(dir, r.ID(), files, catalog.HuggingFace)
}

// inFolder returns the models among the files of a repository that lies in dir.
func inFolder(dir, id string, files []catalog.File, place catalog.Place) []catalog.Entry {
	models := catalog.Models(files)
	selectors := catalog.Spell(models)
	for i := range models {
		m := &models[i]
		m.Name, m.Repo, m.Place, m.Dir = id, id, place, dir
		if len(models) > 1 {
			m.Name += ":" + selectors[i]
		}
		for _, f := range m.Files {
			if f.Missing {
				m.Problem = "the cache has no bytes for " + path.Base(f.Path)
			}
		}
	}
	return models
}

// Modified is when the files of a model were last changed.
func Modified(m *catalog.Entry) (last time.Time) {
	for _, p := range m.Parts() {
		if info, err := os.Stat(p); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}

// Entries returns which entries of the snapshots of a repository are files of models, as [cache.Repo.Remove] takes it.
func Entries(r cache.Repo, models []catalog.Entry) func(commit string, f catalog.File) bool {
	var parts []string
	for _, m := range models {
		parts = append(parts, m.Parts()...)
	}
	return func(commit string, f catalog.File) bool {
		entry, err := r.Entry(commit, f.Path)
		return err == nil && slices.Contains(parts, entry)
	}
}

// Unfinished lists the downloads into a repository in the cache that did not finish.
func Unfinished(r cache.Repo) []Partial {
	entries, err := os.ReadDir(r.Blobs())
	if err != nil {
		return nil
	}
	var partials []Partial
	for _, e := range entries {
		etag, _, _ := strings.Cut(e.Name(), ".")
		p := Partial{Name: r.ID(), Unfinished: download.Unfinished{Etag: etag, At: filepath.Join(r.Blobs(), e.Name())}}
		switch filepath.Ext(e.Name()) {
		case ".incomplete":
			p.Tool = "hf"
		case ".downloadInProgress":
			p.Tool = "llama.cpp"
		default:
			continue
		}
		if info, err := os.Lstat(p.At); err == nil && info.Mode().IsRegular() {
			p.Have = info.Size()
			partials = append(partials, p)
		}
	}
	for _, u := range download.Find(r) {
		p := Partial{Unfinished: u, Name: r.ID(), Tool: Own}
		if catalog.NotModel(u.Path) == "" {
			p.Quant = catalog.QuantOf(u.Path)
			p.Name += ":" + cmp.Or(p.Quant, path.Base(u.Path))
		}
		partials = append(partials, p)
	}
	return partials
}

// Discard removes what a download left in a repository of the cache. It leaves what a program may be at work on, and
// reports whether it did.
func (p *Partial) Discard(r cache.Repo) (left bool, err error) {
	if p.Tool == Own {
		return download.Discard(r, p.Etag)
	}
	unlock, err := r.LockNow(p.Etag)
	if errors.Is(err, cache.ErrBusy) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer unlock()
	return false, os.Remove(p.At)
}
