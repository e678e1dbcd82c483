package delegation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"runner/hint"
)

// The types of the instructions in JSON.
const (
	TypeDelegate     = "delegate_reasoning"
	TypeReturn       = "return_control"
	TypeIntermediate = "intermediate_reasoning"
)

// MaxPrompt is the maximum length of a specialist's prompt in UTF-16 code units.
const MaxPrompt = 50_000

// labelled is the number of UTF-16 code units of a prompt that a label shows.
const labelled = 200

// Instruction is the part of a message that says who reasons. It is a [Delegate], a [Return] or an [Intermediate].
//
// Its JSON is an object with a type:
//
//	{"type": "delegate_reasoning", "agentPrompt": "...", "markIntermediate": true}
//	{"type": "return_control"}
//	{"type": "intermediate_reasoning"}
type Instruction interface {
	json.Marshaler
	// Label returns a short name, with the first 200 UTF-16 units of a prompt.
	Label() string
	// XML returns the line that the model gets for it. It contains nothing of a prompt.
	XML() string
}

// Delegate hands the reasoning to a specialist.
type Delegate struct {
	// Prompt is the specialist's prompt. It is not blank and has at most [MaxPrompt] UTF-16 units.
	Prompt string
	// Shown says that the specialist's messages are not marked as intermediate, so that the user sees them. It is the
	// opposite of markIntermediate in JSON, whose default is true.
	Shown bool
}

// Return hands control back to the main agent.
type Return struct{}

// Intermediate marks a message as a step of the reasoning. It can be left out of the conversation.
type Intermediate struct{}

// Label implements Instruction.
func (d Delegate) Label() string {
	return fmt.Sprintf("%s:%d:%s", TypeDelegate, units(d.Prompt), firstUnits(d.Prompt, labelled))
}

// Label implements Instruction.
func (Return) Label() string { return TypeReturn }

// Label implements Instruction.
func (Intermediate) Label() string { return "intermediate" }

// XML implements Instruction.
func (d Delegate) XML() string {
	return fmt.Sprintf("<delegate-reasoning>Specialist active (%d chars)</delegate-reasoning>", units(d.Prompt))
}

// XML implements Instruction.
func (Return) XML() string { return "<return-control>Returning to main agent</return-control>" }

// XML implements Instruction.
func (Intermediate) XML() string { return "<intermediate>Internal reasoning</intermediate>" }

// wire is the JSON form of every instruction.
type wire struct {
	Type   string  `json:"type"`
	Prompt *string `json:"agentPrompt,omitempty"`
	Mark   *bool   `json:"markIntermediate,omitempty"`
}

// MarshalJSON implements Instruction.
func (d Delegate) MarshalJSON() ([]byte, error) {
	mark := !d.Shown
	return json.Marshal(wire{TypeDelegate, &d.Prompt, &mark})
}

// MarshalJSON implements Instruction.
func (Return) MarshalJSON() ([]byte, error) { return json.Marshal(wire{Type: TypeReturn}) }

// MarshalJSON implements Instruction.
func (Intermediate) MarshalJSON() ([]byte, error) { return json.Marshal(wire{Type: TypeIntermediate}) }

// classes are the packages of the instructions' classes in Gromozeka (github.com/Lewik/gromozeka), where these
// instructions come from. Conversations that Gromozeka stored use the full names of the classes, or only the last part.
var classes = []string{
	"com.gromozeka.domain.model.Conversation.Message.Instruction.",
	"com.gromozeka.bot.domain.model.Conversation.Message.Instruction.",
	"",
}

// Parse reads an instruction from JSON. The type is its name or that of its class. Unknown members are
// ignored. The errors are *Error.
func Parse(text []byte) (Instruction, error) {
	var w wire
	if err := json.Unmarshal(text, &w); err != nil {
		return nil, &Error{Code: CodeMalformed, what: "an instruction is an object with a type",
			Advice: "see the documentation of delegation"}
	}
	kind := w.Type
	for _, class := range classes {
		if name, ok := strings.CutPrefix(w.Type, class); ok {
			kind = cmp.Or(map[string]string{"DelegateReasoning": TypeDelegate, "ReturnControl": TypeReturn,
				"IntermediateReasoning": TypeIntermediate}[name], kind)
		}
	}
	switch kind {
	case TypeDelegate:
		d := Delegate{Shown: w.Mark != nil && !*w.Mark}
		if w.Prompt != nil {
			d.Prompt = *w.Prompt
		}
		if err := d.Check(); err != nil {
			return nil, err
		}
		return d, nil
	case TypeReturn:
		return Return{}, nil
	case TypeIntermediate:
		return Intermediate{}, nil
	}
	return nil, &Error{
		Code: CodeUnknown, Field: "type", what: "the type of an instruction is " + TypeDelegate + ", " + TypeReturn + " or " +
			TypeIntermediate,
	}
}

// Check returns an *Error if the prompt is blank or too long.
func (d Delegate) Check() error {
	if strings.TrimFunc(d.Prompt, blank) == "" {
		return &Error{Code: CodeBlank, Field: "agentPrompt", what: "the agent prompt is blank",
			Advice: "say what the specialist is to do"}
	}
	if n := units(d.Prompt); n > MaxPrompt {
		return &Error{
			Code: CodeTooLong, Field: "agentPrompt",
			what:   fmt.Sprintf("the agent prompt has %d UTF-16 units; at most %d are allowed", n, MaxPrompt),
			Advice: "shorten it",
		}
	}
	return nil
}

// blank reports whether a character is white space as Kotlin defines it: Unicode's white space and ASCII's separators.
func blank(r rune) bool {
	return unicode.IsSpace(r) || unicode.Is(unicode.Z, r) || r >= 0x1c && r <= 0x1f
}

// units counts UTF-16 code units.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// firstUnits returns the characters of s that fit in its first n UTF-16 units.
func firstUnits(s string, n int) string {
	for i, r := range s {
		if n -= utf16.RuneLen(r); n < 0 {
			return s[:i]
		}
	}
	return s
}

// The codes of an [Error].
const (
	// CodeMalformed: an instruction, or the arguments of a call, cannot be read.
	CodeMalformed = "delegation_malformed"
	// CodeUnknown: the type of the instruction is unknown.
	CodeUnknown = "delegation_unknown"
	// CodeBlank and CodeTooLong: the specialist's prompt is blank or too long.
	CodeBlank   = "delegation_blank"
	CodeTooLong = "delegation_too_long"
	// CodeNested: a specialist is active already.
	CodeNested = "delegation_nested"
	// CodeIdle: there is no specialist to return from.
	CodeIdle = "delegation_idle"
)

// Error says why an instruction is not followed. It contains nothing of a prompt.
type Error struct {
	// Code names the kind for programs.
	Code string
	// Field is the member of the instruction that is wrong; empty for the whole instruction.
	Field string
	what  string
	hint.Advice
}

func (e *Error) Error() string { return e.what }

// Text returns the error in the form that the model gets.
func (e *Error) Text() string {
	if e.Advice == "" {
		return "Error: " + e.what + "."
	}
	return "Error: " + e.what + "; " + e.Hint() + "."
}

// valid replaces invalid UTF-8, which JSON and prompts cannot hold.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
