package reader

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"runner/backend"
	"runner/chattemplate"
	"runner/reasoning"
)

// Config says how a model's output is read. Vocab and Emit are required.
type Config struct {
	// Vocab is the model's vocabulary.
	Vocab *backend.Vocab
	// Start says where in the turn the prompt ends.
	Start chattemplate.Start
	// Emit receives the events. It is called during Push and Finish, on the caller's goroutine.
	Emit func(reasoning.Event)
	// Tools names the functions of the request. A call of another function causes a warning, unless Tools is nil. If
	// Tools is empty, a family that writes calls in text leaves them in the answer.
	Tools []string
	// StringParam reports whether a function's parameter is a string. In some styles of calls, "5" can be a string or a
	// number. If StringParam is nil, an argument that is valid JSON is taken as JSON.
	StringParam func(function, parameter string) bool
	// Opens is asked whether a call begins in the text of an answer. text is what has come after the call's opening
	// mark, or all of the call if there is no mark. If Opens returns false, the text belongs to the answer. With Opens,
	// only calls in the model's own style are read. If it is nil, every such text is a call.
	Opens func(text string) bool
	// CallID returns the id of a run's call by its index. If it is nil, ids are empty.
	CallID func(index int) string
	// Inner reports whether calls of a function are not shown to the caller; nil means that all are shown. A preamble that
	// is held back is not shown for the sake of such a call.
	Inner func(function string) bool
	// Markers makes the reader look for the markers of strategy markers in all text that is not reasoning, and in the
	// arguments of calls.
	Markers bool
	// JSON makes the reader expect the object of strategy json as the answer, and split it into reasoning and answer. An
	// answer that is not such an object is read as if JSON were nil. A preamble that is such an object is split too.
	JSON *JSONConfig
	// Report makes calls of ReportReasoningName reasoning (strategy tool). The function need not be in Tools.
	Report bool
	// Formed says that the answer must match a form. Once such an answer has begun, markers in it are text and no call
	// begins. It begins with its first text, or earlier with BeginAnswer. Without Opens there are no calls at all.
	Formed bool
	// Held says that the answer is held to a form, or must be a call. A family whose marks may be spelled out then takes
	// a closing mark of the reasoning without looking at what follows.
	Held bool
	// Unbroken says that the request keeps the model from ending lines. A mark inside a line then opens reasoning, too,
	// because the model has no other place for it.
	Unbroken bool
	// Thinks says that the model was made to reason, but that nothing makes it write the mark that opens its reasoning.
	// Text at the beginning of the turn is held, up to 2,048 bytes: if a closing mark follows, it was reasoning. So it was
	// if the output is cut off before that is known.
	Thinks bool
	// Rationales makes the reader send an event Decided after the end of each call that has a member "rationale" next to
	// its arguments. The event has only Call and the rationale. Its Decision is nil if the rationale cannot be read.
	Rationales bool
	// Separator goes before the text of a segment if the turn already had a segment of this kind, so that concatenated
	// texts stay apart. It counts as text of the segment.
	Separator string
	// Logprobs attaches the tokens given to PushOutput to the answer's deltas.
	Logprobs bool
}

// Reader takes generated tokens, one at a time, and sends the events SegmentStart, SegmentDelta, SegmentEnd and
// Warning.
//
// Malformed output is read as what it most likely means. No text is lost, except for the beginning of a marker where
// the output is cut off. White space between messages and newlines next to a marker of the reasoning belong to the
// format. Text that may still become a marker is held back. The text of a delta is a piece of the vocabulary if
// possible, so that pushing a token allocates nothing.
//
// A Reader is not safe for concurrent use.
type Reader interface {
	// Push takes the next token.
	Push(t backend.Token)
	// Force is Push for a token that the model did not write. A mark of such tokens always counts.
	Force(t backend.Token)
	// PushOutput is Push for a token with the log probabilities of the step that sampled it. out may be nil. The reader
	// does not keep it.
	PushOutput(t backend.Token, out *backend.Output)
	// BeginAnswer says that the next token belongs to an answer that must match a form, so that newlines and markers in
	// it are text. Outside of an answer and without Formed it does nothing.
	BeginAnswer()
	// Finish ends the output. It sends the text that was held back and closes the open segment. If no token has ended the
	// turn, the output was cut off, and text that may be the beginning of a marker is left out. Later tokens are ignored.
	Finish()
	// State returns the place of the next token.
	State() State
	// CloseReasoning returns the text that would end the reasoning in the object of strategy json and open its answer,
	// or that would end the arguments of report_reasoning. It returns false outside of such reasoning. It also returns
	// false in the middle of a character or an escape; then a later token leads to a place with such a text.
	CloseReasoning() (text string, ok bool)
	// Score returns the last score in an object of strategy json or in a call of report_reasoning, and whether there was
	// one.
	Score() (float64, bool)
}

// Parser is the family's part of a reader. It finds the marks of the format in the tokens.
type Parser interface {
	// Read takes a token. out has its log probabilities and may be nil.
	Read(t backend.Token, out *backend.Output)
	// End ends the output as Finish does.
	End()
	// State implements Reader.
	State() State
}

// Core is what the readers of all families share. It must be prepared with Init.
type Core struct {
	Cfg    Config
	parser Parser
	// Out receives the text of segments, and Object reads the objects of the strategies json and tool.
	Out    Sink
	Object Object
	// Shown is the segment of the text that the format's reader is in and that is not reasoning: Answer, or Preamble.
	Shown  reasoning.Segment
	score  float64
	scored bool
	pos    int // the number of tokens pushed
	calls  int
	warned []string
	// Ended says that the last token ended the turn. Forced says that the current token comes from Force.
	Ended, Forced bool
	done          bool // Finish was called
}

