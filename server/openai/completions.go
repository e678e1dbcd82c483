package openai

import (
	"context"
	"encoding/json"
	"net/http"

	"runner/generation"
	"runner/server/wire"
)

// CompletionRequest is the body of POST /v1/completions. The answer to a raw prompt may show reasoning, so the
// permission reasoning:full is required and fields about reasoning are refused.
//
//openapi:request CompletionRequest
type CompletionRequest struct {
	Options
	// The text to continue. There may be at most 32 texts, and at most 32 choices in all.
	Prompt json.RawMessage `json:"prompt" api:"#TextOrTokens required"`
	// Read the names of control tokens in a text as control tokens. Otherwise they are plain text.
	ParseSpecial bool `json:"parse_special" api:"default=false"`
	// The maximum number of tokens to generate. -1 generates as many as the context holds, 0 generates nothing.
	MaxTokens *int64 `json:"max_tokens" api:"[-1..] default=16" of:"MaxTokens"`
	// Return the prompt before the text, and its log probabilities too if `logprobs` is set.
	Echo bool `json:"echo" api:"default=false"`
	// Return the log probabilities of the generated tokens, and this many of the likeliest tokens at each position.
	Logprobs *int64 `json:"logprobs" api:"[0..20]"`
	// Return the log probabilities of the prompt's tokens, and this many of the likeliest tokens at each position.
	// Refused with `stream`.
	PromptLogprobs *int64 `json:"prompt_logprobs" api:"[0..20]"`
	// Refused unless it equals `n`.
	BestOf *int64 `json:"best_of"`
	// The text after the gap that the model fills in, if its vocabulary has tokens for that. The prompt, which must be
	// text, is what comes before the gap. Empty means no gap.
	Suffix string `json:"suffix"`

	Reasoning         json.RawMessage `json:"reasoning" api:"#NotForPrompts" refuse:"use /v1/chat/completions"`
	ReasoningEffort   json.RawMessage `json:"reasoning_effort" api:"#NotForPrompts" refuse:"use /v1/chat/completions"`
	IncludeReasoning  json.RawMessage `json:"include_reasoning" api:"#NotForPrompts" refuse:"use /v1/chat/completions"`
	ReasoningBudget   json.RawMessage `json:"reasoning_budget" api:"#NotForPrompts" refuse:"use /v1/chat/completions"`
	ReasoningStrategy json.RawMessage `json:"reasoning_strategy" api:"#NotForPrompts" refuse:"use /v1/chat/completions"`
	ReasoningSeal     json.RawMessage `json:"reasoning_seal" api:"#NotForPrompts" refuse:"use /v1/chat/completions"`
	ReasoningEncrypt  json.RawMessage `json:"reasoning_encrypt" api:"#NotForPrompts" refuse:"use /v1/chat/completions"`
}

// Completion is the answer, and each frame of a stream. If a stream's request asks for the usage, it is in the last
// frame, which has no choices.
//
//openapi:answer CompletionChunk
type Completion struct {
	Head
	// The type of this object.
	Object string `json:"object" api:"=text_completion"`
	// What the chunk adds to a choice. Empty in the chunk with the usage.
	Choices []CompletionChoice `json:"choices" api:"[..1]"`
	// The token counts, in the last chunk, if `stream_options.include_usage` is true. The other chunks then have null.
	Usage **Usage `json:"usage,omitempty" api:"|null"`
	// What was not done as requested, and what was wrong with the model's output. Only in a choice's last chunk.
	Warnings []wire.Warning `json:"warnings,omitempty"`
	Timings  *Timings       `json:"timings,omitempty"`
}

// CompletionChoice is one continuation of a prompt. The n choices of prompt p have the indexes from p*n on.
//
//openapi:answer CompletionChoice
type CompletionChoice struct {
	// The text, or the next part of it in a stream.
	Text string `json:"text"`
	// The index of the choice.
	Index int `json:"index" api:"[0..]"`
	// The log probabilities, if requested.
	Logprobs *CompletionLogprobs `json:"logprobs"`
	// The log probabilities of the prompt's tokens, by token id, if `prompt_logprobs` is set. Null for a first token,
	// which has nothing before it.
	PromptLogprobs []map[string]PromptLogprob `json:"prompt_logprobs,omitempty" api:"[]{#PromptLogprob}?"`
	// Why the text ended. Null in a stream until the end.
	FinishReason *string `json:"finish_reason" api:"=stop,length|null"`
	FinishDetail string  `json:"finish_detail,omitempty" api:"#FinishDetail"`
	// What was wrong with this choice's output, if there are several choices.
	Warnings []wire.Warning `json:"warnings,omitempty"`
}

// CompletionLogprobs has the log probabilities of a text's tokens.
//
//openapi:answer CompletionLogprobs
type CompletionLogprobs struct {
	// The text's tokens. A token that is not UTF-8 is written like `bytes:\xe2\x80`.
	Tokens []string `json:"tokens"`
	// The natural logarithm of each token's probability, at least -9999. Null for the first token of an echoed prompt.
	TokenLogprobs []*float32 `json:"token_logprobs" api:"[]number?"`
	// The likeliest tokens at each position. Null where `token_logprobs` is null.
	TopLogprobs []map[string]float32 `json:"top_logprobs" api:"[]{number}?"`
	// Where each token begins in the text, in characters.
	TextOffset []int `json:"text_offset"`
}

