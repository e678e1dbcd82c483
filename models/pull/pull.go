// Package pull brings models from the hub into the Hugging Face cache, so that every tool finds them.
//
// A pull has two steps. [NewPlan] asks the hub and writes nothing: it pins the commit, chooses the files of a model,
// and says how many bytes are here and how many are missing. [Plan.Run] fetches what is missing, several files at once,
// by the rules of package download. Only when every chosen file is in the cache and verified, the snapshot of the
// commit gets its entries, and then the reference (for instance main) names the commit. So a program that looks for the
// model finds all of it or what it found before.
//
// A pull that fails or is cancelled keeps what it got. The next one goes on from there.
package pull

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"runner/hint"
	"runner/models/cache"
	"runner/models/catalog"
	"runner/models/hub"
	"runner/models/hub/download"
	"runner/models/names"
)

// Plan is what a pull will do.
type Plan struct {
	hub.Repository
	// Revision is what was asked for, and the name of the reference.
	Revision string
	// Model is what is pulled. TooBig reports that the memory is known and no model fits. Then it is the smallest.
	Model  catalog.Entry
	TooBig bool
	// Items are its files.
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
	catalog.File
	// Have is how many of its bytes are here.
	Have int64
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

// NewPlan asks the hub what a pull of the model that a name means would fetch: of the first of its repositories that
// has a model that one, chosen by [catalog.Choose] for memory bytes. The name must be one that the hub may have, by
// [names.Name.OnHub]. Errors are a [*hub.Error] or a [*catalog.Error].
func NewPlan(ctx context.Context, client *hub.Client, c cache.Cache, n names.Name, memory int64) (*Plan, error) {
	repos, selector := n.OnHub()
	var absent, unfit error
	for _, id := range repos {
		choose := func(files []catalog.File) (catalog.Entry, error) { return catalog.Choose(files, selector, memory) }
		plan, err := newPlan(ctx, client, c, id, cmp.Or(n.Revision, "main"), choose)
		if err == nil {
			plan.TooBig = !plan.Model.Fits(memory)
			return plan, nil
		}
		switch file, asked := (*catalog.Error)(nil), (*hub.Error)(nil); {
		case errors.As(err, &file):
			unfit = err
		case errors.As(err, &asked) && asked.Kind == hub.NotFound:
			absent = cmp.Or(absent, err)
		default:
			return nil, err
		}
	}
	return nil, cmp.Or(unfit, absent)
}

// newPlan asks what a pull from one repository would fetch. choose chooses among the files of the commit.
func newPlan(ctx context.Context, client *hub.Client, c cache.Cache, id, revision string,
	choose func([]catalog.File) (catalog.Entry, error)) (*Plan, error) {
	repository, err := client.Repository(ctx, id, revision)
	if err != nil {
		return nil, err
	}
	repo, err := c.Repo(repository.ID)
	if err != nil {
		return nil, err
	}
	if repository.Commit != revision {
		if _, err := repo.Ref(revision); err != nil {
			return nil, err
		}
	}
	list, err := client.Files(ctx, repository.ID, repository.Commit)
	if err != nil {
		return nil, err
	}
	model, err := choose(list.Files)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", repository.ID, err)
	}
	model.Repo = repository.ID
	if err := hub.CheckDistinct(model.Files); err != nil {
		return nil, &hub.Error{Kind: hub.BadAnswer, Name: repository.ID, Detail: err.Error(),
			Advice: "choose one of them by its name", Err: err}
	}
	p := &Plan{Repository: repository, Revision: revision, Model: model, Refused: list.Refused, Free: -1, client: client,
		repo: repo}
	if free, known := cache.Free(c.Dir()); known {
		p.Free = free
	}
	unfinished := make(map[string]int64)
	for _, u := range download.Find(repo) {
		unfinished[u.Etag] = max(unfinished[u.Etag], u.Have)
	}
	for _, f := range model.Files {
		i := Item{File: f, Have: min(unfinished[f.Etag], f.Size)}
		if repo.HasBlob(f) || repo.HasEntry(repository.Commit, f) {
			i.Have = f.Size
		} else if f.Size > hub.MaxHTTP {
			return nil, hub.TooLargeError(repository.ID, f)
		}
		p.Items = append(p.Items, i)
	}
	return p, nil
}

// filesAtOnce is the number of files that are fetched at once. Tests change it.
var filesAtOnce = 3

// Run does what the plan says. Then Model lies in the folder of its snapshot. report is called for all files, one call
// after the other; nil is silent. linked is false where links do not work: then the snapshot has the files themselves,
// other revisions do not share them, and they take twice the space where the system has no hard links either.
//
// If several files fail, the error is that of the first that failed. It is ctx's cause, a [*hub.Error], a
// [*download.Error], or one of the disk.
func (p *Plan) Run(ctx context.Context, report func(download.Progress)) (linked bool, err error) {
	defer func() {
		// An error of the disk has a path and no advice.
		if failed := (*fs.PathError)(nil); errors.As(err, &failed) && hint.Of(err) == "" {
			text := fmt.Sprintf("the Hugging Face cache %s cannot be used (%v)", p.repo.Cache().Dir(), failed.Err)
			advice := fmt.Sprintf("make the folder writable, or set %s to another one", cache.Variable())
			err = &hint.Error{Text: text, Advice: hint.Advice(advice), Err: err}
		}
	}()
	if missing := p.Missing(); p.Free >= 0 && missing > p.Free {
		return false, download.NoRoom(p.ID, missing, p.Free, p.repo.Cache().Dir())
	}
	if err := p.fetch(ctx, report); err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	linked, err = p.repo.Publish(p.Commit, p.Model.Files)
	if err != nil {
		return false, fmt.Errorf("the snapshot of %s: %w", p.ID, err)
	}
	if p.Revision != p.Commit {
		if err := p.repo.SetRef(p.Revision, p.Commit); err != nil {
			return false, fmt.Errorf("the reference %s of %s: %w", p.Revision, p.ID, err)
		}
	}
	p.Model.Dir, err = p.repo.Snapshot(p.Commit)
	return linked, err
}

// fetch brings all files into the cache's blobs.
func (p *Plan) fetch(ctx context.Context, report func(download.Progress)) error {
	var mu sync.Mutex
	o := download.Options{Report: func(progress download.Progress) {
		mu.Lock()
		defer mu.Unlock()
		if report != nil {
			report(progress)
		}
	}}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	items := make(chan Item, len(p.Items))
	for _, i := range p.Items {
		items <- i
	}
	close(items)
	var work sync.WaitGroup
	for range min(filesAtOnce, len(p.Items)) {
		work.Go(func() {
			for i := range items {
				if ctx.Err() != nil {
					return
				}
				if err := p.get(ctx, i, o); err != nil {
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
	if p.repo.HasEntry(p.Commit, i.File) {
		o.Report(download.Progress{File: i.Path, State: download.There, Done: i.Size, Total: i.Size, Verified: i.Size})
		return nil
	}
	return download.Get(ctx, p.client, p.repo, p.Commit, i.File, o)
}