// Place is the kind of place where a token stands in a turn. What may come next depends on it.
type Place uint8

// The places. PlaceNone is before a turn.
const (
	PlaceNone Place = iota
	// PlaceHeader is between messages and in their headers, in formats that have messages.
	PlaceHeader
	PlaceReasoning
	PlacePreamble
	// PlaceCall is in a call, with its marks.
	PlaceCall
	// PlaceAnswer is in an answer or in the object of strategy json.
	PlaceAnswer
)

// State describes the place of the next token.
type State struct {
	// Place is the place of the next token.
	Place Place
	// Marked says that the text is reasoning between the markers of strategy markers. In a call's arguments the place and
	// the segment are those of the call.
	Marked bool
	// Segment is the segment of the next token. It is Header in a header and between messages. In a preamble that is held
	// back until it is known whether a call follows, it is Reasoning and the place is PlacePreamble.
	Segment reasoning.Segment
	// Call is the call that the next token belongs to.
	Call reasoning.Call
	// InObject says that the text is read as the object of strategy json or as a call of report_reasoning.
	//
	// An expected object begins before its first brace and ends with its last one. Inside it Segment is Reasoning or
	// Answer in the middle of such a value, and Header between values and at a quote that may end a string. A call ends
	// with its message or its closing tag. Its Segment is Reasoning from its header to its end.
	InObject bool
	// Reported says that report_reasoning was called and that no segment has begun since. The call waits for its result.
	Reported bool
	// Steering says that the next token may belong to the format and not be text of Segment. That is the case in a
	// header, in a call outside of its arguments' values, and at the beginning of a turn, where reasoning may still open.
	Steering bool
	// Early says that the next token belongs to text at the beginning of a turn that may turn out to be reasoning, see
	// Config.Thinks.
	Early bool
	// Ended says that the last token ended the turn.
	Ended bool
}

// Init prepares for a turn. It fails if cfg lacks Vocab or Emit. The core must not be copied afterwards.
func (s *Core) Init(cfg Config, parser Parser) error {
	if cfg.Vocab == nil || cfg.Emit == nil {
		return errors.New("a reader needs a vocabulary and a receiver of events")
	}
	s.Cfg, s.parser, s.Shown = cfg, parser, reasoning.Answer
	s.Out = Sink{Emit: cfg.Emit, separator: cfg.Separator, arguments: arguments{on: cfg.Markers}}
	s.Out.Ledger.On = cfg.Logprobs
	s.Object.s = s
	switch {
	case cfg.JSON != nil:
		s.Out.Origin = origin{chosen: reasoning.StrategyJSON, now: reasoning.StrategyJSON}
	case cfg.Report:
		s.Out.Origin = origin{chosen: reasoning.StrategyTool, now: reasoning.StrategyTool}
	}
	return nil
}

// Push implements Reader.
func (s *Core) Push(t backend.Token) { s.PushOutput(t, nil) }

// Force implements Reader.
func (s *Core) Force(t backend.Token) {
	s.Forced = true
	s.PushOutput(t, nil)
	s.Forced = false
}

// PushOutput implements Reader.
func (s *Core) PushOutput(t backend.Token, out *backend.Output) {
	if s.done {
		return
	}
	s.Ended = false
	s.parser.Read(t, out)
	s.pos++
}

// Finish implements Reader.
func (s *Core) Finish() {
	if !s.done {
		s.Out.cut = !s.Ended
		s.parser.End()
		s.Out.Origin.Finish(s.Out.Emit)
		s.done = true
	}
}

// CloseReasoning implements Reader.
func (s *Core) CloseReasoning() (text string, ok bool) {
	if !s.parser.State().InObject {
		return "", false
	}
	return s.Object.Closing()
}

// Score implements Reader.
func (s *Core) Score() (float64, bool) { return s.score, s.scored }

// Warn sends the warning with a code, once a turn.
func (s *Core) Warn(code string) {
	if slices.Contains(s.warned, code) {
		return
	}
	s.warned = append(s.warned, code)
	s.Out.Emit(reasoning.Event{Kind: reasoning.Warning, Code: code,
		Text: fmt.Sprintf("%s (token %d)", messages[code], s.pos)})
}

// Rationale sends the reason for the last call, if object has one.
func (s *Core) Rationale(object []byte) {
	var of struct {
		Rationale json.RawMessage `json:"rationale"`
	}
	if !s.Cfg.Rationales || json.Unmarshal(object, &of) != nil || of.Rationale == nil {
		return
	}
	e := reasoning.Event{Kind: reasoning.Decided, Call: reasoning.Call{Index: s.calls - 1}}
	if r, ok := reasoning.ParseRationale(of.Rationale); ok {
		e.Decision = &reasoning.Decision{Rationale: r}
	}
	s.Out.Emit(e)
}

// Call returns the next call, with its index and its id.
func (s *Core) Call(name string) reasoning.Call {
	c := reasoning.Call{Index: s.calls, Name: name}
	if s.Cfg.CallID != nil {
		c.ID = s.Cfg.CallID(c.Index)
	}
	s.calls++
	return c
}

// EndReport ends a call of report_reasoning.
func (s *Core) EndReport() {
	s.Object.Finish()
	s.Out.Reported = true
}

// IsSpace reports whether c is white space in JSON and in headers.
func IsSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
