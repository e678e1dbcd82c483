package standin

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"runner/backend"
)

func (s *Server) sglangRoutes() routes {
	m, name := s.current()
	return routes{
		"/server_info": get(fixed(func() any {
			return map[string]any{"version": cmp.Or(s.cfg.Version, "0.5.23"), "model_path": "/models/" + name,
				"served_model_name": name, "quantization": nil, "grammar_backend": "xgrammar", "skip_tokenizer_init": false,
				"incremental_streaming_output": s.cfg.Incremental, "enable_deterministic_inference": true,
				"disable_radix_cache": s.cfg.NoPrefixes, "max_running_requests": m.Info().Sequences, "dp_size": 1,
				"max_total_num_tokens": m.Info().ContextSize, "max_req_input_len": m.Info().ContextSize - 6,
				"api_key": s.cfg.Key, "status": "ready"}
		})),
		"/v1/models": get(fixed(func() any {
			return map[string]any{"object": "list", "data": []any{map[string]any{"id": name, "object": "model",
				"created": 1764115200, "owned_by": "sglang", "root": name, "parent": nil,
				"max_model_len": m.Info().ContextSize}}}
		})),
		"/tokenize":      post(s.tokenize),
		"/detokenize":    post(s.detokenize("text")),
		"/generate":      post(s.sglangGenerate),
		"/abort_request": post(s.abortRequest),
	}
}

// sglangRequest is a request to /generate.
type sglangRequest struct {
	ID         string          `json:"rid"`
	Tokens     []backend.Token `json:"input_ids"`
	Stream     bool            `json:"stream"`
	Logprob    bool            `json:"return_logprob"`
	Asked      []backend.Token `json:"token_ids_logprob"`
	Top        int             `json:"top_logprobs_num"`
	ExtraKey   *string         `json:"extra_key"`
	Salt       *string         `json:"cache_salt"`
	Parameters struct {
		Most        *int                      `json:"max_new_tokens"`
		Temperature *float32                  `json:"temperature"`
		TopP        *float32                  `json:"top_p"`
		TopK        *int                      `json:"top_k"`
		MinP        float32                   `json:"min_p"`
		Presence    float32                   `json:"presence_penalty"`
		Frequency   float32                   `json:"frequency_penalty"`
		Repetition  *float32                  `json:"repetition_penalty"`
		Seed        *int64                    `json:"sampling_seed"`
		Stops       []backend.Token           `json:"stop_token_ids"`
		Bias        map[backend.Token]float32 `json:"logit_bias"`
		Skip        *bool                     `json:"skip_special_tokens"`
		NoTrim      bool                      `json:"no_stop_trim"`
		Schema      *string                   `json:"json_schema"`
		Regex       *string                   `json:"regex"`
		EBNF        *string                   `json:"ebnf"`
	} `json:"sampling_params"`
}

// generation checks a request like SGLang does.
func (q *sglangRequest) generation(m modelInfo) (*generation, error) {
	p := &q.Parameters
	g := &generation{id: q.ID, tokens: q.Tokens, most: 128, stops: p.Stops, stream: q.Stream, logits: q.Logprob}
	g.sampling = backend.Sampling{Temperature: 1, TopP: 1, MinP: p.MinP, TopLogprobs: -1}
	if p.Most != nil {
		g.most = *p.Most
	}
	if p.Temperature != nil {
		g.sampling.Temperature = *p.Temperature
	}
	if p.TopP != nil {
		g.sampling.TopP = *p.TopP
	}
	if p.TopK != nil && *p.TopK != -1 {
		if *p.TopK < 1 {
			return nil, fmt.Errorf("top_k %d is neither -1 nor 1 or more", *p.TopK)
		}
		g.sampling.TopK = *p.TopK
	}
	if p.Seed != nil {
		g.sampling.Seed = uint64(*p.Seed)
	}
	forms := 0
	for _, f := range []*string{p.Schema, p.Regex, p.EBNF} {
		if f != nil {
			forms++
		}
	}
	switch {
	case len(q.Tokens) == 0:
		return nil, errors.New("there are no input_ids")
	case len(q.Tokens) >= m.context:
		return nil, fmt.Errorf("%d tokens do not fit into the context length of %d", len(q.Tokens), m.context)
	case len(q.Tokens)+g.most > m.context:
		return nil, fmt.Errorf("input and output do not fit into the context length of %d", m.context)
	case g.sampling.TopP <= 0 || g.sampling.TopP > 1:
		return nil, fmt.Errorf("top_p %v is not above 0 and at most 1", g.sampling.TopP)
	case forms > 1:
		return nil, errors.New("there is more than one form")
	case p.Presence != 0 || p.Frequency != 0 || p.Repetition != nil && *p.Repetition != 1:
		return nil, errors.New("the stand-in has no penalties")
	}
	for _, t := range slices.Concat(q.Tokens, p.Stops) {
		if !m.has(t) {
			return nil, fmt.Errorf("token id %d is out of vocabulary", t)
		}
	}
	for t, x := range p.Bias {
		switch {
		case !m.has(t) && m.terse:
			return nil, errors.New("logit_bias has a token that is not in the vocabulary")
		case !m.has(t):
			return nil, words(fmt.Sprintf("logit_bias must has keys in [0, %d], got %d.", m.tokens-1, t))
		}
		g.sampling.Bias = append(g.sampling.Bias, backend.TokenBias{Token: t, Bias: x})
	}
	return g, nil
}

