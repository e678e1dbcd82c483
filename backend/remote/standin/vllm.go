package standin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"runner/backend"
)

func (s *Server) vllmRoutes() routes {
	m, name := s.current()
	all := routes{
		"/version": get(fixed(func() any { return map[string]any{"version": cmp.Or(s.cfg.Version, "0.33.0")} })),
		"/v1/models": get(fixed(func() any {
			return map[string]any{"object": "list", "data": []any{map[string]any{"id": name, "object": "model",
				"created": 1764115200, "owned_by": "vllm", "root": "/models/" + name, "parent": nil,
				"max_model_len": m.Info().ContextSize}}}
		})),
		"/tokenize":       post(s.tokenize),
		"/detokenize":     post(s.detokenize("prompt")),
		"/v1/completions": post(s.completions),
	}
	switch {
	case s.cfg.OldRoutes:
	case s.cfg.NoTokensRoute:
		all["/inference/v1/generate"], all["/inference/v1/abort_requests"] = post(disabled), post(disabled)
	default:
		all["/inference/v1/generate"] = post(s.tokensOnly)
		all["/inference/v1/abort_requests"] = post(s.abortRequests)
	}
	return all
}

// disabled refuses every request to a route that was not enabled.
func disabled(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusForbidden, map[string]any{"error": map[string]any{"message": "Scale-out endpoints are disabled. " +
		"Restart vllm serve with --enable-scale-out to enable them.", "type": "PermissionDeniedError", "param": nil,
		"code": http.StatusForbidden}})
}

// vllmSampling has the parameters that both routes share.
type vllmSampling struct {
	Most        *int                       `json:"max_tokens"`
	Temperature *float32                   `json:"temperature"`
	TopP        *float32                   `json:"top_p"`
	TopK        int                        `json:"top_k"`
	MinP        float32                    `json:"min_p"`
	Presence    float32                    `json:"presence_penalty"`
	Frequency   float32                    `json:"frequency_penalty"`
	Repetition  *float32                   `json:"repetition_penalty"`
	Seed        *int64                     `json:"seed"`
	Logprobs    *int                       `json:"logprobs"`
	Stops       []backend.Token            `json:"stop_token_ids"`
	Allowed     []backend.Token            `json:"allowed_token_ids"`
	Bias        map[backend.Token]float32  `json:"logit_bias"`
	Form        map[string]json.RawMessage `json:"structured_outputs"`
}

// generation checks a request like vLLM does.
func (p *vllmSampling) generation(m modelInfo, tokens []backend.Token) (*generation, error) {
	g := &generation{tokens: tokens, most: 16, stops: p.Stops}
	if p.Most != nil {
		g.most = *p.Most
	}
	g.sampling = backend.Sampling{Temperature: 1, TopP: 1, TopK: p.TopK, MinP: p.MinP, TopLogprobs: -1}
	if p.Temperature != nil {
		g.sampling.Temperature = *p.Temperature
	}
	if p.TopP != nil {
		g.sampling.TopP = *p.TopP
	}
	if p.Seed != nil {
		g.sampling.Seed = uint64(*p.Seed)
	}
	if p.Logprobs != nil {
		g.sampling.TopLogprobs = *p.Logprobs
	}
	switch {
	case len(tokens) == 0:
		return nil, errors.New("there are no token ids")
	case g.most < 1:
		return nil, fmt.Errorf("max_tokens %d is less than 1", g.most)
	case len(tokens)+g.most > m.context:
		return nil, fmt.Errorf("%d tokens do not fit into the context length of %d", len(tokens)+g.most, m.context)
	case g.sampling.Temperature < 0 || g.sampling.Temperature > 2:
		return nil, fmt.Errorf("temperature %v is not between 0 and 2", g.sampling.Temperature)
	case g.sampling.TopP <= 0 || g.sampling.TopP > 1:
		return nil, fmt.Errorf("top_p %v is not above 0 and at most 1", g.sampling.TopP)
	case p.Presence != 0 || p.Frequency != 0 || p.Repetition != nil && *p.Repetition != 1:
		return nil, errors.New("the stand-in has no penalties")
	case g.sampling.TopLogprobs > 20:
		return nil, fmt.Errorf("%d logprobs are more than 20", g.sampling.TopLogprobs)
	case p.Allowed != nil && len(p.Allowed) == 0:
		return nil, errors.New("allowed_token_ids has no tokens")
	case p.Form != nil && len(p.Form) != 1:
		return nil, errors.New("there is not one form")
	}
	if err := p.checkTokens(m, tokens); err != nil {
		return nil, err
	}
	if p.Allowed != nil {
		g.allowed = p.Allowed
	}
	for t, x := range p.Bias {
		if x < -100 || x > 100 {
			return nil, fmt.Errorf("logit_bias %v of token %d is not possible", x, t)
		}
		g.sampling.Bias = append(g.sampling.Bias, backend.TokenBias{Token: t, Bias: x})
	}
	return g, nil
}

