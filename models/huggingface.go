package models

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"runner/models/cache"
	"runner/models/choice"
	"runner/models/installed"
	"runner/models/names"
)

// Hosts are the hosts of hubs other than huggingface.co whose addresses are names of models.
func Hosts() []string {
	if u, err := url.Parse(os.Getenv("HF_ENDPOINT")); err == nil && u.Host != "" {
		return []string{u.Host}
	}
	return nil
}

// inCache returns the repository in the Hugging Face cache that id means, in any case, with or without -GGUF at the
// end.
func inCache(id string) (cache.Repo, bool) {
	c := cache.Default()
	if r, ok := c.Find(id); ok {
		return r, true
	}
	repos, _ := c.Repos()
	i := slices.IndexFunc(repos, func(r cache.Repo) bool { return sameRepo(r.ID(), id) })
	if i < 0 {
		return cache.Repo{}, false
	}
	return repos[i], true
}

// resolveRepo finds a model of a repository on this machine. name is what the user typed.
func resolveRepo(name string, n names.Name, memory int64) (Model, error) {
	r, cached := inCache(n.Repo)
	if cached {
		commit, err := revision(name, r, n.Revision)
		if err != nil && n.Revision != "" {
			return Model{}, err
		}
		if found := installed.InCommit(r, commit); len(found) > 0 {
			return pick(name, r.ID(), n.Selector, found, memory)
		}
	}
	// What another program downloaded is as good.
	var elsewhere []installed.Model
	for _, m := range others() {
		switch {
		case m.Place == installed.Ollama && (sameOllamaName(m.Name, name) ||
			sameOllamaName(m.Name, "hf.co/"+n.Repo+":"+n.Selector)):
			return use(name, m)
		case m.Repo != "" && sameRepo(m.Repo, n.Repo) && m.Place == installed.LMStudio:
			elsewhere = append(elsewhere, m)
		}
	}
	if len(elsewhere) > 0 {
		return pick(name, elsewhere[0].Repo, n.Selector, elsewhere, memory)
	}
	if known, ok := names.OfRepo(n.Repo); ok && !cached {
		return Model{}, absent(name, known, n)
	}
	if !cached {
		e := &Error{Name: name, Repo: n.Repo, Near: Near(n.Repo), Advice: download(n), Err: fs.ErrNotExist,
			Detail: "no such file, and not in the Hugging Face cache at " + cache.Dir()}
		if len(e.Near) > 0 {
			e.Advice = DidYouMean(e.Near) + " Else " + e.Advice
		}
		return Model{}, e
	}
	return Model{}, incomplete(name, r)
}

// revision returns the commit of a repository in the cache that a name means: the main one, that of a branch or tag,
// or the commit itself, which may be shortened.
func revision(name string, r cache.Repo, wanted string) (string, error) {
	if wanted == "" {
		return r.Main()
	}
	commits, _ := r.Commits()
	if commit, err := r.Commit(wanted); err == nil && slices.Contains(commits, commit) {
		return commit, nil
	}
	const shortest = 7 // letters that git shows of a commit
	for _, c := range commits {
		if c == wanted || len(wanted) >= shortest && strings.HasPrefix(c, wanted) {
			return c, nil
		}
	}
	return "", &Error{Name: name, Repo: r.ID(), Detail: "the Hugging Face cache has no revision " + wanted,
		Advice: download(names.Name{Repo: r.ID(), Revision: wanted}), Err: fs.ErrNotExist}
}

// incomplete says what is wrong with a repository in the cache that has no model.
func incomplete(name string, r cache.Repo) error {
	e := &Error{Name: name, Repo: r.ID(), Detail: "the Hugging Face cache has the repository but no GGUF file of it",
		Advice: "download a repository with GGUF files", Err: fs.ErrNotExist}
	commit, err := r.Main()
	switch unfinished := installed.Unfinished(r); {
	case len(unfinished) > 0:
		e.Detail, e.Advice = "the Hugging Face cache has only a part of it, because a download did not finish",
			"finish the download, with: runner pull "+unfinished[len(unfinished)-1].Name
		return e
	case errors.Is(err, cache.ErrNoSnapshot):
		e.Detail, e.Advice = "the Hugging Face cache has the repository but not its main revision",
			"download it again, with: runner pull "+r.ID()
	case err == nil:
		_, err = r.Files(commit)
	}
	if err != nil && !errors.Is(err, cache.ErrNoSnapshot) {
		e.Detail, e.Advice, e.Err = "the Hugging Face cache cannot be read: "+cause(err), "check its permissions", err
	}
	return e
}

