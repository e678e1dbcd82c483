// Package library changes the models in the Hugging Face cache for the clients of a long-running program: it pulls
// them, gives them further names and removes them.
//
// Names come from strangers, so [Parse] takes fewer than package names does: no paths, no addresses and no revisions.
// Models come from the hub of the program's own configuration alone.
//
// Clients that pull the same model at the same time share one transfer. It ends when the last of them goes away, and
// what it got is kept for the next one. A model whose files the program serves, or that a transfer is bringing, is not
// removed.
package library

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"runner/models/cache"
	"runner/models/catalog"
	"runner/models/hub"
	"runner/models/installed"
)

// Errors of this package, wrapped. The others are those of packages names, catalog, hub and download, and of the disk.
var (
	// ErrNotFound: there is no such model here.
	ErrNotFound = errors.New("no such model is on this machine")
	// ErrUnknown: the name is no repository, and no well-known model.
	ErrUnknown = errors.New("it is not a well-known model; name a repository of the hub as ORG/REPO")
	// ErrInUse: the program serves the model, it is being pulled, or other names mean it.
	ErrInUse = errors.New("the model is in use")
	// ErrTaken: a model has the name.
	ErrTaken = errors.New("a model has this name")
	// ErrSeveral: the name means several models.
	ErrSeveral = errors.New("the name means several models")
	// ErrBusy: as many pulls run as may run at once.
	ErrBusy = errors.New("too many models are being pulled; try again later")
	// ErrFull: there are as many further names as there may be.
	ErrFull = errors.New("there are too many names")
)

// Config is the configuration of a library. Client is required.
type Config struct {
	Cache cache.Cache
	// Client returns a client of the hub. It is called for each transfer.
	Client func() (*hub.Client, error)
	// Memory returns how many bytes of memory a model may take; nil or 0 means unknown.
	Memory func() int64
	// Served are the files that the program serves. They are never removed, and [Library.List] leaves their models out.
	Served []string
	// Names is the file of the further names. Its folder is made when it is needed.
	Names string
	// Pulls is how many transfers may run at once; 0 means 2.
	Pulls int
	// Log receives warnings about the hub; nil is silent.
	Log *slog.Logger
}

// Library is the models in the cache. Its methods may be called by several goroutines at once.
type Library struct {
	cfg    Config
	served map[string]bool
	names  nameFile

	stop    context.Context
	cancel  context.CancelCauseFunc
	running sync.WaitGroup

	mu sync.Mutex
	// transfers are those that can be joined, by name. active counts also those that were given up and have not ended.
	transfers map[string]*transfer
	active    []*transfer
}

// New returns a library. It reads and writes nothing.
func New(cfg Config) *Library {
	if cfg.Pulls <= 0 {
		cfg.Pulls = 2
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	l := &Library{cfg: cfg, served: map[string]bool{}, names: nameFile{path: cfg.Names},
		transfers: map[string]*transfer{}}
	for _, file := range cfg.Served {
		l.served[real(file)] = true
	}
	l.stop, l.cancel = context.WithCancelCause(context.Background())
	return l
}

// Close ends all transfers with an error that says why, and waits for them. What they got is kept.
func (l *Library) Close(why error) {
	l.mu.Lock()
	l.cancel(why)
	l.mu.Unlock()
	l.running.Wait()
}

// real returns the file that a path leads to, so that paths of the same file are equal.
func real(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		path = p
	}
	if p, err := filepath.Abs(path); err == nil {
		path = p
	}
	return path
}

// isServed reports whether the program serves a file of the model.
func (l *Library) isServed(m catalog.Entry) bool {
	return slices.ContainsFunc(m.Parts(), func(p string) bool { return l.served[real(p)] })
}

// List returns the models of the cache that can be used and that the program does not serve, sorted by repository.
func (l *Library) List() (list []catalog.Entry) {
	repos, _ := l.cfg.Cache.Repos()
	for _, r := range repos {
		list = append(list, installed.InRepo(r)...)
	}
	return slices.DeleteFunc(list, func(m catalog.Entry) bool { return m.Problem != "" || l.isServed(m) })
}

// Find returns the model that a name means, by its own name or a further one. Errors wrap [ErrNotFound] or
// [ErrSeveral], or are a [*names.Error].
func (l *Library) Find(name string) (catalog.Entry, error) {
	if to, ok, err := l.names.find(name); err != nil {
		return catalog.Entry{}, err
	} else if ok {
		name = to
	}
	_, m, err := l.one(name)
	return m, err
}

// one returns the only model in the cache that a name means, and its repository.
func (l *Library) one(name string) (cache.Repo, catalog.Entry, error) {
	n, err := Parse(name)
	if err != nil {
		return cache.Repo{}, catalog.Entry{}, err
	}
	repo, found := installed.Find(l.cfg.Cache, n)
	switch len(found) {
	case 0:
		return repo, catalog.Entry{}, fmt.Errorf("%q: %w", name, ErrNotFound)
	case 1:
		return repo, found[0], nil
	}
	var all []string
	for _, m := range found {
		all = append(all, m.Name)
	}
	return repo, catalog.Entry{}, fmt.Errorf("%w: %s", ErrSeveral, strings.Join(all, ", "))
}

// namesOf returns the further names of a model, sorted.
func (l *Library) namesOf(m catalog.Entry) (others []string, err error) {
	all, err := l.Names()
	for name, to := range all {
		// The name of a model that the program serves may be any.
		if _, other, err := l.one(to); err == nil && other.At() == m.At() {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	return others, err
}

// Has reports whether a model that a name means is in the cache and whole.
func (l *Library) Has(name string) bool {
	n, err := Parse(name)
	if err != nil {
		return false
	}
	_, ok := installed.Whole(l.cfg.Cache, n)
	return ok
}

// Remove removes a further name, or else the model that a name means, with the bytes that no other model uses. Errors
// are those of [Library.Find], or wrap [ErrInUse].
func (l *Library) Remove(name string) error {
	if gone, err := l.names.remove(name); gone || err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	repo, m, err := l.one(name)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(l.active, func(t *transfer) bool { return t.mayWrite(repo.ID()) }) {
		return fmt.Errorf("%w: %s is being pulled", ErrInUse, repo.ID())
	}
	others, err := l.namesOf(m)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		return fmt.Errorf("%w: delete its copies first: %s", ErrInUse, strings.Join(others, ", "))
	}
	gone := func(string, catalog.File) bool { return true } // with its only model goes the rest of a repository
	if len(installed.InRepo(repo)) > 1 {
		gone = installed.Entries(repo, []catalog.Entry{m})
	}
	if l.servesAny(repo, gone) {
		return fmt.Errorf("%w: the server was started with it", ErrInUse)
	}
	_, err = repo.Remove(gone)
	return err
}

// servesAny reports whether the program serves one of the entries.
func (l *Library) servesAny(repo cache.Repo, entries func(commit string, f catalog.File) bool) bool {
	commits, _ := repo.Commits()
	for _, commit := range commits {
		files, _ := repo.Files(commit)
		for _, f := range files {
			if path, err := repo.Entry(commit, f.Path); err == nil && entries(commit, f) && l.served[real(path)] {
				return true
			}
		}
	}
	return false
}
