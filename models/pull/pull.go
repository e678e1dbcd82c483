// Package pull brings files of a repository from the hub into the Hugging Face cache, so that every tool finds them.
//
// A pull has two steps. [NewPlan] asks the hub and writes nothing: it pins the commit, lets the caller choose among the
// files, and says how many bytes are here and how many are missing. [Plan.Run] fetches what is missing, several files
// at once, by the rules of package download. Only when every chosen file is in the cache and verified, the snapshot of
// the commit gets its entries, and then the reference (for instance main) names the commit. So a program that looks for
// the model finds all of it or what it found before.
//
// A pull that fails or is cancelled keeps what it got. The next one goes on from there.
package pull

import (
	"context"
	"fmt"
	"sync"

	"runner/models/cache"
	"runner/models/hub"
	"runner/models/hub/download"
)

// Request says what to pull.
type Request struct {
	// Repo is ORG/NAME in any case.
	Repo string
	// Revision is a branch, a tag or a commit. "" means main.
	Revision string
	// Choose returns the files to pull, out of all files of the commit sorted by path. An error of it ends the pull. If
	// it is nil, all files are pulled.
	Choose func(hub.Repository, []hub.File) ([]hub.File, error)
}

// Plan is what a pull will do.
type Plan struct {
	hub.Repository
	// Revision is what was asked for, and the name of the reference.
	Revision string
	// Items are the chosen files in the order of the choice.
	Items []Item
	// Refused are files that the hub has and that cannot be kept here. They could not be chosen.
	Refused []hub.Refused
	// Free is how many bytes are free for the cache. It is -1 where the system does not say.
	Free int64

	client *hub.Client
	repo   cache.Repo
}

// Item is a file of a plan.
type Item struct {
	hub.File
	// There reports that the cache has the file.
	There bool
	// Have is how many of its bytes are here, to be verified unless There.
	Have int64
}

// Size is the number of bytes of all files.
func (p *Plan) Size() (n int64) {
	for _, i := range p.Items {
		n += i.Size
	}
	return n
}

// Missing is the number of bytes to fetch. A file that the plan has under several names counts once.
func (p *Plan) Missing() (n int64) {
	seen := make(map[string]bool)
	for _, i := range p.Items {
		if !seen[i.Etag] {
			n += i.Size - i.Have
		}
		seen[i.Etag] = true
	}
	return n
}

// NewPlan asks the hub what a pull would fetch. Errors of the hub are [*hub.Error].
func NewPlan(ctx context.Context, client *hub.Client, c cache.Cache, r Request) (*Plan, error) {
	if r.Revision == "" {
		r.Revision = "main"
	}
	repository, err := client.Repository(ctx, r.Repo, r.Revision)
	if err != nil {
		return nil, err
	}
	repo, err := c.Repo(repository.ID)
	if err != nil {
		return nil, err
	}
	if repository.Commit != r.Revision {
		if _, err := repo.Ref(r.Revision); err != nil {
			return nil, err
		}
	}
	list, err := client.Files(ctx, repository.ID, repository.Commit)
	if err != nil {
		return nil, err
	}
	chosen := list.Files
	if r.Choose != nil {
		if chosen, err = r.Choose(repository, list.Files); err != nil {
			return nil, err
		}
	}
	if len(chosen) == 0 {
		return nil, &hub.Error{Kind: hub.NotFound, Name: repository.ID, Detail: "has no files to pull",
			Advice: "name a repository with a model"}
	}
	if err := hub.CheckDistinct(chosen); err != nil {
		return nil, &hub.Error{Kind: hub.BadAnswer, Name: repository.ID, Detail: err.Error(),
			Advice: "choose one of them by its name", Err: err}
	}
	p := &Plan{Repository: repository, Revision: r.Revision, Refused: list.Refused, Free: -1, client: client, repo: repo}
	if free, known := cache.Free(c.Dir()); known {
		p.Free = free
	}
	unfinished := make(map[string]int64)
	for _, u := range download.Find(repo) {
		unfinished[u.Etag] = max(unfinished[u.Etag], u.Have)
	}
	for _, f := range chosen {
		i := Item{File: f, Have: min(unfinished[f.Etag], f.Size)}
		if download.IsThere(repo, f) || p.isEntry(f) {
			i.There, i.Have = true, f.Size
		} else if f.Size > hub.MaxHTTP {
			return nil, hub.TooLargeError(repository.ID, f)
		}
		p.Items = append(p.Items, i)
	}
	return p, nil
}

// isEntry reports whether the commit's snapshot has the file itself and not a link, as where links do not work.
func (p *Plan) isEntry(f hub.File) bool { return p.repo.HasEntry(p.Commit, f.Path, f.Size) }

// Options are the settings of a run. The zero value is usual.
type Options struct {
	// Files is the number of files that are fetched at once. 0 means 3.
	Files int
	// Download has the settings for each file. Its Report is called for all files, one call after the other.
	Download download.Options
}

// Result is what a pull left in the cache.
type Result struct {
	// Snapshot is the folder with the files.
	Snapshot string
	// Linked is false where links do not work: then the snapshot has the files themselves, other revisions do not share
	// them, and they take twice the space where the system has no hard links either.
	Linked bool
}

// Run does what the plan says. If several files fail, the error is that of the first that failed. It is ctx's cause, a
// [*hub.Error], a [*download.Error], or one of the disk.
func (p *Plan) Run(ctx context.Context, o Options) (Result, error) {
	if missing := p.Missing(); p.Free >= 0 && missing > p.Free {
		return Result{}, download.NoRoom(p.ID, missing, p.Free, p.repo.Cache().Dir())
	}
	if err := p.fetch(ctx, o); err != nil {
		return Result{}, err
	}
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	entries := make(map[string]string, len(p.Items))
	for _, i := range p.Items {
		entries[i.Path] = i.Etag
	}
	linked, err := p.repo.Publish(p.Commit, entries)
	if err != nil {
		return Result{}, fmt.Errorf("the snapshot of %s: %w", p.ID, err)
	}
	if p.Revision != p.Commit {
		if err := p.repo.SetRef(p.Revision, p.Commit); err != nil {
			return Result{}, fmt.Errorf("the reference %s of %s: %w", p.Revision, p.ID, err)
		}
	}
	dir, err := p.repo.Snapshot(p.Commit)
	return Result{Snapshot: dir, Linked: linked}, err
}

// fetch brings all files into the cache's blobs.
func (p *Plan) fetch(ctx context.Context, o Options) error {
	if o.Files <= 0 {
		o.Files = 3
	}
	if report := o.Download.Report; report != nil {
		var mu sync.Mutex
		o.Download.Report = func(progress download.Progress) {
			mu.Lock()
			defer mu.Unlock()
			report(progress)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	items := make(chan Item, len(p.Items))
	for _, i := range p.Items {
		items <- i
	}
	close(items)
	var work sync.WaitGroup
	for range min(o.Files, len(p.Items)) {
		work.Go(func() {
			for i := range items {
				if ctx.Err() != nil {
					return
				}
				if err := p.get(ctx, i, o.Download); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	work.Wait()
	return context.Cause(ctx)
}

func (p *Plan) get(ctx context.Context, i Item, o download.Options) error {
	if p.isEntry(i.File) {
		if o.Report != nil {
			o.Report(download.Progress{File: i.Path, State: download.There, Done: i.Size, Total: i.Size, Verified: i.Size})
		}
		return nil
	}
	return download.Get(ctx, p.client, p.repo, p.Commit, i.File, o)
}
