// Package family is the interface of a family of models. Models of one family write a turn in the same way.
//
// A family has three jobs:
//
//   - Render: turn a conversation into the tokens of a prompt. This is [Family].Render.
//   - Read: turn the model's tokens into events for its reasoning, its calls and its answer. This is the
//     [reader.Reader] in each [Turn].
//   - Hold: say at each place of the turn which tokens may come next. This is [Turn].Hold.
//
// Everything that is special about a family is in the family's own folder. Other packages use this interface and name
// no family.
//
// # A new family
//
// Look at the model's chat template first. If it writes a turn as one text, the model needs no code. Package tags
// renders small conversations with the template to find the tags around the reasoning, if any, and the style of calls.
// If the model writes calls in an unknown style, add the style to the table in markup/calls.go.
//
// If the model writes its turn in another way, it needs a folder under chattemplate and a line in package families:
//
//  1. Make a folder with a type that implements [Family]. Render in Go, or with [chattemplate.Template].
//  2. Write the reader: a [reader.Parser] around a [reader.Core], which takes the tokens and sends the events. State
//     returns the [reader.Place] of the next token.
//  3. Write the turn around a [Progress], which takes the tokens. At each place of the turn, choose a value of package
//     hold, or nil where every token is allowed.
//  4. Write an Open function and add it to the list in package families. It returns nil for models of other families.
//  5. Add the format to the tests in package families, which check every family by the same rules.
//  6. Add the family's name and marks to the pattern named family in imports_test.go, in the root. It keeps other rooms
//     from naming it.
package family

import (
	"context"
	"fmt"
	"slices"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/hold"
	"runner/chattemplate/reader"
	"runner/grammar"
	"runner/hint"
	"runner/reasoning"
)

// About describes a model's family to other packages.
type About struct {
	// Reasoning says for people how the model marks its reasoning. MarksReasoning says whether it marks it at all.
	Reasoning      string
	MarksReasoning bool
	// Marks are texts that mark the parts of a turn and need not be control tokens. A token that contains one is not
	// part of the text.
	Marks []string
	// Tools says that the format can show tools to the model. Calls says that the model's calls can be read.
	Tools, Calls bool
	// WholeArguments says that the arguments of a call are one JSON value, so that any schema can constrain them.
	WholeArguments bool
	// ForbidsCalls says that the model can be shown tools and kept from calling them.
	ForbidsCalls bool
	// LaterPrompts says that a system prompt may come after other messages. Otherwise it becomes marked text of the user.
	LaterPrompts bool
	// LooseReasoning says that the model sometimes reasons between the markers of strategy markers, although its format
	// has a place for reasoning.
	LooseReasoning bool
}

// Family is a family's way of writing a turn, for one model. It is safe for concurrent use.
type Family interface {
	// About describes the family.
	About() About
	// Render renders a conversation. Its errors are a *ConversationError, a *TemplateError or ErrTooLong of package
	// chattemplate, or the tokenizer's error.
	Render(c chattemplate.Conversation) (chattemplate.Prompt, error)
	// SummaryTurn returns the tokens that ask for a summary in the middle of a turn and open the answer to it. They go
	// after a closed message, see Close.
	SummaryTurn(prompt string) ([]backend.Token, error)
	// OpenAnswer returns the tokens that lead from a place in the turn to the text of the answer. At StartAnswer there
	// are none. The slice must not be modified.
	OpenAnswer(from chattemplate.Start) []backend.Token
	// Close returns the tokens of a turn up to the end of its last message, and adds that end if it is missing. It may
	// return its argument but does not change it.
	Close(tokens []backend.Token) []backend.Token
	// Effort returns the effort that takes effect, given the one in the request and the caller's template variables.
	Effort(asked reasoning.Effort, args map[string]any) reasoning.Effort
	// Reader returns a reader of the model's output, without any constraint on it.
	Reader(cfg reader.Config) (reader.Reader, error)
	// Turn compiles the constraints of one turn. A constraint that the family cannot enforce is a *RefusedError.
	Turn(ctx context.Context, cfg TurnConfig) (Turn, error)
	// CheckTool returns nil if calls of a tool can be made to match its parameters, and otherwise the reason.
	CheckTool(ctx context.Context, grammars *grammar.Cache, tool chattemplate.Tool) error
}

