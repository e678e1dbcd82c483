package openai

import (
	"fmt"
	"net/http"
	"time"

	"runner/server/wire"
)

// Model describes a model. Fields that are unknown until the model is loaded are left out until then.
type Model struct {
	// ID is its name in requests.
	ID string `json:"id"`
	// Object is model.
	Object string `json:"object"`
	// Created is when it was added to the server or when its files were last changed, in seconds since 1970.
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`

	// Loaded reports whether it is in memory.
	Loaded bool `json:"loaded"`
	// ContextLength and MaxModelLen are two names of one field, the maximum length of a conversation in tokens.
	ContextLength int `json:"context_length,omitempty"`
	MaxModelLen   int `json:"max_model_len,omitempty"`
	// Size is the length of its files in bytes, and Modified when they were last changed.
	Size     int64      `json:"size,omitempty"`
	Modified *time.Time `json:"modified,omitempty"`
	// Digest identifies the weights.
	Digest string `json:"digest,omitempty"`
	// Family is the architecture, Parameters the number of weights, Quantization their format.
	Family       string `json:"family,omitempty"`
	Parameters   int64  `json:"parameters,omitempty"`
	Quantization string `json:"quantization,omitempty"`
}

// ModelList is the answer of GET /v1/models.
type ModelList struct {
	// Object is list.
	Object string `json:"object"`
	// Data lists the models that the key may use, the default first.
	Data []Model `json:"data"`
}

func modelOf(c *wire.Card) Model {
	m := Model{
		ID: c.Name, Object: "model", OwnedBy: "runner", Loaded: c.Loaded, ContextLength: c.Context, MaxModelLen: c.Context,
		Size: c.Size, Digest: c.Digest, Family: c.Family, Parameters: c.Parameters, Quantization: c.Quantization,
	}
	if !c.Added.IsZero() {
		m.Created = c.Added.Unix()
	}
	if !c.Modified.IsZero() {
		m.Modified = &c.Modified
		if m.Created == 0 {
			m.Created = c.Modified.Unix()
		}
	}
	return m
}

// listModels handles GET /v1/models.
func (a *API) listModels(w http.ResponseWriter, r *http.Request) error {
	list := ModelList{Object: "list", Data: []Model{}}
	for _, c := range a.models.List(r.Context()) {
		list.Data = append(list.Data, modelOf(&c))
	}
	return wire.Answer(w, list)
}

// getModel handles GET /v1/models/{id}. An id may contain slashes.
func (a *API) getModel(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if c, ok := a.models.Find(r.Context(), id); ok {
		return wire.Answer(w, modelOf(&c))
	}
	return &wire.Error{Status: http.StatusNotFound, Code: wire.CodeModel, Param: "model",
		Message: fmt.Sprintf("there is no model %q that you may use", wire.Clip(id))}
}
