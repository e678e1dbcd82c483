package models

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"

	"runner/hint"
	"runner/models/cache"
	"runner/models/catalog"
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

// resolveRepo finds a model of a repository on this machine. name is what the user typed.
func resolveRepo(name string, n names.Name, memory int64) (Model, error) {
	r, cached := cache.Default().Find(n.Repo)
	if cached {
		commit, err := r.Revision(n.Revision)
		if err != nil && n.Revision != "" {
			return Model{}, &Error{Name: name, Repo: r.ID(), Detail: "the Hugging Face cache has no revision " + n.Revision,
				Advice: download(names.Name{Repo: r.ID(), Revision: n.Revision}), Err: fs.ErrNotExist}
		}
		if all := installed.InCommit(r, commit); len(all) > 0 {
			return pick(name, n.Selector, all, memory)
		}
	}
	// What another program downloaded is as good.
	all, _ := installed.List()
	var elsewhere []catalog.Entry
	for _, e := range all {
		switch {
		case isOllama(e, name) || isOllama(e, "hf.co/"+n.Repo+":"+n.Selector):
			return use(name, e)
		case e.Place == catalog.LMStudio && cache.SameID(e.Repo, n.Repo):
			elsewhere = append(elsewhere, e)
		}
	}
	if len(elsewhere) > 0 {
		return pick(name, n.Selector, elsewhere, memory)
	}
	if cached {
		return Model{}, incomplete(name, r)
	}
	if known, ok := names.OfRepo(n.Repo); ok {
		return Model{}, absent(name, known, n)
	}
	e := &Error{Name: name, Repo: n.Repo, Near: Near(n.Repo), Advice: download(n), Err: fs.ErrNotExist,
		Detail: "no such file, and not in the Hugging Face cache at " + cache.Dir()}
	if len(e.Near) > 0 {
		e.Advice = DidYouMean(e.Near) + " Else " + e.Advice
	}
	return Model{}, e
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
		e.Detail = "the Hugging Face cache cannot be read: " + hint.Reason(err).Error()
		e.Advice, e.Err = "check its permissions", err
	}
	return e
}

// pick returns the model of a repository that the selector means, and of several quantizations the best.
func pick(name, selector string, all []catalog.Entry, memory int64) (Model, error) {
	chosen := catalog.Match(all, selector)
	if len(chosen) == 1 {
		return use(name, chosen[0])
	}
	id := all[0].Repo
	if len(chosen) == 0 {
		selectors := catalog.Spell(all)
		e := &Error{Name: name, Repo: id, Err: fs.ErrNotExist, // the hub may have more
			Detail: fmt.Sprintf("no GGUF file matches %q; there is %s", selector, catalog.List(selectors)),
			Advice: fmt.Sprintf("name one, for instance %s:%s, or download it, with: runner pull %s:%s", id, selectors[0], id,
				selector)}
		if all[0].Format == catalog.Safetensors {
			e.Detail, e.Advice = fmt.Sprintf("no GGUF file matches %q; the repository is a folder of safetensors", selector),
				"name "+id+" alone"
		}
		return Model{}, e
	}
	selectors := catalog.Spell(chosen)
	best, err := catalog.Best(chosen, memory)
	if err != nil {
		return Model{}, &Error{Name: name,
			Detail: fmt.Sprintf("%d GGUF files match: %s", len(chosen), catalog.List(selectors)),
			Advice: fmt.Sprintf("name one, for instance %s:%s", id, selectors[0])}
	}
	m, err := use(name, best)
	m.Among = selectors
	m.Selector = selectors[slices.IndexFunc(chosen, func(e catalog.Entry) bool { return e.At() == best.At() })]
	return m, err
}

// resolveWord finds a model that has a name of one word: a well-known one, one of Ollama's, or the only one whose
// repository has that name.
func resolveWord(name string, n names.Name, memory int64) (Model, error) {
	known, quant, isKnown := names.Find(n.Word)
	if isKnown {
		if r, ok := cache.Default().Find(known.Repo); ok {
			if all := installed.InRepo(r); len(all) > 0 {
				return pick(name, quant, all, memory)
			}
		}
	}
	all, _ := installed.List()
	var same []catalog.Entry
	for _, e := range all {
		switch {
		case isOllama(e, n.Word):
			model, err := use(name, e)
			if e := (*Error)(nil); errors.As(err, &e) && isKnown {
				e.Detail, e.Repo, e.Advice = "Ollama has it, but "+e.Detail, known.Repo,
					download(names.Name{Repo: known.Repo, Selector: quant})
			}
			return model, err
		case e.Repo != "" && (cache.SameID(afterSlash(e.Repo), n.Word) || isKnown && cache.SameID(e.Repo, known.Repo)):
			same = append(same, e)
		}
	}
	for _, e := range same {
		if e.Repo != same[0].Repo {
			return Model{}, &Error{Name: name, Detail: fmt.Sprintf("several repositories have this name: %s and %s",
				same[0].Repo, e.Repo), Advice: "name one, for instance " + same[0].Repo}
		}
	}
	if len(same) > 0 {
		return pick(name, quant, same, memory)
	}
	if isKnown {
		return Model{}, absent(name, known, names.Name{Repo: known.Repo, Selector: quant})
	}
	e := &Error{Name: name, Detail: "no such file or model", Near: Near(name),
		Advice: "check the path, or name a model of the Hugging Face hub as ORG/REPO", Err: fs.ErrNotExist}
	if len(e.Near) > 0 {
		e.Advice = DidYouMean(e.Near)
	}
	return Model{}, e
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

func afterSlash(s string) string { return s[strings.LastIndex(s, "/")+1:] }

// isOllama reports whether a model of Ollama's has a name, in any case. The tag latest need not be named.
func isOllama(e catalog.Entry, name string) bool {
	trim := func(s string) string { return strings.TrimSuffix(strings.ToLower(s), ":latest") }
	return e.Place == catalog.Ollama && trim(e.Name) == trim(name)
}
