package anthropic

import (
	"net/http"
	"slices"
	"time"

	"runner/server/wire"
)

// ModelList is a page of models.
type ModelList struct {
	Data []ModelInfo `json:"data"`
	// HasMore says that there are models after LastID.
	HasMore bool `json:"has_more"`
	// FirstID and LastID are the ids of the first and the last model of the page; null if it is empty.
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
}

// ModelInfo describes a model.
type ModelInfo struct {
	// Type is "model".
	Type string `json:"type"`
	// ID is its name in requests; DisplayName is the same.
	ID          string `json:"id"`
	DisplayName string `json:"display_name"`
	// CreatedAt is when it was added to the server.
	CreatedAt time.Time `json:"created_at"`
	// Lifecycle is "active".
	Lifecycle string `json:"lifecycle"`
	// MaxInputTokens and MaxTokens are the maximum number of tokens of prompt and reply together; null until the model is
	// loaded.
	MaxInputTokens *int `json:"max_input_tokens"`
	MaxTokens      *int `json:"max_tokens"`
}

// maxPage is the maximum number of models on a page.
const maxPage = 1000

// listModels answers GET /v1/models, with the parameters limit, after_id and before_id.
func (a *API) listModels(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	limit, err := wire.ReadLimit(query, maxPage)
	if err != nil {
		return err
	}
	cards := a.models.List(r.Context())
	from, to := 0, len(cards)
	for _, bound := range []struct {
		name string
		set  func(i int)
	}{{"after_id", func(i int) { from = i + 1 }}, {"before_id", func(i int) { to = i }}} {
		id := query.Get(bound.name)
		if id == "" {
			continue
		}
		i := slices.IndexFunc(cards, func(c wire.Card) bool { return c.Name == id })
		if i < 0 {
			return wire.Invalid(bound.name, "there is no model %q", id)
		}
		bound.set(i)
	}
	list := ModelList{Data: []ModelInfo{}}
	if from < to {
		page := cards[from:to]
		if list.HasMore = len(page) > limit; list.HasMore {
			if query.Get("before_id") != "" {
				page = page[len(page)-limit:]
			} else {
				page = page[:limit]
			}
		}
		for _, c := range page {
			list.Data = append(list.Data, modelInfo(c))
		}
		list.FirstID, list.LastID = &list.Data[0].ID, &list.Data[len(list.Data)-1].ID
	}
	return a.answer(w, list)
}

// getModel answers GET /v1/models/{id}.
func (a *API) getModel(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if c, ok := a.models.Find(r.Context(), id); ok {
		return a.answer(w, modelInfo(c))
	}
	return wire.Errorf(http.StatusNotFound, wire.CodeModel, "there is no model %q", id)
}

func modelInfo(c wire.Card) ModelInfo {
	m := ModelInfo{Type: "model", ID: c.Name, DisplayName: c.Name, Lifecycle: "active", CreatedAt: c.Added.UTC()}
	if c.Context > 0 {
		m.MaxInputTokens, m.MaxTokens = &c.Context, &c.Context
	}
	return m
}