// pick returns the model of a repository that the selector means, and of several quantizations the best.
func pick(name, id, selector string, found []installed.Model, memory int64) (Model, error) {
	chosen := installed.Select(found, selector)
	if len(chosen) == 1 {
		return use(name, chosen[0])
	}
	if best, ok := installed.Best(chosen, memory); ok {
		m, err := use(name, best)
		m.Among = installed.Selectors(chosen)
		m.Selector = m.Among[slices.IndexFunc(chosen, func(c installed.Model) bool { return c.Path == best.Path })]
		return m, err
	}
	among := chosen
	if len(chosen) == 0 {
		among = found
	}
	all := installed.Selectors(among)
	e := &Error{Name: name, Detail: fmt.Sprintf("%d GGUF files match: %s", len(chosen), choice.List(all)),
		Advice: fmt.Sprintf("name one, for instance %s:%s", id, all[0])}
	if len(chosen) == 0 {
		e.Repo = id // it may have more
		e.Detail = fmt.Sprintf("no GGUF file matches %q; there is %s", selector, choice.List(all))
		e.Advice += ", or download it, with: runner pull " + id + ":" + selector
		e.Err = fs.ErrNotExist
	}
	if found[0].Format != choice.GGUF {
		e.Detail, e.Advice = fmt.Sprintf("no GGUF file matches %q; the repository is a folder of safetensors", selector),
			"name "+id+" alone"
	}
	return Model{}, e
}

// use makes a model of one that was found. What is wrong with it is an error.
func use(name string, m installed.Model) (Model, error) {
	if m.Place == installed.Ollama {
		m.Describe() // some files of Ollama's are GGUF that nothing else reads
	}
	if m.Problem != "" {
		return Model{}, &Error{Name: name, Repo: m.Repo, Detail: m.Problem, Advice: "download it again"}
	}
	if err := contents(name, m.Parts); err != nil {
		return Model{}, err
	}
	return Model{Name: name, Path: m.Path, Parts: m.Parts}, nil
}

// resolveWord finds a model that has a name of one word: a well-known one, one of Ollama's, or the only one whose
// repository has that name.
func resolveWord(name string, n names.Name, memory int64) (Model, error) {
	known, quant, isKnown := names.Find(n.Word)
	if isKnown {
		if r, ok := inCache(known.Repo); ok && len(installed.InRepo(r)) > 0 {
			return pick(name, r.ID(), quant, installed.InRepo(r), memory)
		}
	}
	found, _ := installed.List()
	var same []installed.Model
	for _, m := range found {
		switch {
		case m.Place == installed.Ollama && sameOllamaName(m.Name, n.Word):
			model, err := use(name, m)
			if e := (*Error)(nil); errors.As(err, &e) && isKnown {
				e.Detail, e.Repo, e.Advice = "Ollama has it, but "+e.Detail, known.Repo,
					download(names.Name{Repo: known.Repo, Selector: quant})
			}
			return model, err
		case m.Repo != "" && (sameRepo(afterSlash(m.Repo), n.Word) || isKnown && sameRepo(m.Repo, known.Repo)):
			same = append(same, m)
		}
	}
	if len(same) > 0 {
		for _, m := range same {
			if m.Repo != same[0].Repo {
				return Model{}, &Error{Name: name, Detail: fmt.Sprintf("several repositories have this name: %s and %s",
					same[0].Repo, m.Repo), Advice: "name one, for instance " + same[0].Repo}
			}
		}
		return pick(name, same[0].Repo, quant, same, memory)
	}
	if isKnown {
		return Model{}, absent(name, known, names.Name{Repo: known.Repo, Selector: quant})
	}
	return Model{}, unknown(name)
}

