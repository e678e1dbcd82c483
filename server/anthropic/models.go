package anthropic

import (
	"net/http"
	"slices"
	"time"

	"runner/server/wire"
)

// ModelList is a page of models.
//
//openapi:answer AnthropicModelList
type ModelList struct {
	// The models of this page.
	Data []ModelInfo `json:"data"`
	// Whether there are more.
	HasMore bool `json:"has_more"`
	// The name of the first model on the page. Null if the page is empty.
	FirstID *string `json:"first_id"`
	// The name of the last model on the page. Null if the page is empty.
	LastID *string `json:"last_id"`
}

// ModelInfo describes a model.
//
//openapi:answer AnthropicModel
type ModelInfo struct {
	// The type of this object.
	Type string `json:"type" api:"=model"`
	// The model's name in requests.
	ID string `json:"id"`
	// The same as `id`.
	DisplayName string `json:"display_name"`
	// When the server found the model.
	CreatedAt time.Time `json:"created_at"`
	// Always `active`.
	Lifecycle string `json:"lifecycle" api:"=active"`
	// The maximum number of tokens in prompt and reply together. Null while this is unknown.
	MaxInputTokens *int `json:"max_input_tokens"`
	// The same as `max_input_tokens`.
	MaxTokens *int `json:"max_tokens"`
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
	return wire.Errorf(wire.CodeModel, "there is no model %q", id)
}

func modelInfo(c wire.Card) ModelInfo {
	m := ModelInfo{Type: "model", ID: c.Name, DisplayName: c.Name, Lifecycle: "active", CreatedAt: c.Added.UTC()}
	if c.Context > 0 {
		m.MaxInputTokens, m.MaxTokens = &c.Context, &c.Context
	}
	return m
}
