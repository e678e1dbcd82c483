package openai

import (
	"net/http"
	"time"

	"runner/server/wire"
)

// Model describes a model.
//
// A model. Fields that are unknown until the model is loaded are absent until then.
//
//openapi:answer Model
type Model struct {
	// The model's name in requests.
	ID string `json:"id"`
	// The type of this object.
	Object string `json:"object" api:"=model"`
	// When the server found the model, in seconds since 1970. 0 if this is unknown.
	Created int64 `json:"created"`
	// The program's name.
	OwnedBy string `json:"owned_by"`

	// Whether the model is in memory.
	Loaded bool `json:"loaded"`
	// The maximum number of tokens in a conversation.
	ContextLength int `json:"context_length,omitempty"`
	// The same as `context_length`.
	MaxModelLen int `json:"max_model_len,omitempty"`
	// The size of the model's files in bytes.
	Size int64 `json:"size,omitempty"`
	// When the model's files were last changed.
	Modified *time.Time `json:"modified,omitempty"`
	// The SHA-256 of what the model's files hold. Absent until all of them have been read.
	Digest string `json:"digest,omitempty"`
	// The model's architecture.
	Family string `json:"family,omitempty"`
	// The number of weights.
	Parameters int64 `json:"parameters,omitempty"`
	// The format of the weights.
	Quantization string `json:"quantization,omitempty"`
}

// ModelList is the answer of GET /v1/models.
//
//openapi:answer ModelList
type ModelList struct {
	// The type of this object.
	Object string `json:"object" api:"=list"`
	// The models, the default first.
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
	return wire.Errorf(wire.CodeModel, "there is no model %q that you may use", wire.Clip(id)).At("model")
}