// absent is the error of a well-known model that is not here. pulled is what to download.
func absent(name string, known names.Known, pulled names.Name) error {
	if pulled.Selector != "" {
		known.Bytes = 0 // the size of another file
	}
	pulled.Repo = known.Repo
	return &Error{Name: name, Repo: known.Repo, Advice: download(pulled), Err: fs.ErrNotExist,
		Detail: fmt.Sprintf("not on this machine; it is %s on the Hugging Face hub (%s)", known.Repo, about(known))}
}

// download is the advice for a model that is not here.
func download(n names.Name) string { return "download it first, with: runner pull " + n.String() }

// about says in a few words what a well-known model is.
func about(k names.Known) string {
	var words []string
	if k.Parameters != "" {
		words = append(words, k.Parameters+" parameters")
	}
	if k.Bytes > 0 {
		words = append(words, fmt.Sprintf("about %.1f GiB", float64(k.Bytes)/(1<<30)))
	}
	return strings.Join(append(words, "licence "+k.License), ", ")
}

// unknown is the error of a name that is no file and no model that anybody knows.
func unknown(name string) error {
	e := &Error{Name: name, Detail: "no such file or model", Near: Near(name),
		Advice: "check the path, or name a model of the Hugging Face hub as ORG/REPO", Err: fs.ErrNotExist}
	if len(e.Near) > 0 {
		e.Advice = DidYouMean(e.Near)
	}
	return e
}

// Near suggests up to three names of models on this machine and well-known ones that are nearly spelled as name, the
// nearest first.
func Near(name string) []string {
	found, _ := installed.List()
	var here []string
	for _, m := range found {
		here = append(here, strings.TrimSuffix(m.Name, ":latest"))
	}
	return slices.DeleteFunc(names.Suggest(name, 3, here...), func(s string) bool { return strings.EqualFold(s, name) })
}

// DidYouMean asks whether one of the names that [Near] suggests was meant.
func DidYouMean(near []string) string { return "did you mean " + strings.Join(near, " or ") + "?" }

// others lists the models that other programs downloaded, outside of the Hugging Face cache.
func others() []installed.Model {
	found, _ := installed.List()
	var models []installed.Model
	for _, m := range found {
		if m.Place != installed.HuggingFace {
			models = append(models, m)
		}
	}
	return models
}

func afterSlash(s string) string { return s[strings.LastIndex(s, "/")+1:] }

// sameRepo compares names of repositories in any case, with or without -GGUF at the end.
func sameRepo(a, b string) bool {
	trim := func(s string) string { return strings.TrimSuffix(strings.ToLower(s), "-gguf") }
	return trim(a) == trim(b)
}

// sameOllamaName compares names of Ollama's models in any case. The tag latest need not be named.
func sameOllamaName(a, b string) bool {
	trim := func(s string) string { return strings.TrimSuffix(strings.ToLower(s), ":latest") }
	return trim(a) == trim(b)
}

// inDirectory finds the only GGUF model in a folder.
func inDirectory(name string) (Model, bool, error) {
	entries, err := os.ReadDir(name)
	if err != nil {
		return Model{}, false, &Error{Name: name, Detail: "cannot be read: " + cause(err), Advice: "check its permissions",
			Err: err}
	}
	var files []choice.File
	weights := false
	for _, e := range entries {
		if info, err := os.Stat(filepath.Join(name, e.Name())); err == nil && info.Mode().IsRegular() {
			files = append(files, choice.File{Path: e.Name(), Size: info.Size()})
			weights = weights || filepath.Ext(e.Name()) == ".safetensors"
		}
	}
	found, _ := choice.GGUFs(files)
	switch {
	case len(found) == 1:
		m, err := file(filepath.Join(name, found[0].Path))
		m.Name = name
		return m, true, err
	case len(found) > 1:
		var paths []string
		for _, g := range found {
			paths = append(paths, g.Path)
		}
		return Model{}, true, &Error{Name: name, Detail: fmt.Sprintf("has %d models: %s", len(found), choice.List(paths)),
			Advice: "name one, for instance " + filepath.Join(name, paths[0])}
	case weights:
		return Model{}, true, &Error{Name: name, Detail: "has safetensors but no config.json",
			Advice: "download the rest of the repository; the configuration and the tokenizer are needed too"}
	}
	return Model{}, false, nil
}
