// Package installed lists the models on this machine: those in the Hugging Face cache, and those that Ollama and LM
// Studio downloaded, where they are plain GGUF files or folders for MLX.
//
// Finding them reads folders and small files alone. [Model.Describe] reads the header of one model. What other
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

	"runner/models/cache"
	"runner/models/choice"
	"runner/models/hub/download"
)

// Place is the folder of a program that holds models.
type Place string

// The places where models are looked for, in the order of their priority.
const (
	HuggingFace Place = "Hugging Face cache"
	LMStudio    Place = "LM Studio"
	Ollama      Place = "Ollama"
)

// Places returns all places, in the order of their priority.
func Places() []Place { return []Place{HuggingFace, LMStudio, Ollama} }

// Folders returns the folders of a place. They need not exist.
func (p Place) Folders() []string {
	switch p {
	case HuggingFace:
		return []string{cache.Dir()}
	case LMStudio:
		return lmStudioDirs()
	case Ollama:
		return ollamaDirs()
	}
	return nil
}

// Model is a model on this machine.
type Model struct {
	// Name is what finds the model, in the spelling of its place: ORG/REPO, with the quantization or the file after a
	// colon if the repository has several, or the name that Ollama shows.
	Name  string
	Place Place
	// Repo is the repository on the hub, if that is known.
	Repo   string
	Format choice.Format
	// Path is the file to open: the first part or the folder. Parts are all files.
	Path  string
	Parts []string
	// Bytes is the size of the parts that are there.
	Bytes int64
	// Quant is the quantization, for instance Q4_K_M. It comes from the name until [Model.Describe] is called.
	Quant string
	// Problem says in one line why the model cannot be used. It is empty if nothing is known to be wrong.
	Problem string

	// The following are set by [Model.Describe]. Parameters is 0 for a folder. PerToken is how many bytes of the weights
	// are read to generate a token, or 0 if that is not known.
	Architecture string
	Parameters   int64
	PerToken     int64

	model choice.Model // how selectors match it
}

// Partial is a download that did not finish, or that another process is at.
type Partial struct {
	// Repo is the repository that it belongs to. Name is what runner pull calls the model: Repo, with the quantization or
	// the file after a colon if that is known.
	Repo, Name string
	// Quant is the quantization, if it is known.
	Quant string
	// Path is a file or a folder.
	Path string
	// Bytes is how much is here. Size is the size of the whole file, or 0 if that is not known.
	Bytes, Size int64
	// Active reports that a program is at work on it.
	Active bool
	// Tool is the program that began it.
	Tool string
}

// Own is the Tool of a download that this program began.
const Own = "runner"

// List returns the models on this machine, in the order of the places and then of their names, and the downloads in
// the Hugging Face cache that did not finish. What cannot be read is left out.
func List() (models []Model, partials []Partial) {
	c := cache.Default()
	repos, _ := c.Repos()
	for _, r := range repos {
		models = append(models, InRepo(r)...)
		partials = append(partials, Unfinished(r)...)
	}
	models = append(models, lmStudio()...)
	models = append(models, ollama()...)
	slices.SortStableFunc(models, func(a, b Model) int {
		if a.Place != b.Place {
			return 0
		}
		return strings.Compare(a.Name, b.Name)
	})
	return models, partials
}

// InRepo returns the models of the main revision of a repository in the cache.
func InRepo(r cache.Repo) []Model {
	commit, err := r.Main()
	if err != nil {
		return nil
	}
	return InCommit(r, commit)
}

// InCommit returns the models of a commit's snapshot in the cache.
func InCommit(r cache.Repo, commit string) []Model {
	entries, err := r.Files(commit)
	if err != nil {
		return nil
	}
	dir, err := r.Snapshot(commit)
	if err != nil {
		return nil
	}
	var files []choice.File
	missing := map[string]bool{}
	for _, f := range entries {
		files = append(files, choice.File{Path: f.Path, Size: f.Size})
		missing[f.Path] = f.Missing
	}
	models := inFolder(dir, r.ID(), files, HuggingFace)
	for i := range models {
		for _, p := range models[i].Parts {
			if rel, err := filepath.Rel(dir, p); err == nil && missing[filepath.ToSlash(rel)] {
				models[i].Problem = "the cache has no bytes for " + filepath.Base(p)
			}
		}
	}
	return models
}

