package models

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// CacheDir returns the folder of the local Hugging Face cache, by the rules of the huggingface_hub library:
// HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else
// ~/.cache/huggingface/hub.
func CacheDir() string {
	for _, v := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"} {
		if dir := os.Getenv(v); dir != "" {
			return dir
		}
	}
	if home := os.Getenv("HF_HOME"); home != "" {
		return filepath.Join(home, "hub")
	}
	if cache := os.Getenv("XDG_CACHE_HOME"); cache != "" {
		return filepath.Join(cache, "huggingface", "hub")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".cache", "huggingface", "hub")
}

// Cached lists the repositories in the Hugging Face cache that have at least one GGUF model, sorted, as ORG/REPO.
func Cached() []string {
	entries, err := os.ReadDir(CacheDir())
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		repo, ok := strings.CutPrefix(e.Name(), "models--")
		if !ok {
			continue
		}
		org, repo, ok := strings.Cut(repo, "--")
		ref := reference{name: org + "/" + repo, org: org, repo: repo}
		if !ok || !namePart.MatchString(org) || !namePart.MatchString(repo) {
			continue
		}
		if files, err := ref.models(); err == nil && len(files) > 0 {
			names = append(names, ref.name)
		}
	}
	return names
}

// reference is a parsed ORG/REPO or ORG/REPO:SELECTOR.
type reference struct {
	name, org, repo, selector string
}

// namePart is what the hub allows in the name of an organisation or repository.
var namePart = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,95}$`)

func parseReference(name string) (reference, bool) {
	repo, selector, selected := strings.Cut(name, ":")
	org, repo, ok := strings.Cut(repo, "/")
	if !ok || !namePart.MatchString(org) || !namePart.MatchString(repo) || selected && selector == "" {
		return reference{}, false
	}
	return reference{name: name, org: org, repo: repo, selector: selector}, true
}

func (r reference) dir() string {
	return filepath.Join(CacheDir(), "models--"+r.org+"--"+r.repo)
}

// cached reports whether the repository is in the cache, with or without models.
func (r reference) cached() bool {
	info, err := os.Stat(r.dir())
	return err == nil && info.IsDir()
}

func (r reference) resolve() (Model, error) {
	if !r.cached() {
		return Model{}, &Error{Name: r.name, Detail: "no such file, and not in the Hugging Face cache at " + CacheDir(),
			Advice: fmt.Sprintf("download it first, for instance with: hf download %s/%s", r.org, r.repo), Err: fs.ErrNotExist}
	}
	files, err := r.models()
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
			Advice: fmt.Sprintf("name one, for instance %s/%s:%s", r.org, r.repo, files[0]), Err: fs.ErrNotExist}
	case len(chosen) > 1:
		return Model{}, &Error{Name: r.name, Detail: fmt.Sprintf("%d GGUF files match: %s", len(chosen), list(chosen)),
			Advice: fmt.Sprintf("name one, for instance %s/%s:%s", r.org, r.repo, chosen[0])}
	}
	snapshot, err := r.snapshot()
	if err != nil {
		return Model{}, err
	}
	m, err := file(filepath.Join(snapshot, filepath.FromSlash(chosen[0])))
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

var revision = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// snapshot returns the folder of the main revision. If the cache has no main, it returns that of the only revision.
func (r reference) snapshot() (string, error) {
	snapshots := filepath.Join(r.dir(), "snapshots")
	if main, err := os.ReadFile(filepath.Join(r.dir(), "refs", "main")); err == nil {
		rev := strings.TrimSpace(string(main))
		dir := filepath.Join(snapshots, rev)
		if info, err := os.Stat(dir); revision.MatchString(rev) && err == nil && info.IsDir() {
			return dir, nil
		}
	}
	entries, err := os.ReadDir(snapshots)
	if err != nil || len(entries) != 1 {
		return "", &Error{Name: r.name, Detail: "the Hugging Face cache has the repository but not its main revision",
			Advice: "download the repository again", Err: fs.ErrNotExist}
	}
	return filepath.Join(snapshots, entries[0].Name()), nil
}

// models lists the models of the snapshot by slash-separated path: every GGUF file except the later parts of a split
// model and extra files such as a vision projector or an importance matrix.
func (r reference) models() ([]string, error) {
	snapshot, err := r.snapshot()
	if err != nil {
		return nil, err
	}
	var files []string
	err = filepath.WalkDir(snapshot, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !isGGUF(p) {
			return err
		}
		base := strings.ToLower(filepath.Base(p))
		if part, _, ok := splitPart(p); ok && part != 1 || strings.HasPrefix(base, "mmproj") ||
			strings.Contains(base, "imatrix") {
			return nil
		}
		rel, err := filepath.Rel(snapshot, p)
		files = append(files, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		return nil, &Error{Name: r.name, Detail: "the Hugging Face cache cannot be read: " + cause(err),
			Advice: "check its permissions", Err: err}
	}
	slices.Sort(files)
	return files, nil
}

// list names the files in one line. Of many files it names only the first few.
func list(files []string) string {
	const most = 8
	if len(files) > most {
		return strings.Join(files[:most], ", ") + fmt.Sprintf(" and %d more", len(files)-most)
	}
	return strings.Join(files, ", ")
}
