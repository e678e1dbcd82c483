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

// Config says how a model's output is taken apart. Vocab and Emit are required.
type Config struct {
	// Vocab is the model's vocabulary.
	Vocab *backend.Vocab
	// Start says where in the turn the prompt ends.
	Start chattemplate.Start
	// Emit receives the events. It is called during Push and Finish, on the caller's goroutine.
	Emit func(reasoning.Event)
	// Tools names the functions of the request. With any, families other than harmony have their tool calls taken
	// out of the answer, and a call of another function is warned about. Nil warns about none.
	Tools []string
	// StringParam reports whether a function's parameter is a string. Some families write arguments one by one,
	// without a sign of whether "5" is a string or a number. With nil, what is JSON is taken as JSON.
	StringParam func(function, parameter string) bool
	// Opens is asked when a call begins in the text of an answer, with what follows its opening mark as far as it
	// has come, or with all of the call's text where there is no mark; if it says no, the text is the answer's.
	// With it calls are read only as the model's family writes them. Nil stands for yes.
	Opens func(text string) bool
	// CallID gives the id of a run's call by its index; nil leaves ids empty.
	CallID func(index int) string
	// Markers looks for the markers of strategy markers in the answer too.
	Markers bool
	// JSON expects every answer to be the object of strategy json, and makes its members reasoning and answer. An
	// answer that turns out not to be it is read as if JSON were nil. Nil expects none.
	JSON *JSONConfig
	// Report makes calls of ReportReasoningName reasoning (strategy tool). It needs no entry in Tools.
	Report bool
	// Formed says that the answer is held to a form: once it has begun, a marker in it is text and calls do not
	// begin. With its first text it begins, or before, with Begin. Without Opens there are no calls at all.
	Formed bool
	// Rationales sends an event Decided, with no more than Call and the rationale, for each call with a member
	// "rationale" beside its arguments; Decision is nil if it cannot be read. It follows the call's end.
	Rationales bool
	// Separator is put before the text of every later segment of a kind that had one already in this turn, so that
	// concatenated texts do not run into each other. It counts as the segment's text.
	Separator string
	// Logprobs attaches the tokens given to PushOutput to the answer's deltas.
	Logprobs bool
}

// Reader takes generated tokens, one at a time, and sends the events SegmentStart, SegmentDelta, SegmentEnd and
// Warning.
//
// Every malformed output is read for what it most likely means, and no text is lost. White space between messages and
// newlines next to a marker of the reasoning belong to the format. What may still become a marker is held back. The
// text of a delta is a piece of the vocabulary wherever possible, so that pushing a token allocates nothing.
//
// A Reader is not safe for use by several goroutines at once.
type Reader interface {
	// Push takes the next token.
	Push(t backend.Token)
	// PushOutput is Push for a token with the log probabilities of the step that sampled it. out may be nil and is
	// not kept.
	PushOutput(t backend.Token, out *backend.Output)
	// BeginAnswer says that the next token belongs to the answer that is held to a form: newlines and markers in its text
	// are the answer's own. Elsewhere, and without Formed, it does nothing.
	BeginAnswer()
	// Finish ends the output: it sends what was held back and closes what is open. Tokens pushed later are ignored.
	Finish()
	// State returns where the next token stands.
	State() State
	// CloseReasoning returns the text that, coming next, would end the reasoning in the object of strategy json and
	// open its answer, or end the arguments of report_reasoning. It reports false outside such a string, and in the
	// middle of a character or an escape, where the next token or one soon after it leads to a place with such a text.
	CloseReasoning() (text string, ok bool)
	// Score returns the last score of an object of strategy json or of a call of report_reasoning, and whether there
	// was one.
	Score() (float64, bool)
}

// Core is what the readers of all families share: the stream of events, the reader of objects and the warnings.
type Core struct {
	Cfg    Config
	Out    Sink
	Object Object
	score  float64
	scored bool
	Pos    int // tokens pushed
	calls  int
	warned []string
	Ended  bool
	Done   bool
}

// Place is where in a turn a token stands, as far as it matters for what may come.
type Place uint8

// The places. PlaceNone is before a turn.
const (
	PlaceNone Place = iota
	// PlaceHeader is between the messages of formats that have some, and in their headers.
	PlaceHeader
	PlaceReasoning
	PlacePreamble
	// PlaceCall is a call, with the marks that belong to it.
	PlaceCall
	// PlaceAnswer is an answer, and the object of strategy json.
	PlaceAnswer
)

// State says where the next token stands.
type State struct {
	// Place is the place of the next token.
	Place Place
	// Marked says that the text is reasoning between the markers of strategy markers.
	Marked bool
	// Segment is the segment that the next token belongs to; Header inside a header and between messages.
	Segment reasoning.Segment
	// Call is the call that the next token is part of.
	Call reasoning.Call
	// Role, Channel, Recipient and ContentType are what the harmony message's header says, without "<|constrain|>".
	Role, Channel, Recipient, ContentType string
	// InObject says that the text is read as the object of strategy json, or as the call of report_reasoning. It
	// begins before the first brace of an object that is expected; an object ends with its last brace, a call with
	// its message or its closing tag. Inside an object Segment is Reasoning or Answer in the middle of a value that
	// is one, and Header between values, a quote that may end a string included. A call is Reasoning from its
	// header to its end.
	InObject bool
	// Reported says that report_reasoning was called and that no segment has begun since: the call waits for its result.
	Reported bool
	// Steering says that the next token may be part of what steers the format instead of text of Segment: a header,
	// the name of a call or what stands between its arguments, or the beginning of a turn, where reasoning may still
	// be opened.
	Steering bool
	// Ended says that the last token ended the turn.
	Ended bool
}

// Init prepares for a turn. The core must not be moved afterwards.
func (s *Core) Init(cfg Config) error {
	if cfg.Vocab == nil || cfg.Emit == nil {
		return errors.New("a reader needs a vocabulary and a receiver of events")
	}
	s.Cfg = cfg
	s.Out = Sink{Emit: cfg.Emit, separator: cfg.Separator}
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

// Score returns the last score that came, and whether there was one.
func (s *Core) Score() (float64, bool) { return s.score, s.scored }

// Warn reports a peculiarity once.
func (s *Core) Warn(code string) {
	if slices.Contains(s.warned, code) {
		return
	}
	s.warned = append(s.warned, code)
	s.Out.Emit(reasoning.Event{Kind: reasoning.Warning, Code: code,
		Text: fmt.Sprintf("%s (token %d)", messages[code], s.Pos)})
}

// Rationale tells the reason for the last call, if it is a member of an object.
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

// Call names the next call.
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

// IsSpace reports whether c is white space of JSON and of headers.
func IsSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