// inFolder returns the models among the files of a repository that lies in dir.
func inFolder(dir, id string, files []choice.File, place Place) []Model {
	ggufs, _ := choice.GGUFs(files)
	if len(ggufs) == 0 {
		c, err := choice.Choose(files, "", 0)
		if err != nil {
			return nil
		}
		m := Model{Name: id, Repo: id, Place: place, Format: c.Format, Path: dir, Bytes: c.Bytes}
		for _, f := range c.Files {
			m.Parts = append(m.Parts, filepath.Join(dir, filepath.FromSlash(f.Path)))
		}
		return []Model{m}
	}
	names := choice.Spell(ggufs)
	var models []Model
	for i, g := range ggufs {
		m := Model{Name: id, Repo: id, Place: place, Format: choice.GGUF, Quant: g.Quant, Bytes: g.Bytes, model: g,
			Path: filepath.Join(dir, filepath.FromSlash(g.Path))}
		if len(ggufs) > 1 {
			m.Name += ":" + names[i]
		}
		for _, p := range g.Parts {
			m.Parts = append(m.Parts, filepath.Join(dir, filepath.FromSlash(p.Path)))
		}
		if !g.Whole() {
			m.Problem = missingPart(g)
		}
		models = append(models, m)
	}
	return models
}

// missingPart names the first part that is not there.
func missingPart(g choice.Model) string {
	for i, want := range choice.Parts(g.Path) {
		if !slices.ContainsFunc(g.Parts, func(f choice.File) bool { return f.Path == want }) {
			return partMissing(i+1, g.Count, want)
		}
	}
	return ""
}

// Select returns the models that a selector means, as [choice.Match] does. Folders match only an empty selector.
func Select(models []Model, selector string) []Model {
	if selector == "" {
		return models
	}
	var ggufs []choice.Model
	for _, m := range models {
		if m.Format == choice.GGUF && m.model.Path != "" {
			ggufs = append(ggufs, m.model)
		}
	}
	var found []Model
	for _, g := range choice.Match(ggufs, selector) {
		for _, m := range models {
			if m.model.Path == g.Path {
				found = append(found, m)
			}
		}
	}
	return found
}

// Best returns the model that suits memory bytes best, by [choice.Best]. It reports false if they are not quantizations
// of one model.
func Best(models []Model, memory int64) (Model, bool) {
	var ggufs []choice.Model
	for _, m := range models {
		if m.Problem != "" {
			continue
		}
		if m.Format != choice.GGUF || m.model.Path == "" {
			return Model{}, false
		}
		ggufs = append(ggufs, m.model)
	}
	if len(ggufs) == 0 {
		return Model{}, false
	}
	best, err := choice.Best(ggufs, memory)
	if err != nil {
		return Model{}, false
	}
	return models[slices.IndexFunc(models, func(m Model) bool { return m.model.Path == best.Path })], true
}

// Selectors returns the shortest selector of each model that means no other.
func Selectors(models []Model) []string {
	var ggufs []choice.Model
	for _, m := range models {
		ggufs = append(ggufs, m.model)
	}
	return choice.Spell(ggufs)
}

// Unfinished lists the downloads into a repository in the cache that did not finish.
func Unfinished(r cache.Repo) []Partial {
	entries, err := os.ReadDir(r.Blobs())
	if err != nil {
		return nil
	}
	var partials []Partial
	for _, e := range entries {
		p := Partial{Repo: r.ID(), Name: r.ID(), Path: filepath.Join(r.Blobs(), e.Name())}
		switch filepath.Ext(e.Name()) {
		case ".incomplete":
			p.Tool = "hf"
		case ".downloadInProgress":
			p.Tool = "llama.cpp"
		default:
			continue
		}
		if info, err := os.Lstat(p.Path); err == nil && info.Mode().IsRegular() {
			p.Bytes = info.Size()
			partials = append(partials, p)
		}
	}
	for _, u := range download.Find(r) {
		p := Partial{Repo: r.ID(), Name: r.ID(), Path: u.Folder, Bytes: u.Have, Size: u.Size, Active: u.Active, Tool: Own}
		if choice.NotModel(u.Path) == "" {
			p.Quant = choice.QuantOf(u.Path)
			p.Name += ":" + cmp.Or(p.Quant, path.Base(u.Path))
		}
		partials = append(partials, p)
	}
	return partials
}

// Discard removes what a download left in a repository of the cache. It leaves what a program may be at work on, and
// reports whether it did.
func (p *Partial) Discard(r cache.Repo) (left bool, err error) {
	etag, _, _ := strings.Cut(filepath.Base(p.Path), ".")
	if p.Tool == Own {
		return download.Discard(r, etag)
	}
	unlock, err := r.LockNow(etag)
	if errors.Is(err, cache.ErrBusy) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer unlock()
	return false, os.Remove(p.Path)
}
