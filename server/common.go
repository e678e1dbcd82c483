package server

import (
	"net/http"
	"unicode/utf8"

	"runner/generation"
	"runner/server/internal/apierror"
	"runner/server/openapi"
	"runner/server/wire"
)

// common has the routes that belong to no format: health, metrics, the OpenAPI document, and the tokenizers.
// Requests and answers have the fields of llama.cpp's server; those of the tokenizers also have the fields of
// vLLM's.
type common struct{ *Server }

// Routes implements [wire.Format].
func (c *common) Routes() []wire.Route {
	return []wire.Route{
		{Method: http.MethodGet, Path: "/health", Handle: c.getHealth},
		{Method: http.MethodGet, Path: "/metrics", Scope: wire.ScopeMetrics,
			Handle: wire.HandlerOf(c.metrics.handler())},
		{Method: http.MethodGet, Path: "/openapi.json", Handle: wire.HandlerOf(openapi.Handler(c.cfg.Version, c.described))},
		{Method: http.MethodGet, Path: "/props", Scope: wire.ScopeModels, Loads: true, Handle: c.getProps},
		{Method: http.MethodPost, Path: "/tokenize", Scope: wire.ScopeModels, MaxBody: c.cfg.MaxTokenize,
			MaxBodyFlag: "--max-tokenize", Handle: c.tokenize},
		{Method: http.MethodPost, Path: "/detokenize", Scope: wire.ScopeModels, Handle: c.detokenize},
		{Method: http.MethodGet, Path: "/tokenizer_info", Scope: wire.ScopeModels, Loads: true, Handle: c.getTokenizerInfo},
	}
}

// WriteError implements [wire.Format]. Errors have OpenAI's shape.
func (c *common) WriteError(w http.ResponseWriter, err error) {
	apierror.Write(w, wire.FromError(err, commonFields))
}

func (c *common) getHealth(w http.ResponseWriter, _ *http.Request) error {
	code := http.StatusOK
	status, reason := c.health.now()
	if status != healthOK {
		code = http.StatusServiceUnavailable
	}
	answer := map[string]string{"status": status}
	if reason != "" {
		answer["reason"] = reason
	}
	wire.WriteJSON(w, code, answer)
	return nil
}

// commonFields are the names of the fields of [generation.Request] in requests.
var commonFields = map[string]string{"Tokens": "tokens"}

func (c *common) getProps(w http.ResponseWriter, r *http.Request) error {
	m, err := c.Use(r.Context(), r.URL.Query().Get("model"))
	if err != nil {
		return err
	}
	defer m.Release()
	info := m.Info()
	return wire.Answer(w, map[string]any{
		"model": info.Name, "model_path": info.Path, "architecture": info.Architecture, "digest": info.Digest,
		"n_ctx": info.ContextSize, "n_ctx_train": info.TrainedContext, "total_slots": info.Sequences,
		"n_batch":  info.BatchSize,
		"n_params": info.Parameters, "size": info.Bytes, "quantization": info.Quantization, "n_embd": info.EmbeddingLength,
		"backend": info.Backend, "device": info.Device, "threads": info.Threads, "gpu_layers": info.GPULayers,
		"chat_template": info.ChatTemplate, "build_info": c.cfg.Version,
	})
}

// tokenizerInfo describes a tokenizer as vLLM's server does. Evaluation programs read it to use a tokenizer over
// HTTP. A token that the model does not have is null.
//
//openapi:answer TokenizerInfo
type tokenizerInfo struct {
	// The token that begins a text.
	BOSToken *string `json:"bos_token"`
	// The token that ends a text.
	EOSToken *string `json:"eos_token"`
	// The size of the context in tokens.
	MaxLength int `json:"model_max_length"`
}

func (c *common) getTokenizerInfo(w http.ResponseWriter, r *http.Request) error {
	m, err := c.Use(r.Context(), r.URL.Query().Get("model"))
	if err != nil {
		return err
	}
	defer m.Release()
	bos, eos := m.Ends()
	return wire.Answer(w, tokenizerInfo{named(bos), named(eos), m.Info().ContextSize})
}

// named returns nil for an empty text, which means that the model does not have the token.
func named(token string) *string {
	if token == "" {
		return nil
	}
	return &token
}

