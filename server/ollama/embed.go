package ollama

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"runner/generation"
	"runner/server/wire"
)

// EmbedRequest is the body of POST /api/embed.
//
//openapi:request OllamaEmbedRequest
type EmbedRequest struct {
	Model string `json:"model" api:"#OllamaModelName required"`
	// A text, or a list of at most 2,048 texts. No text may be empty. Without a text the model is only loaded.
	Input json.RawMessage `json:"input" api:"string|[..2048]string[1..]"`
	// Cut texts that are longer than the context. False refuses them.
	Truncate *bool `json:"truncate" api:"default=true"`
	// Keep only this many numbers of each vector. 0 keeps all. More numbers than the vector has are refused.
	Dimensions int64 `json:"dimensions" api:"[0..] default=0"`
}

// EmbedResponse is the answer to POST /api/embed. Durations are in nanoseconds.
//
//openapi:answer OllamaEmbedResponse
type EmbedResponse struct {
	// The name of the model as it was in the request.
	Model string `json:"model"`
	// A vector of length 1 for each text.
	Embeddings [][]float32 `json:"embeddings"`
	// The time since the request, in nanoseconds.
	TotalDuration time.Duration `json:"total_duration"`
	// The time spent waiting for the model. It is part of `total_duration`.
	LoadDuration time.Duration `json:"load_duration"`
	// The tokens of all texts.
	PromptEvalCount int `json:"prompt_eval_count"`
}

// EmbeddingsRequest is the body of POST /api/embeddings, an older form of POST /api/embed.
//
//openapi:request OllamaEmbeddingsRequest
type EmbeddingsRequest struct {
	Model string `json:"model" api:"#OllamaModelName required"`
	// The text. Without one the model is only loaded.
	Prompt string `json:"prompt"`
}

// EmbeddingsResponse is the answer to POST /api/embeddings.
//
//openapi:answer OllamaEmbeddingsResponse
type EmbeddingsResponse struct {
	// The vector. Empty if there was no text.
	Embedding []float32 `json:"embedding"`
}

func (a *API) embed(w http.ResponseWriter, r *http.Request) error {
	began := a.cfg.Clock()
	var body EmbedRequest
	if err := wire.ReadJSON(r, &body); err != nil {
		return err
	}
	texts, err := readInput(body.Input)
	if err != nil {
		return err
	}
	m, err := a.use(r.Context(), body.Model)
	if err != nil {
		return err
	}
	defer m.Release()
	if err := wire.ReserveVectors(r, len(texts), m.Info().EmbeddingLength); err != nil {
		return err
	}
	answer := EmbedResponse{Model: body.Model, Embeddings: [][]float32{}, LoadDuration: a.cfg.Clock().Sub(began)}
	for i, text := range texts {
		vector, n, err := vectorOf(r, m, text, body.Truncate == nil || *body.Truncate)
		if err == nil && body.Dimensions != 0 {
			vector, err = wire.Shorten("dimensions", vector, body.Dimensions)
		}
		if err != nil {
			return placed(err, place(body.Input, i))
		}
		answer.PromptEvalCount += n
		answer.Embeddings = append(answer.Embeddings, vector)
	}
	answer.TotalDuration = a.cfg.Clock().Sub(began)
	return wire.Answer(w, answer)
}

func (a *API) embeddings(w http.ResponseWriter, r *http.Request) error {
	var body EmbeddingsRequest
	if err := wire.ReadJSON(r, &body); err != nil {
		return err
	}
	m, err := a.use(r.Context(), body.Model)
	if err != nil {
		return err
	}
	defer m.Release()
	answer := EmbeddingsResponse{Embedding: []float32{}}
	if body.Prompt != "" {
		if answer.Embedding, _, err = vectorOf(r, m, body.Prompt, true); err != nil {
			return placed(err, "prompt")
		}
	}
	return wire.Answer(w, answer)
}

// readInput reads a string or a list of strings. An empty string means no texts: clients send it to load the model.
func readInput(raw json.RawMessage) ([]string, error) {
	if string(raw) == `""` {
		return nil, nil
	}
	texts, err := wire.Texts("input", raw)
	if i := slices.Index(texts, ""); i >= 0 && err == nil {
		err = wire.Invalid(wire.Index("input", i), "it is empty")
	}
	return texts, err
}

// place returns the path of text i of an input.
func place(input json.RawMessage, i int) string {
	if wire.Is(input, '"') {
		return "input"
	}
	return wire.Index("input", i)
}

// vectorOf returns the embedding of a text and its number of tokens.
func vectorOf(r *http.Request, m wire.Model, text string, truncate bool) ([]float32, int, error) {
	if !truncate {
		if err := m.Fits(text); err != nil {
			return nil, 0, err
		}
	}
	tokens, err := m.Tokenize(r.Context(), wire.PrincipalOf(r.Context()).ID, text, false)
	if err != nil {
		return nil, 0, err
	}
	if most := m.Info().ContextSize; truncate && len(tokens) > most {
		tokens = tokens[:most]
	}
	vector, err := m.Embed(r.Context(), tokens)
	return vector, len(tokens), err
}

// placed names the field of the text that an error is about.
func placed(err error, param string) error {
	var long *generation.PromptTooLongError
	switch {
	case errors.Is(err, generation.ErrNoEmbeddings):
		return wire.Unsupported("model", "%s", err.Error())
	case errors.As(err, &long):
		return wire.Errorf(wire.CodeContextLength, "%s", tooLong(long, "")).At(param).Because(err)
	}
	return err
}
