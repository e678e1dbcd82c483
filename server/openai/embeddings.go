package openai

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"net/http"

	"runner/generation"
	"runner/server/wire"
)

// EmbeddingRequest is the body of POST /v1/embeddings.
//
//openapi:request EmbeddingRequest
type EmbeddingRequest struct {
	// The name of the model. The default is the first model that the API key may use.
	Model string `json:"model"`
	// The texts to embed. There may be at most 2,048, and none may be empty.
	Input json.RawMessage `json:"input" api:"#TextOrTokens required"`
	// How vectors are written: as numbers, or as base64 of little-endian 32-bit floats.
	EncodingFormat *string `json:"encoding_format" api:"=float,base64 default=float"`
	// Keep only this many numbers of each vector and scale it to length 1 again. This is useful only for models that
	// were trained for it. More numbers than the vector has are refused with status 400.
	Dimensions *int64 `json:"dimensions" api:"[1..]"`
}

// EmbeddingList is the answer.
//
//openapi:answer EmbeddingList
type EmbeddingList struct {
	// The type of this object.
	Object string `json:"object" api:"=list"`
	// A vector for each input, in the order of the inputs.
	Data []Embedding `json:"data"`
	// The name of the model.
	Model string `json:"model"`
	// The tokens of all inputs.
	Usage EmbeddingUsage `json:"usage"`
}

// Embedding is the embedding of one input, of length 1.
//
//openapi:answer Embedding
type Embedding struct {
	// The type of this object.
	Object string `json:"object" api:"=embedding"`
	// The index of the input.
	Index int `json:"index" api:"[0..]"`
	// The vector, in the form that `encoding_format` asks for.
	Embedding any `json:"embedding" api:"[]number|string"`
}

// EmbeddingUsage counts the tokens of all inputs.
//
//openapi:answer
type EmbeddingUsage struct {
	// The tokens of all inputs.
	PromptTokens int `json:"prompt_tokens"`
	// The same as `prompt_tokens`.
	TotalTokens int `json:"total_tokens"`
}

// embed handles POST /v1/embeddings.
func (a *API) embed(w http.ResponseWriter, r *http.Request) error {
	var body EmbeddingRequest
	if err := wire.ReadJSON(r, &body); err != nil {
		return err
	}
	inputs, err := readInputs(body.Input, "input", maxInputs)
	if err != nil {
		return err
	}
	m, err := a.models.Use(r.Context(), body.Model)
	if err != nil {
		return err
	}
	defer m.Release()
	size := m.Info().EmbeddingLength
	if n := body.Dimensions; n != nil && size > 0 && *n > int64(size) { // before computing anything
		return wire.Invalid("dimensions", "%d is not between 1 and %d", *n, size)
	}
	if err := wire.ReserveVectors(r, len(inputs), size); err != nil {
		return err
	}
	list := EmbeddingList{Object: "list", Data: make([]Embedding, len(inputs)), Model: m.Card().Name}
	for i := range inputs {
		tokens, err := inputs[i].tokenized(r.Context(), m)
		if err != nil {
			return err
		}
		vector, err := m.Embed(r.Context(), tokens)
		if err != nil {
			return embedError(err, inputs[i].path)
		}
		if body.Dimensions != nil {
			if vector, err = wire.Shorten("dimensions", vector, *body.Dimensions); err != nil {
				return err
			}
		}
		list.Data[i] = Embedding{Object: "embedding", Index: i, Embedding: vector}
		if f := body.EncodingFormat; f != nil && *f == "base64" {
			list.Data[i].Embedding = pack(vector)
		}
		list.Usage.PromptTokens += len(tokens)
	}
	list.Usage.TotalTokens = list.Usage.PromptTokens
	return wire.Answer(w, list)
}

// embedError converts an error about the input at path.
func embedError(err error, path string) error {
	if errors.Is(err, generation.ErrNoEmbeddings) {
		return wire.Unsupported("model", "%v", err).Because(err)
	}
	return wire.FromError(err, map[string]string{"Tokens": path, "Messages": path})
}

// pack returns a vector as base64.
func pack(vector []float32) string {
	b := make([]byte, 0, 4*len(vector))
	for _, x := range vector {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(b)
}

// input is a text or a list of tokens.
type input struct {
	path   string
	text   string
	tokens []generation.Token
}

// tokenized returns the tokens of an input. Names of control tokens in a text are plain text.
func (p *input) tokenized(ctx context.Context, m wire.Tokenizer) ([]generation.Token, error) {
	if p.tokens != nil {
		return p.tokens, nil
	}
	if err := m.Fits(p.text); err != nil {
		return nil, embedError(err, p.path)
	}
	tokens, err := m.Tokenize(ctx, wire.PrincipalOf(ctx).ID, p.text, false)
	if err == nil && len(tokens) == 0 {
		err = wire.Invalid(p.path, "it is empty")
	}
	return m.WithBOS(tokens), err
}

// readInputs reads a string, a list of tokens, or a list of either.
func readInputs(raw json.RawMessage, path string, most int) ([]input, error) {
	const takes = "it has to be a string, a list of tokens or a list of either"
	switch {
	case !wire.Given(raw):
		return nil, wire.Invalid(path, "it is missing")
	case wire.Is(raw, '"'):
		s, err := wire.Text(path, raw)
		return []input{{path: path, text: s}}, err
	case !wire.Is(raw, '['):
		return nil, wire.Invalid(path, takes)
	}
	switch first := bytes.TrimLeft(raw[1:], " \t\r\n"); {
	case wire.Is(first, ']'):
		return nil, wire.Invalid(path, "the list is empty")
	case !wire.Is(first, '"') && !wire.Is(first, '['):
		tokens, err := readTokens(raw, path)
		return []input{{path: path, tokens: tokens}}, err
	}
	list, err := wire.List(path, raw)
	switch {
	case err != nil:
		return nil, err
	case len(list) > most:
		return nil, wire.Invalid(path, "there are %d; at most %d are allowed", len(list), most)
	}
	inputs := make([]input, len(list))
	for i, entry := range list {
		in := input{path: wire.Index(path, i)}
		switch {
		case wire.Is(entry, '"'):
			in.text, err = wire.Text(in.path, entry)
		case wire.Is(entry, '['):
			in.tokens, err = readTokens(entry, in.path)
		default:
			err = wire.Invalid(in.path, takes)
		}
		if err != nil {
			return nil, err
		}
		inputs[i] = in
	}
	return inputs, nil
}

// readTokens reads a list of token ids, which must not be empty.
func readTokens(raw json.RawMessage, path string) ([]generation.Token, error) {
	var tokens []generation.Token
	if err := wire.UnmarshalAt(path, raw, &tokens); err != nil {
		return nil, err
	}
	switch {
	case len(tokens) == 0:
		return nil, wire.Invalid(path, "the list is empty")
	case bytes.Contains(raw, []byte("null")): // it would be read as token 0
		return nil, wire.Invalid(path, "a token is null")
	}
	return tokens, nil
}