// checkTokens refuses tokens that the model does not have, in vLLM's order and words.
func (p *vllmSampling) checkTokens(m modelInfo, prompt []backend.Token) error {
	size := fmt.Sprintf(" Vocabulary size: %d", m.tokens)
	if m.terse {
		size = ""
	}
	for t := range p.Bias {
		if !m.has(t) {
			return words(fmt.Sprintf("token_id(s) [%d] in logit_bias contain out-of-vocab token ids.%s", t, size))
		}
	}
	for _, t := range p.Stops {
		if !m.has(t) {
			return words(fmt.Sprintf("token_id(s) [%d] in stop_token_ids contain out-of-vocab token ids.%s", t, size))
		}
	}
	if slices.ContainsFunc(p.Allowed, func(t backend.Token) bool { return !m.has(t) }) {
		return words("allowed_token_ids contains out-of-vocab token id!")
	}
	for _, t := range prompt {
		if !m.has(t) {
			return words(fmt.Sprintf("Token id %d is out of vocabulary", t))
		}
	}
	return nil
}

// words is an error in an engine's own words.
type words string

func (w words) Error() string { return string(w) }

// modelInfo is what checks need to know of the model.
type modelInfo struct {
	context, tokens int
	// terse leaves out how many tokens there are.
	terse bool
}

func (m modelInfo) has(t backend.Token) bool { return t >= 0 && int(t) < m.tokens }

func (s *Server) modelInfo() modelInfo {
	m, _ := s.current()
	return modelInfo{m.Info().ContextSize, m.Vocab().Len(), s.cfg.Terse}
}

// vllmRequest is the route for tokens alone.
type vllmRequest struct {
	ID       string          `json:"request_id"`
	Model    string          `json:"model"`
	Tokens   []backend.Token `json:"token_ids"`
	Stream   bool            `json:"stream"`
	Salt     *string         `json:"cache_salt"`
	Reasoned *bool           `json:"reasoning_ended"`
	Sampling struct {
		vllmSampling
		Detokenize *bool `json:"detokenize"`
		NoPrefix   *bool `json:"skip_reading_prefix_cache"`
	} `json:"sampling_params"`
}

// serves refuses a request for another model.
func (s *Server) serves(w http.ResponseWriter, model string) bool {
	s.mu.Lock()
	name, anyName := s.name, s.anyName
	s.mu.Unlock()
	if model != "" && model != name && !anyName {
		reply(w, http.StatusNotFound, map[string]any{"error": map[string]any{"message": "The model `" + model +
			"` does not exist.", "type": "NotFoundError", "param": "model", "code": http.StatusNotFound}})
		return false
	}
	return true
}

func (s *Server) tokensOnly(w http.ResponseWriter, r *http.Request) {
	var q vllmRequest
	data, ok := decode(w, r, &q)
	if !ok || !s.serves(w, q.Model) {
		return
	}
	g, err := q.Sampling.generation(s.modelInfo(), q.Tokens)
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, err.Error())
		return
	case !q.Stream:
		refuse(w, http.StatusBadRequest, "the stand-in only streams")
		return
	case q.Salt != nil && (*q.Salt == "" || len(*q.Salt) > 1024):
		refuse(w, http.StatusBadRequest, "cache_salt has a wrong length")
		return
	}
	g.id, g.body, g.stream = "generate-tokens-"+q.ID, data, true
	top := g.sampling.TopLogprobs
	s.run(w, r, g, func(c *chunk) any {
		choice := map[string]any{"index": 0, "logprobs": nil, "finish_reason": nil, "stop_reason": nil,
			"token_ids": tokensOf(c.fresh), "routed_experts": nil}
		if c.finish != "" {
			choice["finish_reason"] = c.finish
		}
		if c.stopped != backend.NoToken && slices.Contains(g.stops, c.stopped) {
			choice["stop_reason"] = c.stopped
		}
		if top >= 0 {
			choice["logprobs"] = map[string]any{"content": s.content(c.fresh, top)}
		}
		return map[string]any{"request_id": g.id, "choices": []any{choice}, "usage": nil}
	})
}

