package openai

import (
	"math"
	"strconv"
	"unicode/utf8"

	"runner/reasoning"
	"runner/server/wire"
)

// tokenName returns a token's name in completions: its text, or its bytes if they are not UTF-8.
func tokenName(token string) string {
	if utf8.ValidString(token) {
		return token
	}
	return string(appendTokenBytes([]byte("bytes:"), token))
}

const hexDigits = "0123456789abcdef"

func appendTokenBytes(dst []byte, token string) []byte {
	for i := range len(token) {
		dst = append(dst, '\\', 'x', hexDigits[token[i]>>4], hexDigits[token[i]&15])
	}
	return dst
}

// completionLogprobs returns the log probabilities of a whole choice, with at most top alternatives for each token.
func completionLogprobs(list []reasoning.TokenLogprobs, top int) *CompletionLogprobs {
	l := &CompletionLogprobs{Tokens: []string{}, TokenLogprobs: []*float32{}, TopLogprobs: []map[string]float32{},
		TextOffset: []int{}}
	var at offset
	for i := range list {
		t := &list[i]
		l.Tokens = append(l.Tokens, tokenName(t.Text))
		l.TextOffset = append(l.TextOffset, at.next(t.Text))
		if unknown(t) {
			l.TokenLogprobs, l.TopLogprobs = append(l.TokenLogprobs, nil), append(l.TopLogprobs, nil)
			continue
		}
		p := wire.Logprob(t.Logprob)
		l.TokenLogprobs = append(l.TokenLogprobs, &p)
		l.TopLogprobs = append(l.TopLogprobs, topLogprobs(t, top))
	}
	return l
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

// completionEncoder turns the events of one choice into frames of a completion, under the rules of [ChunkEncoder].
type completionEncoder struct {
	frames
	choice int
	prefix string
	// scored says that the prefix waits for the log probabilities of its tokens. top is the number of alternatives
	// of each.
	scored bool
	top    int
	about  []Warning
	// several says that there are several choices.
	several bool
	at      offset
}

func newCompletionEncoder(h head, c *completionOrder, choice int, send func(frame []byte) error) *completionEncoder {
	e := &completionEncoder{choice: choice, prefix: c.prefix(choice), scored: c.req.PromptLogprobs,
		top: c.req.Sampling.TopLogprobs, several: len(c.prompts)*c.choices > 1}
	if choice == 0 {
		e.about = c.warnings
	}
	e.send, e.usage = send, c.usage
	e.buf = append(h.append(nil), `{"index":`...)
	e.buf = append(strconv.AppendInt(e.buf, int64(choice), 10), `,"text":`...)
	e.fixed = len(e.buf)
	return e
}

// Push takes the next event. It returns the errors of send.
func (c *completionEncoder) Push(e reasoning.Event) error {
	switch {
	case e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.Answer:
		return c.text(e.Text, e.Logprobs)
	case e.Kind == reasoning.Started && c.prefix != "" && !c.scored:
		return c.text(c.prefix, nil)
	case e.Kind == reasoning.PromptScored && c.scored:
		return c.text(c.prefix, e.Logprobs)
	case e.Kind == reasoning.Done:
		c.note(&e)
		return c.finish()
	}
	c.note(&e)
	return nil
}

// text sends a part of the text.
func (c *completionEncoder) text(text string, list []reasoning.TokenLogprobs) error {
	c.open("")
	c.buf = wire.AppendString(c.buf, text)
	c.buf = append(c.buf, `,"logprobs":`...)
	if len(list) > 0 {
		c.appendLogprobs(list)
	} else {
		c.buf = append(c.buf, "null"...)
	}
	c.buf = append(c.buf, `,"finish_reason":null}`...)
	return c.close()
}

// appendLogprobs appends the result of completionLogprobs as JSON.
func (c *completionEncoder) appendLogprobs(list []reasoning.TokenLogprobs) {
	b := append(c.buf, `{"tokens":[`...)
	for i := range list {
		b = appendName(comma(b, i), list[i].Text)
	}
	b = append(b, `],"token_logprobs":[`...)
	for i := range list {
		if b = comma(b, i); unknown(&list[i]) {
			b = append(b, "null"...)
		} else {
			b = wire.AppendLogprob(b, list[i].Logprob)
		}
	}
	b = append(b, `],"top_logprobs":[`...)
	for i := range list {
		b = c.appendTop(comma(b, i), &list[i])
	}
	b = append(b, `],"text_offset":[`...)
	for i := range list {
		b = strconv.AppendInt(comma(b, i), int64(c.at.next(list[i].Text)), 10)
	}
	c.buf = append(b, "]}"...)
}

// appendTop appends the result of topLogprobs as JSON.
func (c *completionEncoder) appendTop(b []byte, t *reasoning.TokenLogprobs) []byte {
	if unknown(t) {
		return append(b, "null"...)
	}
	b = append(b, '{')
	n, top := 0, t.Top[:min(c.top, len(t.Top))]
	for j, a := range top {
		if named(top[:j], a.Text) {
			continue
		}
		b = append(appendName(comma(b, n), a.Text), ':')
		b = wire.AppendLogprob(b, a.Logprob)
		n++
	}
	if !named(top, t.Text) {
		b = append(appendName(comma(b, n), t.Text), ':')
		b = wire.AppendLogprob(b, t.Logprob)
	}
	return append(b, '}')
}

// named reports whether a list has a token with the same text.
func named(list []reasoning.Alternative, text string) bool {
	for i := range list {
		if list[i].Text == text {
			return true
		}
	}
	return false
}

func comma(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return dst
}

// appendName appends tokenName as a JSON string.
func appendName(dst []byte, token string) []byte {
	if utf8.ValidString(token) {
		return wire.AppendString(dst, token)
	}
	dst = append(dst, `"bytes:`...)
	for i := range len(token) {
		dst = append(dst, '\\', '\\', 'x', hexDigits[token[i]>>4], hexDigits[token[i]&15])
	}
	return append(dst, '"')
}

// finish sends the choice's last frame.
func (c *completionEncoder) finish() error {
	c.open(`"","logprobs":null,"finish_reason":`)
	c.buf = wire.AppendString(c.buf, finishOf(c.result, false))
	if c.result.Detail != "" {
		c.buf = append(c.buf, `,"finish_detail":`...)
		c.buf = wire.AppendString(c.buf, c.result.Detail)
	}
	own := warningsOf(c.notices)
	x := extrasOf(&c.info, c.result, c.about, nil)
	if x.ReasoningInfo = nil; !c.several {
		x.Warnings = append(x.Warnings, own...)
	} else if len(own) > 0 {
		c.buf = append(append(c.buf, `,"warnings":`...), appendJSON(nil, own)...)
	}
	c.buf = append(c.buf, '}')
	return c.closeWith(appendJSON(nil, x))
}
