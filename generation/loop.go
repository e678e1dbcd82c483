package generation

import (
	"runner/chattemplate"
	"runner/reasoning"
)

// Loop carries out requests that take several turns of the model. It chooses the turns, and how what they say counts in
// the request. It never reads their events: each turn applies the visibility itself.
type Loop interface {
	// Takes reports whether the loop carries out a request.
	Takes(q *Request) bool
	// Check returns a *RequestError if the loop cannot carry out a request. own are the names of the functions that it
	// gives the model in addition to the request's.
	Check(q *Request, can Abilities) (own []string, err error)
	// Run carries out a request that may be changed. It ends with [Turns.Done], or returns why it ended early.
	Run(q *Request, turns Turns) error
}

// Turns carries out the turns of one request. Only the goroutine that called Loop.Run may use it.
type Turns interface {
	// Model says what the model is and what it can do.
	Model() (ModelInfo, Abilities)
	// Random is a number that is the request's own.
	Random() uint64
	// Plan returns a *RequestError if the model cannot do what a turn asks. It may be slow. A later turn does not plan
	// again what the last one planned here has planned, see [Turn.Alike].
	Plan(t *Turn) error
	// Do carries out the turn that choose returns. Both choose and the preparation of the turn may be slow: they run one
	// after the other in a slot of the principal. In the first call the request is checked before choose. Any error ends
	// the request.
	Do(choose func() (*Turn, error)) (*Said, error)
	// Emit adds an event to the trace, and passes it to the reader if the visibility shows it. Events before the first
	// turn follow Started.
	Emit(e reasoning.Event)
	// Done ends the request with its result.
	Done(result *reasoning.Result) error
	// Remember keeps something about a call until the client sends the call back. Recall returns it for the first call of
	// a message of the request, or nil.
	Remember(call *chattemplate.ToolCall, what any)
	Recall(message int) (what any)
}

// Turn is one turn of the model in a request.
type Turn struct {
	// Request is what the turn is asked for. Its Visibility says what the turn itself owes to the reader, such as a
	// summary. What the reader sees follows from the whole request.
	Request Request
	// Specialist names whose prompt the turn has; empty under the prompt of the request. Another's turn leaves room for
	// the turns that follow.
	Specialist string
	// Counts is what the text of a specialist counts as: Reasoning or Preamble.
	Counts reasoning.Segment
	// Last means that no turn follows one under the prompt of the request.
	Last bool
	// Answers reports whether the loop answers the calls of a function. The reader does not see them. It may be called on
	// any goroutine. Nil answers none.
	Answers func(name string) bool
	// Meets is the function of the loop that a model may call where the client requires a call; empty if there is none.
	Meets string
	// Heard is what came of the turns before.
	Heard Heard
}

// Alike reports whether what was planned for a turn serves another one.
func (t *Turn) Alike(o *Turn) bool {
	return t.Counts == o.Counts && t.Meets == o.Meets && t.Request.Alike(&o.Request)
}

// Heard is what the turns of a request have said so far. Thoughts is all that counts as reasoning, and Begun has the
// segments that the texts belong to.
type Heard struct {
	Thoughts string
	Begun    [reasoning.Answer + 1]bool
}

// Said is what a turn has said, whatever the reader sees of it.
type Said struct {
	// Refused is why the turn could not be prepared; nil if it was carried out.
	Refused error
	// Text is everything but the turn's reasoning and its calls.
	Text, Reasoning string
	// Own are the calls that the loop answers, and Calls those that wait for the client.
	Own, Calls []chattemplate.ToolCall
	Result     *reasoning.Result
	// Heard includes what came of the turns before.
	Heard Heard
}

// LoopOf returns the loop that carries out a request: the first that takes it, or nil if the request has one turn. It
// returns a *RequestError if there is no loop for what the request asks.
func LoopOf(q *Request, loops []Loop) (Loop, error) {
	for _, l := range loops {
		if l.Takes(q) {
			return l, nil
		}
	}
	if q.Delegates() {
		return nil, BadField("Delegation", "leave delegation out", "there are no specialists here")
	}
	return nil, nil
}
