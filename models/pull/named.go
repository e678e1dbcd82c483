package pull

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"runner/models/cache"
	"runner/models/choice"
	"runner/models/hub"
	"runner/models/names"
)

// NewNamedPlan is [NewPlan] for the model that a name means: the first of its repositories that has a model, and of
// that one model, chosen by [choice.Choose] for memory bytes. The name must be one that the hub may have, by
// [names.Name.OnHub]. Errors are those of NewPlan, or a [*choice.Error].
func NewNamedPlan(ctx context.Context, client *hub.Client, c cache.Cache, n names.Name, memory int64) (*Plan,
	choice.Choice, error) {
	var chosen choice.Choice
	repos, selector := n.OnHub()
	choose := func(r hub.Repository, all []hub.File) ([]hub.File, error) {
		files := make([]choice.File, len(all))
		byPath := map[string]hub.File{}
		for i, f := range all {
			files[i], byPath[f.Path] = choice.File{Path: f.Path, Size: f.Size}, f
		}
		var err error
		if chosen, err = choice.Choose(files, selector, memory); err != nil {
			return nil, fmt.Errorf("%s: %w", r.ID, err)
		}
		list := make([]hub.File, len(chosen.Files))
		for i, f := range chosen.Files {
			list[i] = byPath[f.Path]
		}
		return list, nil
	}
	var absent, unfit error
	for _, repo := range repos {
		plan, err := NewPlan(ctx, client, c, Request{Repo: repo, Revision: n.Revision, Choose: choose})
		if err == nil {
			return plan, chosen, nil
		}
		switch file, asked := (*choice.Error)(nil), (*hub.Error)(nil); {
		case errors.As(err, &file):
			unfit = err
		case errors.As(err, &asked) && asked.Kind == hub.NotFound:
			absent = cmp.Or(absent, err)
		default:
			return nil, chosen, err
		}
	}
	return nil, chosen, cmp.Or(unfit, absent)
}

// Spelled is the shortest name of a pulled model that means no other: ORG/REPO, with the quantization of a GGUF model.
func Spelled(p *Plan, c choice.Choice) string {
	if c.Format == choice.GGUF && c.Quant != "" {
		return p.ID + ":" + c.Quant
	}
	return p.ID
}
