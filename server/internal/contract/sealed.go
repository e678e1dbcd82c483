package contract

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning/seal"
	"runner/server/wire"
)

// CodeSealedDropped warns of sealed values that were left out of the prompt.
const CodeSealedDropped = "sealed_dropped"

// Nowhere is the message of a value that stands where no value was ever handed out.
const Nowhere = -1

// Carried is a sealed value that a client sent back.
type Carried struct {
	// Message is the index of the message that it came with, or Nowhere.
	Message int
	Value   seal.Value
	// Param is its place in the request.
	Param string
	// Refusal is what a request is refused with because of it; empty says why in plain words.
	Refusal string
}

// Restorer restores the reasoning that sealed values hold, for one request. What does not open is left out with a
// warning.
type Restorer struct {
	history *seal.History
	strict  bool
	dropped []dropped
	// read counts the messages that were read, and asked is the question that comes after them.
	read  int
	asked seal.Question
}

// dropped counts the values that were left out for one reason.
type dropped struct {
	reason *seal.Error
	first  string
	count  int
}

// NewRestorer returns what opens the values of one conversation. strict refuses the request in place of leaving a
// value out. Without keys, nil, nothing opens.
func NewRestorer(keys *seal.Keyring, scope seal.Scope, strict bool) *Restorer {
	r := &Restorer{strict: strict}
	if keys != nil {
		r.history = keys.History(scope)
	}
	return r
}

// questionOf returns the question that the reply to messages answers, if there is one.
func questionOf(messages []chattemplate.Message) (q seal.Question, ok bool) {
	for _, m := range slices.Backward(messages) {
		if m.Role == chattemplate.User {
			return seal.QuestionOf(m.Content), true
		}
	}
	return q, false
}

// Begin begins the reply to messages.
func Begin(keys *seal.Keyring, scope seal.Scope, messages []chattemplate.Message) *seal.Turn {
	asked, _ := questionOf(messages)
	return keys.Begin(scope, asked)
}

// Message returns the reasoning for a message from the values that came with it. before are the messages before it,
// all of them. Each message of a conversation is restored once, from the first to the last.
func (r *Restorer) Message(before []chattemplate.Message, m *chattemplate.Message, values []Carried) (text string,
	err error) {
	switch {
	case len(values) == 0:
		return "", nil
	case r.history == nil:
		return "", r.drop(values, func(int) error { return seal.ErrUnknownKey })
	}
	// Only what is new is read, so that many values cost no more than their conversation.
	if asked, ok := questionOf(before[r.read:]); ok {
		r.asked = asked
	}
	r.read = len(before)
	at := seal.Place{Question: r.asked}
	for _, call := range m.ToolCalls {
		if call.ID != "" { // calls of formats that give them no ids
			at.Calls = append(at.Calls, call.ID)
		}
	}
	list := make([]seal.Value, len(values))
	for i := range values {
		list[i] = values[i].Value
	}
	text, errs := r.history.Open(at, list)
	return text, r.drop(values, func(i int) error { return errs[i] })
}

// Conversation puts the reasoning of the values into their messages.
func (r *Restorer) Conversation(messages []chattemplate.Message, values []Carried) error {
	byMessage := slices.Clone(values)
	slices.SortStableFunc(byMessage, func(a, b Carried) int { return cmp.Compare(a.Message, b.Message) })
	for len(byMessage) > 0 {
		i, n := byMessage[0].Message, 1
		for n < len(byMessage) && byMessage[n].Message == i {
			n++
		}
		of := byMessage[:n]
		byMessage = byMessage[n:]
		if i == Nowhere {
			if err := r.drop(of, func(int) error { return seal.ErrForeign }); err != nil {
				return err
			}
			continue
		}
		text, err := r.Message(messages[:i], &messages[i], of)
		if err != nil {
			return err
		}
		messages[i].Reasoning = text
	}
	return nil
}

// drop leaves values out, each because of an error, which may be nil, or refuses the request.
func (r *Restorer) drop(values []Carried, because func(i int) error) error {
	for i := range values {
		if err := because(i); err != nil {
			if err = r.dropOne(&values[i], err); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Restorer) dropOne(v *Carried, err error) error {
	var reason *seal.Error
	if !errors.As(err, &reason) {
		return err
	}
	if r.strict {
		refused := &wire.Error{
			Status: http.StatusBadRequest, Code: reason.Code(), Param: v.Param, Message: reason.Error() + "; " + reason.Hint(),
			Err: err,
		}
		if v.Refusal != "" {
			refused.Param, refused.Message = "", v.Refusal
		}
		return refused
	}
	for i := range r.dropped {
		if d := &r.dropped[i]; d.reason == reason {
			d.count++
			return nil
		}
	}
	r.dropped = append(r.dropped, dropped{reason, v.Param, 1})
	return nil
}

// Warnings tells what was left out, one warning for each reason.
func (r *Restorer) Warnings() []generation.Notice {
	var list []generation.Notice
	for _, d := range r.dropped {
		what := d.first + " was left out"
		if d.count > 1 {
			what = fmt.Sprintf("%d sealed values were left out, the first of them %s", d.count, d.first)
		}
		list = append(list, generation.Notice{Code: CodeSealedDropped, Text: fmt.Sprintf("%s (%s): %s", what, d.reason.Code(),
			d.reason.Reason())})
	}
	return list
}

// Sealer returns what seals the whole reasoning of a run as a value of a turn. Without ids for its calls, the turn
// counts as one without calls.
func Sealer(turn *seal.Turn, ids bool) func(thoughts string, calls bool) (string, error) {
	return func(thoughts string, calls bool) (string, error) {
		kind := seal.NoCalls
		if calls && ids {
			kind = seal.WithCalls
		}
		return turn.Seal(thoughts, kind)
	}
}
