// Package family says what a family of models is: one way of writing a turn.
//
// A [Family] renders conversations into prompts. Its [Turn] reads what the model writes and says what the model may
// write next. What a family knows of its format is written down in the family's folder and nowhere else; who uses a
// family asks it in these words.
//
// # A new family
//
// A model that writes its turn as text with tags needs no code: package tags reads the tags and the style of calls off
// the model's chat template. Only a style of calls that is not in the table of package tags needs an entry there.
//
// A model that writes its turn in another way needs one folder under chattemplate and one line in package families:
//
//  1. Make a folder with a type that has the methods of [Family]. Render natively, or with [chattemplate.Template].
//  2. Read output with a type that holds a [reader.Core], which makes the events. Say in its State at which
//     [reader.Place] the next token stands.
//  3. In Turn, choose for each place one of the values of package hold, or nil where anything may come.
//  4. Add the folder's Open to the list in package families. It returns nil for models that are not of the family.
//  5. Add a format to the tests of package families, which hold every family to the same rules.
package family

import (
	"context"
	"errors"
	"fmt"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/hold"
	"runner/chattemplate/reader"
	"runner/grammar"
	"runner/reasoning"
)

// About is what others may know of a model's family.
type About struct {
	// Reasoning says for people how the model marks its reasoning, and MarksReasoning whether it does.
	Reasoning      string
	MarksReasoning bool
	// Marks are texts that mark the parts of a turn, beside control tokens. A token that holds one of them is none of
	// the text.
	Marks []string
	// Tools says that the format can show tools to the model, and Calls that calls of the model can be read.
	Tools, Calls bool
	// WholeArguments says that the arguments of a call are one JSON value, which can be held to any schema.
	WholeArguments bool
	// ForbidsCalls says that the model can be kept from calling tools that it is shown.
	ForbidsCalls bool
	// LooseReasoning says that the model now and then puts its reasoning between the markers of strategy markers although
	// it has a place for it.
	LooseReasoning bool
}

// Family is one way in which models write a turn, for one model. Its methods may be called by several goroutines at
// once.
type Family interface {
	// About describes the family.
	About() About
	// Render renders a conversation. It fails with a *ConversationError, a *TemplateError or ErrTooLong of package
	// chattemplate, or with the tokenizer's error.
	Render(c chattemplate.Conversation) (chattemplate.Prompt, error)
	// SummaryTurn returns the tokens that ask the model, in the middle of its turn, for a text about what it has written
	// so far, and that open the answer to it. They go after a closed message, see Close.
	SummaryTurn(prompt string) ([]backend.Token, error)
	// OpenAnswer returns the tokens that lead from a place in the turn to the text of the answer. At StartAnswer there
	// are none. The slice must not be modified.
	OpenAnswer(from chattemplate.Start) []backend.Token
	// Close returns the tokens of a turn up to the end of its last message, and adds that end where it is missing. It may
	// return its argument, but does not change it.
	Close(tokens []backend.Token) []backend.Token
	// Effort returns the effort that is in effect where one is asked for and the caller sets template variables.
	Effort(asked reasoning.Effort, args map[string]any) reasoning.Effort
	// Reader returns a reader of the model's output that holds it to nothing.
	Reader(cfg reader.Config) (reader.Reader, error)
	// Turn compiles what one turn is held to. What cannot be held is a *RefusedError.
	Turn(ctx context.Context, cfg TurnConfig) (Turn, error)
	// CheckTool reports why calls of a function cannot be held to its parameters, or nil.
	CheckTool(ctx context.Context, grammars *grammar.Cache, tool chattemplate.Tool) error
}

// TurnConfig says what is asked of one turn.
type TurnConfig struct {
	// Grammars compiles forms.
	Grammars *grammar.Cache
	// Form is what the answer has to obey; the zero value is anything. FormAt reports at which places it counts.
	Form   grammar.Source
	FormAt func(reader.Place) bool
	// Tools are the functions that the model is shown, and Admits reports which of them it may call.
	Tools  []chattemplate.Tool
	Admits func(name string) bool
	// NoCalls allows no call, MustCall demands one, and SingleCall allows one at most.
	NoCalls, MustCall, SingleCall bool
	// Report is the function by which the model has to report its reasoning first; nil asks for no report.
	Report *chattemplate.Tool
	// Args are the caller's template variables. Some formats offer tools of their own by them.
	Args map[string]any
	// Markers says that the model is to reason between markers, and Native that it reasons as its format has it.
	Markers, Native bool
	// Effort is the effort that the prompt is rendered with. Where it is none, reasoning has no place of its own.
	Effort reasoning.Effort
}

// Turn reads one turn of a model and says what may come next in it. It belongs to one goroutine at a time.
//
// Turn's order is: Open with the rendered prompt, Begin, then PushOutput for each token of the model, and Force for
// each token that the caller puts in its place. After each, Hold and Forced say what may and what must come next.
type Turn interface {
	reader.Reader
	// Ignored reports whether strict tools are not held to their parameters, because the format has no place for it.
	Ignored() bool
	// Warm works out the first masks of the forms in the background, until ctx ends.
	Warm(ctx context.Context)
	// Open completes a prompt. With skip the model goes on to its answer, or where it may call something to the choice
	// between both, without reasoning. A prompt that leaves no place for what is owed is a *RefusedError.
	Open(p *chattemplate.Prompt, skip bool) error
	// Begin starts to read. The turn sets the fields Tools, Opens and StringParam of cfg itself.
	Begin(cfg reader.Config) error
	// Force takes a token that the caller puts into the turn. It is read, and not held to anything.
	Force(t backend.Token)
	// Hold returns what may come next; nil where anything may. It holds until the next token.
	Hold() hold.Hold
	// Forced returns the tokens that must come next because nothing else can. The slice is valid until the next call.
	Forced() []backend.Token
	// Follow returns the tokens of the format that go after the last token, for the caller to force, and forgets them.
	Follow() []backend.Token
	// EndReasoning returns the tokens that close reasoning in the middle of its text, and those that then open the answer.
	// The latter, which go after those of Follow, are empty where the model may still choose to call something. From
	// here on it may not reason again.
	EndReasoning() (end, open []backend.Token, err error)
	// EndObject returns the tokens that end the reasoning in the object of strategy json and open its answer, or end the
	// arguments of report_reasoning. It reports false where a later token has to come first.
	EndObject() (tokens []backend.Token, ok bool)
	// Resume goes on after a call of report_reasoning, with the prompt that was rendered with its result.
	Resume(p *chattemplate.Prompt) error
}

// RefusedError says what of a turn a family cannot hold. Field is the name of the request's field.
type RefusedError struct {
	Field, Advice string
	Err           error
}

func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %v", e.Field, e.Err) }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// Hint tells the user what to do next.
func (e *RefusedError) Hint() string { return e.Advice }

// Refuse returns a *RefusedError with the advice that err gives.
func Refuse(field string, err error) error {
	return &RefusedError{Field: field, Err: err, Advice: advice(err)}
}

// advice is the hint of an error, if it has one.
func advice(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}