// content lists the sampled token and then the best others, so many together as were asked for.
func (s *Server) content(list []sample, top int) []any {
	out := []any{}
	for _, x := range list {
		var alternatives []any
		rank := len(x.top) + 1
		for i, y := range x.top {
			if y.Token == x.token {
				rank = i + 1
			}
		}
		for i, y := range append([]backend.TokenLogprob{{Token: x.token, Logprob: x.logprob}}, x.top...) {
			if len(alternatives) < max(top, 1) && (i == 0 || y.Token != x.token) {
				alternatives = append(alternatives, s.entry(y, 0))
			}
		}
		e := s.entry(backend.TokenLogprob{Token: x.token, Logprob: x.logprob}, rank)
		e["top_logprobs"] = alternatives
		out = append(out, e)
	}
	return out
}

func (s *Server) entry(x backend.TokenLogprob, rank int) map[string]any {
	if s.cfg.TokenNames {
		return map[string]any{"token": tokenName(x.Token), "logprob": x.Logprob, "bytes": nil}
	}
	e := map[string]any{"token_id": x.Token, "logprob": x.Logprob, "rank": nil}
	if rank > 0 {
		e["rank"] = rank
	}
	return e
}

func tokenName(t backend.Token) string { return "token_id:" + strconv.Itoa(int(t)) }

func tokensOf(list []sample) []backend.Token {
	out := []backend.Token{}
	for _, x := range list {
		out = append(out, x.token)
	}
	return out
}

func (s *Server) abortRequests(w http.ResponseWriter, r *http.Request) {
	var q struct {
		IDs []string `json:"request_ids"`
	}
	if _, ok := decode(w, r, &q); !ok {
		return
	}
	for _, id := range q.IDs {
		s.abort(id)
	}
	w.WriteHeader(http.StatusOK)
}

// completionRequest is the route that also spells tokens.
type completionRequest struct {
	ID      string          `json:"request_id"`
	Model   string          `json:"model"`
	Prompt  []backend.Token `json:"prompt"`
	Stream  bool            `json:"stream"`
	IDs     bool            `json:"return_token_ids"`
	Names   bool            `json:"return_tokens_as_token_ids"`
	Special *bool           `json:"add_special_tokens"`
	Skip    *bool           `json:"skip_special_tokens"`
	Salt    *string         `json:"cache_salt"`
	vllmSampling
}

func (s *Server) completions(w http.ResponseWriter, r *http.Request) {
	var q completionRequest
	data, ok := decode(w, r, &q)
	if !ok || !s.serves(w, q.Model) {
		return
	}
	g, err := q.generation(s.modelInfo(), q.Prompt)
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, err.Error())
		return
	case !q.Stream || !q.IDs:
		refuse(w, http.StatusBadRequest, "the stand-in only streams, and only with token ids")
		return
	}
	g.id, g.body, g.stream = "cmpl-"+q.ID, data, true
	top, first := g.sampling.TopLogprobs, true
	m, name := s.current()
	s.run(w, r, g, func(c *chunk) any {
		text := ""
		for _, x := range c.fresh {
			text += m.Vocab().Piece(x.token)
		}
		choice := map[string]any{"index": 0, "text": text, "logprobs": nil, "finish_reason": nil, "stop_reason": nil,
			"prompt_token_ids": nil, "token_ids": tokensOf(c.fresh)}
		if first {
			choice["prompt_token_ids"], first = g.tokens, false
		}
		if c.finish != "" {
			choice["finish_reason"] = c.finish
		}
		if top >= 0 {
			choice["logprobs"] = completionLogprobs(c.fresh)
		}
		return map[string]any{"id": g.id, "object": "text_completion", "created": 1764115200, "model": name,
			"choices": []any{choice}, "usage": nil}
	})
}

// completionLogprobs has the sampled token in addition to the best ones.
func completionLogprobs(list []sample) any {
	var offsets []int
	var names []string
	var logprobs []float32
	var tops []map[string]float32
	for _, x := range list {
		offsets, names, logprobs = append(offsets, 0), append(names, tokenName(x.token)), append(logprobs, x.logprob)
		top := map[string]float32{tokenName(x.token): x.logprob}
		for _, y := range x.top {
			top[tokenName(y.Token)] = y.Logprob
		}
		tops = append(tops, top)
	}
	return map[string]any{"text_offset": offsets, "tokens": names, "token_logprobs": logprobs, "top_logprobs": tops}
}
