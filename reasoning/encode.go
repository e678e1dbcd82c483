package reasoning

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"runner/backend"
)

// The JSON form of an event is one object on one line; a stream of events is JSON lines. Fields without a value are
// omitted:
//
//	type       started, segment_start, segment_delta, segment_end, warning, strategy_switched, decision, assumption,
//	           curated, delegation_start, delegation_end, instructed, prompt_scored, sealed, summary_settled, done
//	segment    reasoning, summary, preamble, tool_call, answer; with the segment types
//	text       a delta's text, a warning's message, the reason of a switch, what was kept from the model, an
//	           instruction, a sealed value
//	code       a warning's code, what was done to the prompt, an instruction's label
//	specialist the id of the delegation that a segment was written in
//	delegation {id, by, prompt_length, shown, steps, outcome}; with the delegation types
//	call       {index, id, name}; with segment tool_call and with a decision
//	logprobs   [{token, text, bytes, logprob, rank, top}], top without rank and top; bytes only if text is not valid
//	           UTF-8
//	info       {model, visibility, effort, strategy, seed, budget, prompt_tokens, iteration}
//	result     {finish, detail, stop_string, reasoning_unavailable, score, specialist, trace, rationale,
//	           summary_source, usage, timing}
//	rationale  {stated, missing}
//	decision   {iteration, decision, toolName, rationale}, where rationale is
//	           {why, refs, alternatives: [{option, rejectedBecause}], confidence}
//	assumption {assumption, because}
//	usage      {prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, summary_tokens, answer_tokens}
//	timing     {queue_ms, prefill_ms, first_token_ms, first_answer_ms, decode_ms}
//
// A log probability of minus infinity is null. Fields may be added. Existing fields keep their names and meanings.
type wireEvent struct {
	Type     Kind           `json:"type"`
	Segment  *Segment       `json:"segment,omitempty"`
	Text     string         `json:"text,omitempty"`
	Code     string         `json:"code,omitempty"`
	Call     *Call          `json:"call,omitempty"`
	Logprobs []wireLogprobs `json:"logprobs,omitempty"`
	Info     *Info          `json:"info,omitempty"`
	Result   *Result        `json:"result,omitempty"`

	Decision   *Decision   `json:"decision,omitempty"`
	Assumption *Assumption `json:"assumption,omitempty"`
	Specialist string      `json:"specialist,omitempty"`
	Delegation *Delegation `json:"delegation,omitempty"`
}

type wireLogprobs struct {
	Token   backend.Token  `json:"token"`
	Text    string         `json:"text"`
	Bytes   []int          `json:"bytes,omitempty"`
	Logprob *float32       `json:"logprob"`
	Rank    int            `json:"rank,omitempty"`
	Top     []wireLogprobs `json:"top,omitempty"`
}

type wireTiming struct {
	Queue       millis `json:"queue_ms"`
	Prefill     millis `json:"prefill_ms"`
	FirstToken  millis `json:"first_token_ms"`
	FirstAnswer millis `json:"first_answer_ms"`
	Decode      millis `json:"decode_ms"`
}

// millis is a duration in JSON: milliseconds, with a fraction.
type millis time.Duration

func (m millis) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(m) / float64(time.Millisecond))
}

func (m *millis) UnmarshalJSON(b []byte) error {
	var f float64
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	f = math.Round(f * float64(time.Millisecond))
	if math.Abs(f) >= math.MaxInt64 {
		return fmt.Errorf("duration of %g ns is out of range", f)
	}
	*m = millis(f)
	return nil
}

// MarshalJSON writes the durations, and not the counts.
func (t Timing) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireTiming{
		millis(t.Queue), millis(t.Prefill), millis(t.FirstToken), millis(t.FirstAnswer), millis(t.Decode),
	})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Timing) UnmarshalJSON(b []byte) error {
	var w wireTiming
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*t = Timing{
		Queue: time.Duration(w.Queue), Prefill: time.Duration(w.Prefill), FirstToken: time.Duration(w.FirstToken),
		FirstAnswer: time.Duration(w.FirstAnswer), Decode: time.Duration(w.Decode),
	}
	return nil
}

// MarshalJSON writes the event as one JSON object.
func (e Event) MarshalJSON() ([]byte, error) {
	w := wireEvent{
		Type: e.Kind, Text: e.Text, Code: e.Code, Specialist: e.Specialist, Info: e.Info, Result: e.Result,
		Decision: e.Decision, Assumption: e.Assumption, Delegation: e.Delegation,
	}
	switch e.Kind {
	case SegmentStart, SegmentDelta, SegmentEnd:
		w.Segment = &e.Segment
	}
	if e.Call != (Call{}) || e.Kind == Decided || w.Segment != nil && e.Segment == ToolCall {
		w.Call = &e.Call
	}
	for _, l := range e.Logprobs {
		x := toWire(l.TokenLogprob, l.Text)
		x.Rank = l.Rank
		for _, a := range l.Top {
			x.Top = append(x.Top, toWire(a.TokenLogprob, a.Text))
		}
		w.Logprobs = append(w.Logprobs, x)
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON writes. Unknown fields are ignored.
func (e *Event) UnmarshalJSON(b []byte) error {
	var w wireEvent
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*e = Event{
		Kind: w.Type, Text: w.Text, Code: w.Code, Specialist: w.Specialist, Info: w.Info, Result: w.Result,
		Decision: w.Decision, Assumption: w.Assumption, Delegation: w.Delegation,
	}
	if w.Segment != nil {
		e.Segment = *w.Segment
	}
	if w.Call != nil {
		e.Call = *w.Call
	}
	for i := range w.Logprobs {
		l := &w.Logprobs[i]
		x := TokenLogprobs{TokenLogprob: l.value(), Text: l.text(), Rank: l.Rank}
		for j := range l.Top {
			x.Top = append(x.Top, Alternative{TokenLogprob: l.Top[j].value(), Text: l.Top[j].text()})
		}
		e.Logprobs = append(e.Logprobs, x)
	}
	return nil
}

func toWire(p backend.TokenLogprob, text string) wireLogprobs {
	w := wireLogprobs{Token: p.Token, Text: text}
	if !math.IsInf(float64(p.Logprob), 0) && !math.IsNaN(float64(p.Logprob)) {
		w.Logprob = &p.Logprob
	}
	if !utf8.ValidString(text) {
		for _, b := range []byte(text) {
			w.Bytes = append(w.Bytes, int(b))
		}
	}
	return w
}

func (w *wireLogprobs) value() backend.TokenLogprob {
	p := backend.TokenLogprob{Token: w.Token, Logprob: float32(math.Inf(-1))}
	if w.Logprob != nil {
		p.Logprob = *w.Logprob
	}
	return p
}

func (w *wireLogprobs) text() string {
	if w.Bytes == nil {
		return w.Text
	}
	b := make([]byte, len(w.Bytes))
	for i, x := range w.Bytes {
		b[i] = byte(x)
	}
	return string(b)
}