// tokenizeRequest is the body of /tokenize.
//
//openapi:request TokenizeRequest
type tokenizeRequest struct {
	// The name of the model. The default is the first model that the API key may use.
	Model string `json:"model"`
	// The text.
	Content string `json:"content" api:"default="`
	// Another name of `content`.
	Prompt string `json:"prompt"`
	// Begin with the token for the beginning of a text, if the model has one.
	AddSpecial bool `json:"add_special" api:"default=false"`
	// Another name of `add_special`.
	AddSpecialTokens bool `json:"add_special_tokens" api:"default=false"`
	// Read the names of control tokens in the text as control tokens. With false they are plain text.
	ParseSpecial *bool `json:"parse_special" api:"default=true"`
	// Return the text of each token with it.
	WithPieces bool `json:"with_pieces" api:"default=false"`
}

// maxPieces is the maximum length in bytes of a text whose tokens are returned with their pieces, which make the answer
// several times as long as the text.
const maxPieces = 1 << 20

// tokenCost estimates how many bytes of memory the tokenizer needs for each byte of text, if the text is one long word.
const tokenCost = 32

func (c *common) tokenize(w http.ResponseWriter, r *http.Request) error {
	var in tokenizeRequest
	if err := wire.ReadJSON(r, &in); err != nil {
		return err
	}
	switch {
	case in.Content == "":
		in.Content = in.Prompt
	case in.Prompt != "" && in.Prompt != in.Content:
		return wire.Invalid("prompt", "it is another name of content; give one of both")
	}
	if in.WithPieces && len(in.Content) > maxPieces {
		return wire.Invalid("content", "with pieces it takes at most %d bytes; this has %d", maxPieces, len(in.Content))
	}
	m, err := c.Use(r.Context(), in.Model)
	if err != nil {
		return err
	}
	defer m.Release()
	if err := wire.Reserve(r, tokenCost*int64(len(in.Content))); err != nil {
		return err
	}
	tokens, err := m.Tokenize(r.Context(), wire.PrincipalOf(r.Context()).ID, in.Content, in.ParseSpecial == nil ||
		*in.ParseSpecial)
	if err != nil {
		return err
	}
	if in.AddSpecial || in.AddSpecialTokens {
		tokens = m.WithBOS(tokens)
	}
	wire.WriteList(w, r, "tokens", len(tokens), func(i int) any {
		if !in.WithPieces {
			return tokens[i]
		}
		return tokenPiece{tokens[i], pieceOf(m.Piece(tokens[i]))}
	})
	return nil
}

// detokenizeRequest is the body of /detokenize.
//
//openapi:request DetokenizeRequest
type detokenizeRequest struct {
	// The name of the model. The default is the first model that the API key may use.
	Model string `json:"model"`
	// Ids of tokens in the model's vocabulary. Other ids are refused.
	Tokens []generation.Token `json:"tokens" api:"[]integer[0..] default=[]"`
}

func (c *common) detokenize(w http.ResponseWriter, r *http.Request) error {
	var in detokenizeRequest
	if err := wire.ReadJSON(r, &in); err != nil {
		return err
	}
	m, err := c.Use(r.Context(), in.Model)
	if err != nil {
		return err
	}
	defer m.Release()
	length := int64(0)
	for _, t := range in.Tokens {
		if length += int64(len(m.Piece(t))); length > c.cfg.MaxBody {
			return wire.Errorf(wire.CodeTooLarge,
				"their text is longer than the %d bytes that a body may have (--max-body)", c.cfg.MaxBody)
		}
	}
	if err := wire.Reserve(r, answerCost*length); err != nil {
		return err
	}
	if err := wire.Work(r); err != nil {
		return err
	}
	text, err := m.Detokenize(in.Tokens)
	if err != nil {
		return err
	}
	return wire.Answer(w, map[string]string{"content": text, "prompt": text})
}

// answerCost estimates how many bytes of memory each byte of text in an answer takes, as text and as JSON.
const answerCost = 4

// tokenPiece is a token with its text.
//
//openapi:answer TokenPiece
type tokenPiece struct {
	// The id of the token.
	ID generation.Token `json:"id" api:"integer[0..]"`
	// The token's text, or its bytes if they are not UTF-8.
	Piece any `json:"piece" api:"string|[]integer[0..255]"`
}

// pieceOf returns a token's text as JSON has it: a string, or a list of bytes if it is not UTF-8.
func pieceOf(text string) any {
	if utf8.ValidString(text) {
		return text
	}
	return wire.Bytes(text)
}
