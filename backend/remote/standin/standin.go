// Package standin is an engine for tests. It speaks the documented messages of vLLM and SGLang and computes with
// package fake. It refuses what they refuse, does not know fields that they do not know, and can fail in every way.
//
// It is no measure of their speed, and it does not enforce forms. It holds one lock while it computes.
package standin

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"runner/backend"
	"runner/backend/fake"
)

// Config describes a stand-in.
type Config struct {
	// Kind is "vllm" or "sglang".
	Kind string
	// Name is the name of the model; empty means "stand-in".
	Name string
	// Model configures what computes. Its ContextSize is what the server reports.
	Model fake.Config
	// Key is the key that clients must send; empty means none.
	Key string
	// Pace is how long one token takes.
	Pace time.Duration
	// Burst is how many tokens one event has; 0 means 1.
	Burst int

	// NoTokensRoute refuses vLLM's routes for tokens alone, as without --enable-scale-out. OldRoutes leaves them out, as
	// versions do that do not have them.
	NoTokensRoute, OldRoutes bool
	// TokenNames writes the ids in vLLM's probabilities as text, as versions until 0.31 do.
	TokenNames bool
	// Incremental sends only new tokens in SGLang's events, as with --incremental-streaming-output.
	Incremental bool
	// Version is what the server says that it is; empty means the version whose messages the stand-in speaks.
	Version string
	// NoPrefixes says that the server keeps no prefixes, as SGLang with --disable-radix-cache.
	NoPrefixes bool
	// Terse does not say how many tokens there are where it refuses one.
	Terse bool
}

// Fault says how a generation fails. The zero value means that it does not.
type Fault struct {
	// Status is sent in place of a stream, with the header Retry-After if RetryAfter is not empty.
	Status     int
	RetryAfter string
	// After is how many tokens are sent before What happens.
	After int
	What  What
}

// What is a way to fail in a stream.
type What int

// The ways to fail.
const (
	Nothing What = iota
	// Silent sends nothing, not even a status.
	Silent
	// Drop drops the connection.
	Drop
	// Stall sends nothing more.
	Stall
	// Garbage sends an event that is not JSON.
	Garbage
	// Wrong sends an event of another form.
	Wrong
	// Foreign sends a token that is not in the vocabulary.
	Foreign
	// Endless sends an event that does not end.
	Endless
	// Early ends the stream without a reason.
	Early
	// Failure sends an error.
	Failure
	// GiveUp ends the generation as one that was aborted.
	GiveUp
)

// Server is a stand-in. It is safe for concurrent use.
type Server struct {
	cfg Config

	mu    sync.Mutex
	model *fake.Model
	name  string
	// anyName takes requests for every name.
	anyName bool
	fault   func(n int) Fault
	// requests are the bodies of the last requests to generate. running are the generations by the server's names for
	// them.
	requests [][]byte
	running  map[string]chan struct{}
	aborted  []string
	missed   []string
	count    int
}

// New returns a server.
func New(c Config) *Server {
	if c.Name == "" {
		c.Name = "stand-in"
	}
	c.Burst = max(1, c.Burst)
	return &Server{cfg: c, model: fake.New(c.Model), name: c.Name, running: map[string]chan struct{}{}}
}

// Fail sets how generations fail. f gets the number of the generation, from 0. nil means that none fails.
func (s *Server) Fail(f func(n int) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.count = f, 0
}

// Swap replaces the model by another one, as a restart with other settings does.
func (s *Server) Swap(name string, c fake.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.name, s.model = name, fake.New(c)
}

// AnyName makes it take requests for every name of a model, as a gateway that rewrites them does.
func (s *Server) AnyName() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.anyName = true
}

// mostKept is how many requests and aborts are kept.
const mostKept = 256

// keep adds to a list that has a limit.
func keep[T any](list []T, x T) []T {
	if len(list) == mostKept {
		list = append(list[:0], list[1:]...)
	}
	return append(list, x)
}

// Requests returns the bodies of the last requests to generate.
func (s *Server) Requests() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Aborted returns the names in the last messages that ended a generation.
func (s *Server) Aborted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.aborted)
}

// Missed returns the names in the last messages that came when no such generation was running.
func (s *Server) Missed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.missed)
}

// Running returns how many generations are open.
func (s *Server) Running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Key != "" && r.Header.Get("Authorization") != "Bearer "+s.cfg.Key {
		reply(w, http.StatusUnauthorized, map[string]any{"error": "Unauthorized"})
		return
	}
	routes := s.vllmRoutes()
	if s.cfg.Kind == "sglang" {
		routes = s.sglangRoutes()
	}
	for method, h := range routes[r.URL.Path] {
		if method == r.Method {
			h(w, r)
			return
		}
		reply(w, http.StatusMethodNotAllowed, map[string]any{"detail": "Method Not Allowed"})
		return
	}
	reply(w, http.StatusNotFound, map[string]any{"detail": "Not Found"})
}

// routes has one handler for each path, by its method.
type routes map[string]map[string]http.HandlerFunc

func get(h http.HandlerFunc) map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{http.MethodGet: h}
}

func post(h http.HandlerFunc) map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{http.MethodPost: h}
}

// fixed replies with a value that is computed for each request.
func fixed(value func() any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, value()) }
}

func reply(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // a client that left has no use for it
}

// refuse replies with an error of the form that both kinds use.
func refuse(w http.ResponseWriter, status int, message string) {
	reply(w, status, map[string]any{"error": map[string]any{"message": message, "type": "BadRequestError", "param": nil,
		"code": status}})
}

// decode reads a body that must have known fields only.
func decode(w http.ResponseWriter, r *http.Request, to any) ([]byte, bool) {
	data, err := io.ReadAll(r.Body)
	if err == nil {
		d := json.NewDecoder(strings.NewReader(string(data)))
		d.DisallowUnknownFields()
		err = d.Decode(to)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return nil, false
	}
	return data, true
}

// tokenize and detokenize are almost the same in both kinds.
type tokenizeRequest struct {
	Model   string `json:"model"`
	Prompt  string `json:"prompt"`
	Special *bool  `json:"add_special_tokens"`
}

func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	var q tokenizeRequest
	if _, ok := decode(w, r, &q); !ok {
		return
	}
	m, _ := s.current()
	tokens := fake.Encode(m.Vocab(), q.Prompt)
	if v := m.Vocab(); (q.Special == nil || *q.Special) && v.BOS() != backend.NoToken {
		tokens = append([]backend.Token{v.BOS()}, tokens...)
	}
	reply(w, http.StatusOK, map[string]any{"tokens": tokens, "count": len(tokens), "max_model_len": m.Info().ContextSize,
		"token_strs": nil})
}

func (s *Server) detokenize(field string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Model  string          `json:"model"`
			Tokens []backend.Token `json:"tokens"`
			Skip   *bool           `json:"skip_special_tokens"`
		}
		if _, ok := decode(w, r, &q); !ok {
			return
		}
		m, _ := s.current()
		reply(w, http.StatusOK, map[string]any{field: fake.Decode(m.Vocab(), q.Tokens)})
	}
}

// current returns the model and its name.
func (s *Server) current() (*fake.Model, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.model, s.name
}
