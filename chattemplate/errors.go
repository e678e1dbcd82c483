package chattemplate

import (
	"errors"
	"fmt"
	"strings"

	"runner/chattemplate/jinja"
	"runner/hint"
)

// ErrNoTemplate says that the model has no chat template, although it needs one.
var ErrNoTemplate = hint.New("model has no chat template", "give a template in the Jinja language with --chat-template")

// ErrTooLong says that a prompt has more text than [Config.MaxText].
var ErrTooLong = errors.New("the prompt has more text than any context of the model holds")

// TemplateError says that a chat template does not compile, or failed while it was rendered. It names places in the
// template and never contains text of a conversation.
type TemplateError struct {
	// Line is the line in the template, from 1; 0 if it is not known.
	Line int
	// Rendering says that the template failed while it was rendered, not while it was compiled.
	Rendering bool
	Err       error
}

func (e *TemplateError) Error() string {
	what := "chat template does not compile"
	if e.Rendering {
		what = "chat template failed"
	}
	if e.Line > 0 {
		what += fmt.Sprintf(" on line %d", e.Line)
	}
	if je := (*jinja.Error)(nil); errors.As(e.Err, &je) {
		return what + ": " + strings.TrimSuffix(je.Message, ".")
	}
	return what + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *TemplateError) Unwrap() error { return e.Err }

// Hint tells the user what to do next.
func (e *TemplateError) Hint() string {
	if je := (*jinja.Error)(nil); errors.As(e.Err, &je) && je.Kind == jinja.KindRaised {
		return "the template refuses this conversation: check its roles, their order and its tools, or give another " +
			"template with --chat-template"
	}
	return "correct the template, or give another one with --chat-template"
}

// ConversationError says which part of a conversation cannot be rendered. It has positions and never text.
type ConversationError struct {
	// Message and Tool are the indexes of the message or the tool that is wrong; -1 if it is neither.
	Message, Tool int
	// Arg is the name of the template variable that is wrong, or empty.
	Arg string
	Err error
	hint.Advice
}

func (e *ConversationError) Error() string {
	switch {
	case e.Arg != "":
		return fmt.Sprintf("template variable %q: %v", e.Arg, e.Err)
	case e.Message >= 0:
		return fmt.Sprintf("message %d: %v", e.Message, e.Err)
	case e.Tool >= 0:
		return fmt.Sprintf("tool %d: %v", e.Tool, e.Err)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *ConversationError) Unwrap() error { return e.Err }

func messageError(i int, advice hint.Advice, format string, args ...any) error {
	return &ConversationError{Message: i, Tool: -1, Err: fmt.Errorf(format, args...), Advice: advice}
}

// ToolError returns a *ConversationError about tool i.
func ToolError(i int, advice hint.Advice, err error) error {
	return &ConversationError{Message: -1, Tool: i, Err: err, Advice: advice}
}

// ArgError returns a *ConversationError about a template variable.
func ArgError(name string, advice hint.Advice, format string, args ...any) error {
	return &ConversationError{Message: -1, Tool: -1, Arg: name, Err: fmt.Errorf(format, args...), Advice: advice}
}

func templateError(err error, rendering bool) error {
	e := &TemplateError{Rendering: rendering, Err: err}
	if je := (*jinja.Error)(nil); errors.As(err, &je) {
		e.Line = je.Line
	}
	return e
}

// MaxSchema is the maximum bytes of a schema.
const MaxSchema = 1 << 20

// DefinitionAdvice says which schemas are accepted.
const DefinitionAdvice = "give a JSON Schema of at most 1 MiB that nests at most 64 deep"

var (
	errSchema     = errors.New("schema is not valid JSON or nests too deep")
	errSchemaSize = fmt.Errorf("schema takes more than %d bytes", MaxSchema)
	errNoTools    = errors.New("the chat template does not show tools to the model")
	errNoHistory  = errors.New("the template does not show an answer in the history")
)