// PromptLogprob is the log probability of a token in one place of a prompt.
//
//openapi:answer PromptLogprob
type PromptLogprob struct {
	// The natural logarithm of the token's probability, at least -9999.
	Logprob float32 `json:"logprob"`
	// The token's rank. The likeliest token has rank 1.
	Rank int `json:"rank" api:"[1..]"`
	// The token's text, written as in `tokens`.
	DecodedToken string `json:"decoded_token"`
}

// completionOrder is a decoded completion.
type completionOrder struct {
	order
	prompts []input
	special bool
	echo    bool
	// promptTop is the number of alternatives that prompt_logprobs asks for; negative if the request does not have it.
	promptTop int
	// texts are the prompts as text, if they are echoed.
	texts []string
	// gap has what follows the prompts if the model fills gaps; nil if not. gapParam is the field that asks for it.
	gap      *wire.Gap
	gapParam string
}

// readCompletion reads a principal's request, except for what needs the model.
func (a *API) readCompletion(p *wire.Principal, b *CompletionRequest) (*completionOrder, error) {
	if err := p.MayPromptRaw("prompt"); err != nil {
		return nil, err
	}
	d, err := a.order(p, &b.Options, completionNames)
	if err != nil {
		return nil, err
	}
	c := &completionOrder{order: *d, special: b.ParseSpecial, echo: b.Echo}
	if c.prompts, err = readInputs(b.Prompt, "prompt", maxPrompts); err != nil {
		return nil, err
	}
	if b.Suffix != "" {
		c.gap, c.gapParam = &wire.Gap{After: b.Suffix}, "suffix"
	}
	for _, p := range c.prompts {
		switch {
		case p.tokens != nil && c.gap != nil:
			return nil, wire.Invalid(p.path, "before a suffix it has to be text")
		case p.tokens == nil && p.text == "" && c.gap == nil:
			return nil, wire.Invalid(p.path, "it is empty")
		}
	}
	if len(c.prompts)*c.choices > maxPrompts {
		return nil, wire.Invalid("n", "%d prompts with %d choices each are more than %d", len(c.prompts), c.choices,
			maxPrompts)
	}
	c.req.MaxTokens = 16
	if c.req.PromptOnly = b.MaxTokens != nil && *b.MaxTokens == 0 && b.NPredict == nil; !c.req.PromptOnly {
		if err := b.limit("max_tokens", b.MaxTokens, &c.req.MaxTokens); err != nil {
			return nil, err
		}
	}
	if err := c.readLogprobs(b); err != nil {
		return nil, err
	}
	c.req.IgnoreEnd = b.IgnoreEOS
	switch {
	case b.BestOf != nil && *b.BestOf != int64(c.choices):
		return nil, wire.Unsupported("best_of", "only the %d choices that n asks for are made", c.choices)
	case b.IgnoreEOS && !c.req.Form.IsZero():
		return nil, wire.Unsupported("ignore_eos", "an answer that has to match a form ends where the form does")
	}
	c.req.MakeRaw() // the defaults about reasoning do not apply
	return c, nil
}

// readLogprobs reads the fields about log probabilities.
func (c *completionOrder) readLogprobs(b *CompletionRequest) error {
	c.promptTop = -1
	if b.Logprobs != nil {
		c.req.Logprobs, c.req.Sampling.TopLogprobs = true, int(*b.Logprobs)
		c.req.PromptLogprobs, c.req.PromptTop = b.Echo, c.req.Sampling.TopLogprobs
	}
	if b.PromptLogprobs != nil {
		if b.Stream {
			return wire.Unsupported("prompt_logprobs", "it does not go with stream; use echo with logprobs")
		}
		c.promptTop = int(*b.PromptLogprobs)
		c.req.PromptLogprobs, c.req.PromptTop = true, max(c.req.PromptTop, c.promptTop)
	}
	return nil
}

// bind does what needs the model: it gets the tokens around gaps and the texts of echoed prompts.
func (c *completionOrder) bind(ctx context.Context, m wire.Tokenizer) (err error) {
	c.texts = make([]string, len(c.prompts))
	for i := range c.prompts {
		p := &c.prompts[i]
		switch c.texts[i] = p.text; {
		case c.gap != nil:
			gap := *c.gap
			gap.Before = p.text
			if p.tokens, err = gap.Tokens(ctx, m, c.gapParam); err != nil {
				return err
			}
		case c.echo && p.tokens != nil:
			if c.texts[i], err = m.Detokenize(p.tokens); err != nil {
				return wire.FromError(err, map[string]string{generation.TokensField: p.path})
			}
		}
	}
	return nil
}

// runs returns a run for each choice of each prompt.
func (c *completionOrder) runs() []wire.Run {
	var all []wire.Run
	for i := range c.prompts {
		for _, run := range c.order.runs() {
			if req := &run.Request; c.prompts[i].tokens != nil {
				req.PromptTokens = c.prompts[i].tokens
			} else {
				req.Prompt, req.PromptSpecial = c.prompts[i].text, c.special
			}
			all = append(all, run)
		}
	}
	return all
}

// prefix returns the text before a choice.
func (c *completionOrder) prefix(choice int) string {
	if !c.echo {
		return ""
	}
	return c.texts[choice/c.choices]
}

// complete handles POST /v1/completions.
func (a *API) complete(w http.ResponseWriter, r *http.Request) error {
	c, m, err := take(a, r, a.readCompletion)
	if err != nil {
		return err
	}
	defer m.Release()
	if err := c.bind(r.Context(), m); err != nil {
		return err
	}
	h := a.head("cmpl-", m)
	return a.respond(w, r, m, &c.order, c.runs(),
		func(send func(any) error) reply { return c.reply(h, send) })
}
