// Package cache knows the layout of the Hugging Face cache, which Python's huggingface_hub and other programs share:
//
//	CACHE/models--ORG--NAME/refs/main            the commit that main was at, in hexadecimal
//	CACHE/models--ORG--NAME/snapshots/COMMIT/F   a relative link to a blob, or the file where links do not work
//	CACHE/models--ORG--NAME/blobs/ETAG           the bytes: ETAG is the SHA-256 of a large file, else git's SHA-1
//	CACHE/.locks/models--ORG--NAME/ETAG.lock     held while a blob is written
//
// What it reads may be written by anybody. Names of repositories, commits, references and blobs are checked before
// they become part of a path, so that no name leads out of the cache. The functions that read write nothing.
//
// The layout is that of huggingface_hub 2.4, file_download.py.
package cache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"runner/models/catalog"
)

// Dir returns the folder of the cache, by the rules of the huggingface_hub library: HF_HUB_CACHE, else
// HUGGINGFACE_HUB_CACHE, else hub in [Home]. It is empty if none of them is set and the user has no home folder.
func Dir() string {
	if v := Variable(); v != homeVariable {
		return expand(os.Getenv(v))
	}
	if home := Home(); home != "" {
		return filepath.Join(home, "hub")
	}
	return ""
}

const homeVariable = "HF_HOME"

// Variable returns the variable that moves the cache: the one that names its folder now, or HF_HOME.
func Variable() string {
	for _, v := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"} {
		if os.Getenv(v) != "" {
			return v
		}
	}
	return homeVariable
}

// Home returns the folder of everything that Hugging Face's tools keep, the user's token among it: HF_HOME, else
// XDG_CACHE_HOME/huggingface, else ~/.cache/huggingface. It is empty like [Dir].
func Home() string {
	if home := os.Getenv(homeVariable); home != "" {
		return expand(home)
	}
	if cache := os.Getenv("XDG_CACHE_HOME"); cache != "" {
		return filepath.Join(cache, "huggingface")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".cache", "huggingface")
}