func (s *Server) sglangGenerate(w http.ResponseWriter, r *http.Request) {
	var q sglangRequest
	data, ok := decode(w, r, &q)
	if !ok {
		return
	}
	g, err := q.generation(s.modelInfo())
	switch {
	case err != nil && !q.Stream:
		refuse(w, http.StatusBadRequest, err.Error())
		return
	case err != nil: // the stream has begun when SGLang checks a request
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		out := &writer{w: w, flush: http.NewResponseController(w).Flush}
		out.event(map[string]any{"error": map[string]any{"message": err.Error()}})
		out.line("[DONE]")
		return
	case !q.Stream:
		s.scoreNext(w, r, g, &q)
		return
	}
	g.body = data
	s.run(w, r, g, func(c *chunk) any { return s.sglangEvent(g, &q, c) })
}

// sglangEvent has all tokens so far, unless the server is incremental.
func (s *Server) sglangEvent(g *generation, q *sglangRequest, c *chunk) any {
	list := c.all
	if s.cfg.Incremental {
		list = c.fresh
	}
	m, _ := s.current()
	text := ""
	for _, x := range list {
		text += m.Vocab().Piece(x.token)
	}
	meta := map[string]any{"id": g.id, "finish_reason": nil, "prompt_tokens": len(g.tokens), "weight_version": "default",
		"completion_tokens": len(c.all), "cached_tokens": 0}
	switch c.finish {
	case "stop":
		meta["finish_reason"] = map[string]any{"type": "stop", "matched": c.stopped}
	case "length":
		meta["finish_reason"] = map[string]any{"type": "length", "length": g.most}
	case "abort":
		meta["finish_reason"] = map[string]any{"type": "abort", "message": "Abort in waiting queue", "status_code": nil,
			"err_type": nil}
	}
	if q.Logprob {
		probs, tops := [][]any{}, [][][]any{}
		for _, x := range list {
			if x.logits == nil { // a token of a fault
				continue
			}
			d := distribution(x.logits, &g.sampling)
			probs = append(probs, []any{d[x.token], x.token, nil})
			tops = append(tops, best(d, q.Top))
		}
		meta["output_token_logprobs"] = probs
		if q.Top > 0 {
			meta["output_top_logprobs"] = tops
		}
	}
	return map[string]any{"text": text, "output_ids": tokensOf(list), "meta_info": meta}
}

// best lists the most likely tokens of a distribution.
func best(d []float64, n int) [][]any {
	order := make([]int, len(d))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(d[b], d[a]) })
	out := [][]any{}
	for _, i := range order[:min(n, len(order))] {
		out = append(out, []any{d[i], i, nil})
	}
	return out
}

// scoreNext replies with the probabilities of some tokens after a prompt, which are those of the model.
func (s *Server) scoreNext(w http.ResponseWriter, r *http.Request, g *generation, q *sglangRequest) {
	if g.most != 1 || g.sampling.Temperature != 0 || len(g.sampling.Bias) > 0 || len(q.Asked) == 0 || !q.Logprob {
		refuse(w, http.StatusBadRequest, "without a stream, the stand-in only scores tokens")
		return
	}
	m, _ := s.current()
	s.mu.Lock()
	defer s.mu.Unlock()
	seq, err := m.NewSequence()
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	defer seq.Close()
	logits := make([]float32, m.Vocab().Len())
	in := []backend.Input{{Sequence: seq, Tokens: g.tokens, Logits: logits}}
	if err := backend.StepAll(r.Context(), m, in, make([]backend.Output, 1)); err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	d := distribution(logits, &backend.Sampling{})
	asked := [][]any{}
	for _, t := range q.Asked {
		if t < 0 || int(t) >= len(d) {
			refuse(w, http.StatusBadRequest, "token_ids_logprob has a token that is not in the vocabulary")
			return
		}
		asked = append(asked, []any{d[t], t, nil})
	}
	top := best(d, max(q.Top, 1))
	meta := map[string]any{"id": g.id, "finish_reason": map[string]any{"type": "length", "length": 1},
		"prompt_tokens": len(g.tokens), "completion_tokens": 1, "input_token_logprobs": []any{},
		"output_token_logprobs": top[:1], "output_token_ids_logprobs": []any{asked}}
	if q.Top > 0 {
		meta["output_top_logprobs"] = []any{top}
	}
	reply(w, http.StatusOK, map[string]any{"text": "", "output_ids": []any{top[0][1]}, "meta_info": meta})
}

func (s *Server) abortRequest(w http.ResponseWriter, r *http.Request) {
	var q struct {
		ID string `json:"rid"`
	}
	if _, ok := decode(w, r, &q); !ok {
		return
	}
	s.abort(q.ID)
	w.WriteHeader(http.StatusOK)
}