// TurnConfig is what a request asks of one turn.
type TurnConfig struct {
	// Grammars compiles forms.
	Grammars *grammar.Cache
	// Form is what the answer must match; the zero value allows anything. FormAt reports at which
	// places it applies; a family whose turn is one text applies it to answers alone.
	Form   grammar.Source
	FormAt func(reader.Place) bool
	// Tools are the functions that the model is shown. Admits reports which of them it may call; nil admits all.
	Tools  []chattemplate.Tool
	Admits func(name string) bool
	// NoCalls allows no call, MustCall requires one, and SingleCall allows at most one.
	NoCalls, MustCall, SingleCall bool
	// Report is the function that the model must call first to report its reasoning; nil asks for no report.
	Report *chattemplate.Tool
	// Args are the caller's template variables. In some formats they offer built-in tools.
	Args map[string]any
	// Markers says that the model should reason between markers. Native says that it reasons in its own format.
	Markers, Native bool
	// Loose says that the model is computed elsewhere, where it may follow another template. The prompt then does not open
	// reasoning for it that its template does not open.
	Loose bool
	// Effort is the effort that the prompt is rendered with. With none, reasoning has no place of its own.
	Effort reasoning.Effort
}

// Owed returns what the turn must write and what it is offered.
func (c *TurnConfig) Owed() hold.Owed {
	return hold.Owed{
		Form: !c.Form.IsZero(), Call: c.MustCall, Report: c.Report != nil,
		Offered: len(c.Tools) > 0 && !c.NoCalls, Single: c.SingleCall,
	}
}

// Callable returns the tools that the model may call.
func (c *TurnConfig) Callable() []chattemplate.Tool {
	if c.NoCalls {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.Tools), func(tool chattemplate.Tool) bool {
		return c.Admits != nil && !c.Admits(tool.Name)
	})
}

// Turn reads one turn of a model and says what may come next in it. It must be used by one goroutine at a time.
//
// The order of calls is: Open with the rendered prompt, Begin, then PushOutput for each token of the model and Force
// for each token that the caller inserts. After each token, Hold returns what may come next and Forced what must.
type Turn interface {
	reader.Reader
	// Ignored reports whether strict tools are not enforced, because the format has no place for it.
	Ignored() bool
	// Forms returns the forms of the answer and of calls, so that the caller can compute their first masks early.
	Forms() []*grammar.Grammar
	// Open completes a prompt. With skip the model does not reason: it goes on to its answer, or to the choice between
	// an answer and a call. It returns a *RefusedError if the prompt leaves no place for a required answer or call.
	Open(p *chattemplate.Prompt, skip bool) error
	// Begin starts to read. The turn sets the fields Tools, Opens and StringParam of cfg itself.
	Begin(cfg reader.Config) error
	// Force takes a token that the caller inserts into the turn. The token is read, but no constraint applies to it.
	Force(t backend.Token)
	// Weighs returns how many of the most likely tokens Chosen needs to see with the next token (backend.Output.Top).
	Weighs() int
	// Chosen returns the token that comes next: the sampled one, or another that the model likes much better and that
	// the constraint did not allow. The constraint is changed then. Without Top it is the sampled one.
	Chosen(out *backend.Output) backend.Token
	// Hold returns the constraint on the next token; nil allows every token. It is valid until the next token.
	Hold() hold.Hold
	// Jumps returns a number that changes whenever the constraint changes in another way than by Accept with the token
	// of a push.
	Jumps() int
	// Forced returns the tokens that must come next because nothing else can. The slice is valid until the next call.
	Forced() []backend.Token
	// Follow returns the format's own tokens that go after the last token, for the caller to force. A second call
	// returns nothing.
	Follow() []backend.Token
	// EndReasoning returns the tokens that close reasoning in the middle of its text, and the tokens that then open the
	// answer. The latter go after those of Follow. They are empty if the model may still choose to make a call. After
	// EndReasoning the model may not reason again.
	EndReasoning() (end, open []backend.Token, err error)
	// EndObject returns the tokens that end the reasoning in the object of strategy json and open its answer, or that
	// end the arguments of report_reasoning. It returns false if that is only possible after a later token.
	EndObject() (tokens []backend.Token, ok bool)
	// Resume goes on after a call of report_reasoning. p is the prompt that contains the result of the call.
	Resume(p *chattemplate.Prompt) error
}

// RefusedError says which part of a request a family cannot carry out. Field is the name of the request's field.
type RefusedError struct {
	Field string
	Err   error
	hint.Advice
}

func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %v", e.Field, e.Err) }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// Refuse returns a *RefusedError with the advice of err.
func Refuse(field string, err error) error {
	return &RefusedError{Field: field, Err: err, Advice: hint.Advice(hint.Of(err))}
}