// expand replaces variables and a leading ~ as the library does.
func expand(dir string) string {
	dir = os.ExpandEnv(dir)
	if rest, ok := strings.CutPrefix(dir, "~"); ok && (rest == "" || os.IsPathSeparator(rest[0])) {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return dir
}

// Cache is a cache on disk. Its folder need not exist.
type Cache struct{ dir string }

// At returns the cache in the folder dir.
func At(dir string) Cache { return Cache{dir} }

// Default returns the cache of this user, in [Dir].
func Default() Cache { return At(Dir()) }

// Dir returns the folder of the cache.
func (c Cache) Dir() string { return c.dir }

// Errors of this package wrap one of these or an error of the operating system.
var (
	// ErrName: the name of a repository, commit, reference or blob is not well formed.
	ErrName = errors.New("not a name that the Hugging Face hub allows")
	// ErrNoSnapshot: the repository is not in the cache, or no snapshot of it, or several and none is main's.
	ErrNoSnapshot = errors.New("no snapshot of the main revision")
)

// Repo is a repository of models in a cache. It need not exist there. Repositories are comparable with ==.
type Repo struct {
	cache     Cache
	org, name string
}

// namePart is what the hub allows in the name of an organisation or repository, apart from what [ValidID] says.
var namePart = regexp.MustCompile(`^\w(?:[\w.-]{0,94}\w)?$`)

// ValidID reports whether id can be the name of a repository, ORG/NAME. Both parts have up to 96 letters, digits, "-",
// "_" and ".". They do not begin or end with "-" or ".", and have no "--" or "..". NAME does not end in ".git".
func ValidID(id string) bool {
	org, name, _ := strings.Cut(id, "/")
	return namePart.MatchString(org) && namePart.MatchString(name) && !strings.Contains(id, "--") &&
		!strings.Contains(id, "..") && !strings.HasSuffix(id, ".git")
}

// Repo returns the repository called id, as ORG/NAME in the hub's spelling. The only error is [ErrName].
func (c Cache) Repo(id string) (Repo, error) {
	if !ValidID(id) {
		return Repo{}, fmt.Errorf("%q: %w", id, ErrName)
	}
	org, name, _ := strings.Cut(id, "/")
	return Repo{c, org, name}, nil
}

// Find returns the repository called id in the spelling of the cache. It reports false if the cache has no such
// repository. If there is none with the same letters, upper and lower case are the same, and -GGUF at the end does not
// count.
func (c Cache) Find(id string) (Repo, bool) {
	repos, _ := c.Repos()
	for _, same := range []func(other string) bool{
		func(other string) bool { return other == id },
		func(other string) bool { return strings.EqualFold(other, id) },
		func(other string) bool { return SameID(other, id) },
	} {
		if i := slices.IndexFunc(repos, func(r Repo) bool { return same(r.ID()) }); i >= 0 {
			return repos[i], true
		}
	}
	return Repo{}, false
}

// SameID compares names of repositories in any case, with or without -GGUF at the end.
func SameID(a, b string) bool {
	trim := func(s string) string { return strings.TrimSuffix(strings.ToLower(s), "-gguf") }
	return trim(a) == trim(b)
}

// Repos lists the repositories of models in the cache, sorted by ID. A cache that does not exist has none.
func (c Cache) Repos() ([]Repo, error) {
	entries, err := os.ReadDir(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var repos []Repo
	for _, e := range entries {
		folder, ok := strings.CutPrefix(e.Name(), "models--")
		if !ok {
			continue
		}
		org, name, _ := strings.Cut(folder, "--")
		r, invalid := c.Repo(org + "/" + name)
		if info, err := os.Stat(filepath.Join(c.dir, e.Name())); invalid == nil && err == nil && info.IsDir() {
			repos = append(repos, r)
		}
	}
	slices.SortFunc(repos, func(a, b Repo) int { return strings.Compare(a.ID(), b.ID()) })
	return repos, err
}

// ID returns the name of the repository, ORG/NAME.
func (r Repo) ID() string { return r.org + "/" + r.name }

// Cache returns the cache that the repository is in.
func (r Repo) Cache() Cache { return r.cache }

func (r Repo) folder() string { return "models--" + r.org + "--" + r.name }

// Dir returns the folder of the repository.
func (r Repo) Dir() string { return filepath.Join(r.cache.dir, r.folder()) }

// Blobs returns the folder of the blobs.
func (r Repo) Blobs() string { return filepath.Join(r.Dir(), "blobs") }

// Snapshots returns the folder that has a folder for each commit.
func (r Repo) Snapshots() string { return filepath.Join(r.Dir(), "snapshots") }

// Refs returns the folder of the references, which are files with a commit.
func (r Repo) Refs() string { return filepath.Join(r.Dir(), "refs") }

// Locks returns the folder of the locks, which is outside of the repository's.
func (r Repo) Locks() string { return filepath.Join(r.cache.dir, ".locks", r.folder()) }

// plain is what a commit or an etag looks like. Both become names of files.
var plain = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// Blob returns the path of the blob with this etag. The only error is [ErrName].
func (r Repo) Blob(etag string) (string, error) { return within(r.Blobs(), etag, "") }

// Lock returns the path of the lock for the blob with this etag. The only error is [ErrName].
func (r Repo) Lock(etag string) (string, error) { return within(r.Locks(), etag, ".lock") }

// Snapshot returns the folder of the files of a commit. The only error is [ErrName].
func (r Repo) Snapshot(commit string) (string, error) { return within(r.Snapshots(), commit, "") }

// Entry returns the path of a file in a commit's snapshot. file is its path in the repository, with slashes. The only
// error is [ErrName].
func (r Repo) Entry(commit, file string) (string, error) {
	dir, err := r.Snapshot(commit)
	if err != nil {
		return "", err
	}
	local := filepath.FromSlash(file)
	if !fs.ValidPath(file) || file == "." || !filepath.IsLocal(local) {
		return "", fmt.Errorf("file %q: %w", file, ErrName)
	}
	return filepath.Join(dir, local), nil
}

// Ref returns the path of the file of a reference, for instance main or refs/pr/1. The only error is [ErrName].
func (r Repo) Ref(name string) (string, error) {
	for part := range strings.SplitSeq(name, "/") {
		if !plain.MatchString(part) {
			return "", fmt.Errorf("reference %q: %w", name, ErrName)
		}
	}
	return filepath.Join(r.Refs(), filepath.FromSlash(name)), nil
}

func within(dir, name, suffix string) (string, error) {
	if !plain.MatchString(name) {
		return "", fmt.Errorf("%q: %w", name, ErrName)
	}
	return filepath.Join(dir, name+suffix), nil
}

// Commit returns the commit that a reference was at when it was last downloaded.
func (r Repo) Commit(ref string) (string, error) {
	path, err := r.Ref(ref)
	if err != nil {
		return "", err
	}
	text, err := readShort(path)
	if err != nil {
		return "", err
	}
	commit := strings.TrimSpace(text)
	if !plain.MatchString(commit) {
		return "", fmt.Errorf("reference %s has %q: %w", ref, commit, ErrName)
	}
	return commit, nil
}

// readShort reads the beginning of a file that should have one line.
func readShort(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	line := make([]byte, 256)
	n, err := f.Read(line)
	if n == 0 && err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return string(line[:n]), nil
}

// Commits lists the commits that have a snapshot, sorted.
func (r Repo) Commits() ([]string, error) {
	entries, err := os.ReadDir(r.Snapshots())
	var commits []string
	for _, e := range entries {
		if e.IsDir() && plain.MatchString(e.Name()) {
			commits = append(commits, e.Name())
		}
	}
	return commits, err
}

// Main returns the commit of the main revision, which has a snapshot. Without such a commit it returns the only one
// that has a snapshot, or [ErrNoSnapshot].
func (r Repo) Main() (string, error) {
	commits, err := r.Commits()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if commit, err := r.Commit("main"); err == nil && slices.Contains(commits, commit) {
		return commit, nil
	}
	if len(commits) != 1 {
		return "", fmt.Errorf("%s: %w", r.ID(), ErrNoSnapshot)
	}
	return commits[0], nil
}

// Revision returns the commit that a revision means: the main one, that of a branch or tag, or the commit itself, which
// may be shortened to seven letters. It has a snapshot. The error is fs.ErrNotExist or that of [Repo.Main].
func (r Repo) Revision(wanted string) (string, error) {
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
	return "", fmt.Errorf("revision %s: %w", wanted, fs.ErrNotExist)
}

// Files lists the files of a commit's snapshot, sorted by path. It does not follow links to folders. A file has an etag
// if its entry is a link into the repository's folder of blobs.
func (r Repo) Files(commit string) ([]catalog.File, error) {
	root, err := r.Snapshot(commit)
	if err != nil {
		return nil, err
	}
	blobs := r.Blobs()
	var files []catalog.File
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		f := catalog.File{Path: filepath.ToSlash(rel)}
		if target, err := os.Readlink(p); err == nil {
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(p), target)
			}
			if filepath.Dir(target) == filepath.Clean(blobs) && plain.MatchString(filepath.Base(target)) {
				f.Etag = filepath.Base(target)
			}
		}
		info, err := os.Stat(p)
		switch {
		case err != nil:
			f.Missing = true
		case !info.Mode().IsRegular():
			return nil
		default:
			f.Size = info.Size()
		}
		files = append(files, f)
		return nil
	})
	slices.SortFunc(files, func(a, b catalog.File) int { return strings.Compare(a.Path, b.Path) })
	return files, err
}
