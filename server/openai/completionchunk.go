package openai

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"runner/reasoning"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// tokenName returns a token's name in completions: its text, or its bytes if they are not UTF-8.
func tokenName(token string) string {
	if utf8.ValidString(token) {
		return token
	}
	name := "bytes:"
	for i := range len(token) {
		name += fmt.Sprintf(`\x%02x`, token[i])
	}
	return name
}

// unknown reports whether a token has no log probability because it is the first one.
func unknown(t *reasoning.TokenLogprobs) bool { return math.IsNaN(float64(t.Logprob)) }

// topLogprobs returns the most likely tokens for a place, and the token in that place, by their names.
func topLogprobs(t *reasoning.TokenLogprobs, top int) map[string]float32 {
	m := make(map[string]float32, len(t.Top)+1)
	for _, a := range t.Top[:min(top, len(t.Top))] {
		if name := tokenName(a.Text); !has(m, name) {
			m[name] = wire.Logprob(a.Logprob)
		}
	}
	if name := tokenName(t.Text); !has(m, name) {
		m[name] = wire.Logprob(t.Logprob)
	}
	return m
}

// promptLogprobs returns the log probabilities of a prompt's tokens, with at most top alternatives for each, by
// token id.
func promptLogprobs(list []reasoning.TokenLogprobs, top int) []map[string]PromptLogprob {
	out := make([]map[string]PromptLogprob, len(list))
	for i := range list {
		t := &list[i]
		if unknown(t) {
			continue
		}
		m := make(map[string]PromptLogprob, top+1)
		for rank, a := range t.Top[:min(top, len(t.Top))] {
			m[strconv.Itoa(int(a.Token))] = PromptLogprob{wire.Logprob(a.Logprob), rank + 1, tokenName(a.Text)}
		}
		m[strconv.Itoa(int(t.Token))] = PromptLogprob{wire.Logprob(t.Logprob), t.Rank, tokenName(t.Text)}
		out[i] = m
	}
	return out
}

func has(m map[string]float32, name string) bool {
	_, ok := m[name]
	return ok
}

// offset counts the characters of a text whose tokens may end within a character.
type offset struct{ chars int }

// next returns the offset of a token and moves past it. A character counts at its first byte.
func (o *offset) next(token string) int {
	at := o.chars
	for i := range len(token) {
		if utf8.RuneStart(token[i]) {
			o.chars++
		}
	}
	return at
}

// completionReply is an answer of POST /v1/completions as it grows.
type completionReply struct {
	order   *completionOrder
	choices []completionChoice
}

// completionChoice is one choice of an answer as it grows. If the answer is streamed, each addition is sent as a chunk
// and not kept.
type completionChoice struct {
	contract.Ending
	order *completionOrder
	at    offset
	// send gets the chunks; nil if the answer is not streamed. A chunk is valid until send returns.
	send  func(chunk any) error
	chunk Completion

	// The text and the tokens of an answer that is not streamed.
	text   strings.Builder
	tokens []reasoning.TokenLogprobs
}

// reply returns a new answer, under the rules of [chatOrder.reply].
func (c *completionOrder) reply(h Head, send func(chunk any) error) reply {
	a := &completionReply{order: c, choices: make([]completionChoice, len(c.prompts)*c.choices)}
	for i := range a.choices {
		to := &a.choices[i]
		to.order, to.send = c, send
		to.chunk = Completion{Head: h, Object: "text_completion", Choices: []CompletionChoice{{Index: i}}}
		if c.usage {
			to.chunk.Usage = new(*Usage)
		}
	}
	return a
}

// usage adds up the usage of all choices. It counts each prompt once.
func (r *completionReply) usage() *Usage {
	var total Usage
	n := r.order.choices
	for prompt := range slices.Chunk(r.choices, n) {
		results := make([]*reasoning.Result, n)
		for i := range prompt {
			results[i] = prompt[i].Result
		}
		u := usageOf(results)
		total.PromptTokens += u.PromptTokens
		total.CompletionTokens += u.CompletionTokens
		total.TotalTokens += u.TotalTokens
		total.PromptTokensDetails.CachedTokens += u.PromptTokensDetails.CachedTokens
	}
	return &total
}

func (r *completionReply) last() any {
	c := r.choices[0].chunk
	c.Choices, c.Usage, c.Warnings, c.Timings = []CompletionChoice{}, new(r.usage()), nil, nil
	return &c
}

func (r *completionReply) complete() any {
	c := r.choices[0].chunk
	c.Choices, c.Usage = nil, new(r.usage())
	for i := range r.choices {
		c.Choices = append(c.Choices, r.choices[i].chunk.Choices[0])
	}
	return &c
}

func (r *completionReply) push(choice int, e *reasoning.Event) error {
	c := &r.choices[choice]
	prefix, scored := r.order.prefix(choice), r.order.echo && r.order.req.Logprobs
	switch {
	case e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.Answer:
		return c.say(e.Text, e.Logprobs)
	case e.Kind == reasoning.PromptScored:
		if r.order.promptTop >= 0 {
			c.chunk.Choices[0].PromptLogprobs = promptLogprobs(e.Logprobs, r.order.promptTop)
		}
		if scored {
			return c.say(prefix, e.Logprobs)
		}
		return nil
	}
	c.Note(e)
	switch {
	case e.Kind == reasoning.Started && prefix != "" && !scored:
		return c.say(prefix, nil)
	case e.Kind == reasoning.Done:
		return c.end()
	}
	return nil
}

// say adds a piece of the text.
func (c *completionChoice) say(text string, tokens []reasoning.TokenLogprobs) error {
	if c.send == nil {
		c.text.WriteString(text)
		c.tokens = append(c.tokens, tokens...)
		return nil
	}
	to := &c.chunk.Choices[0]
	to.Text, to.Logprobs = text, c.logprobs(tokens)
	return c.send(&c.chunk)
}

// logprobs returns the log probabilities of the next tokens of the text; nil if there are none.
func (c *completionChoice) logprobs(tokens []reasoning.TokenLogprobs) *CompletionLogprobs {
	if len(tokens) == 0 {
		return nil
	}
	l := &CompletionLogprobs{}
	for i := range tokens {
		t := &tokens[i]
		l.Tokens = append(l.Tokens, tokenName(t.Text))
		l.TextOffset = append(l.TextOffset, c.at.next(t.Text))
		if unknown(t) {
			l.TokenLogprobs, l.TopLogprobs = append(l.TokenLogprobs, nil), append(l.TopLogprobs, nil)
			continue
		}
		l.TokenLogprobs = append(l.TokenLogprobs, new(wire.Logprob(t.Logprob)))
		l.TopLogprobs = append(l.TopLogprobs, topLogprobs(t, c.order.req.Sampling.TopLogprobs))
	}
	return l
}

// end ends the choice and sends its last chunk.
func (c *completionChoice) end() error {
	to := &c.chunk.Choices[0]
	own, x := c.order.remarks(&c.Ending, to.Index, len(c.order.prompts)*c.order.choices > 1)
	to.Text, to.Logprobs = c.text.String(), c.logprobs(c.tokens)
	to.FinishReason, to.FinishDetail, to.Warnings = new(finishOf(c.Result, false)), c.Result.Detail, own.Warnings
	c.chunk.Warnings, c.chunk.Timings = x.Warnings, x.Timings
	if c.send == nil {
		return nil
	}
	return c.send(&c.chunk)
}
