package contract

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning/seal"
	"runner/server/wire"
)

// CodeSealedDropped is the code of the warning about sealed values that were left out of the prompt.
const CodeSealedDropped = "sealed_dropped"

// Nowhere is the message of a value in a place where the server never puts values.
const Nowhere = -1

// Carried is a sealed value that a client sent back.
type Carried struct {
	// Message is the index of its message, or Nowhere.
	Message int
	Value   seal.Value
	// Param is its place in the request.
	Param string
	// Refusal is the text of the error if the request is refused because of this value. If it is empty, the text says
	// the reason.
	Refusal string
}

// Restorer restores the reasoning in the sealed values of one request. Values that do not open are left out with a
// warning.
type Restorer struct {
	history *seal.History
	strict  bool
	dropped []dropped
	// read counts the messages that were read, and asked is the question after them.
	read  int
	asked seal.Question
}

// dropped counts the values that were left out for one reason.
type dropped struct {
	reason *seal.Error
	first  string
	count  int
}

// NewRestorer returns a Restorer for one conversation. With strict, values that do not open are an error.
func NewRestorer(keys *seal.Keyring, scope seal.Scope, strict bool) *Restorer {
	return &Restorer{history: keys.History(scope), strict: strict}
}

// WeightsOf returns what values of a model are bound to.
func WeightsOf(m wire.Model) seal.Model {
	info := m.Info()
	return seal.Model{Key: info.Key, Digest: info.Digest}
}

// questionOf returns the question that a reply to messages answers, if there is one.
func questionOf(messages []chattemplate.Message) (q seal.Question, ok bool) {
	for _, m := range slices.Backward(messages) {
		if m.Role == chattemplate.User {
			return seal.QuestionOf(m.Content), true
		}
	}
	return q, false
}

// Begin begins the turn of a reply to messages.
func Begin(keys *seal.Keyring, scope seal.Scope, messages []chattemplate.Message) *seal.Turn {
	asked, _ := questionOf(messages)
	return keys.Begin(scope, asked)
}

// Message replaces the reasoning of a message by that in its values. before are all messages before it. It must be
// called once for each message with values, in the order of the conversation.
func (r *Restorer) Message(before []chattemplate.Message, m *chattemplate.Message, values []Carried) error {
	m.Reasoning = ""
	m.Unseen |= chattemplate.UnseenReasoning
	// Only new messages are read, so that the cost of many values is not quadratic.
	if asked, ok := questionOf(before[r.read:]); ok {
		r.asked = asked
	}
	r.read = len(before)
	at := seal.Place{Question: r.asked}
	for _, call := range m.ToolCalls {
		if call.ID != "" { // some formats have no ids of calls
			at.Calls = append(at.Calls, call.ID)
		}
	}
	list := make([]seal.Value, len(values))
	for i := range values {
		list[i] = values[i].Value
	}
	var errs []error
	m.Reasoning, errs = r.history.Open(at, list)
	return r.drop(values, func(i int) error { return errs[i] })
}

// Conversation adds the reasoning in the values to their messages.
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
		if err := r.Message(messages[:i], &messages[i], of); err != nil {
			return err
		}
	}
	return nil
}

// drop leaves out the values for which because returns an error. With strict it returns an error that refuses the
// request.
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
		refused := wire.Errorf(reason.Code, "%v; %s", reason, reason.Hint()).At(v.Param).Because(err)
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

// Warnings returns the warnings about values that were left out, one for each reason.
func (r *Restorer) Warnings() (list wire.Warnings) {
	for _, d := range r.dropped {
		what := d.first + " was left out"
		if d.count > 1 {
			what = fmt.Sprintf("%d sealed values were left out, the first of them %s", d.count, d.first)
		}
		list.Add(CodeSealedDropped, fmt.Sprintf("%s (%s): %s", what, d.reason.Code, d.reason.Reason))
	}
	return list
}

// Bind restores the reasoning in the sealed values of a request's conversation, and begins the turn of the reply. The
// warnings are about values that were left out.
func Bind(keys *seal.Keyring, scope seal.Scope, strict bool, req *generation.Request,
	values []Carried) (*seal.Turn, []wire.Warning, error) {
	r := NewRestorer(keys, scope, strict)
	if err := r.Conversation(req.Messages, values); err != nil {
		return nil, nil, err
	}
	return Begin(keys, scope, req.Messages), r.Warnings(), nil
}

// Tracer returns an observer that traces the reply with the id run, if that was asked for.
func Tracer(asked bool, to wire.Traces, who *wire.Principal, run string) generation.Observer {
	if !asked {
		return generation.Unobserved{}
	}
	return to.Tracer(who.ID, FieldTrace, run)
}

// reply observes the reply of a turn.
type reply struct {
	generation.Observer
	turn *seal.Turn
}

// Reply returns the observer of the reply of a turn: it names the calls and seals the reasoning. traced does the rest.
func Reply(turn *seal.Turn, traced generation.Observer) generation.Observer {
	return &reply{traced, turn}
}

// CallID implements [generation.Observer].
func (r *reply) CallID(number int) string { return r.turn.CallID(number) }

// Seal implements [generation.Observer]. Whether calls follow is not known yet.
func (r *reply) Seal(thoughts string) (string, error) { return r.turn.Seal(thoughts, seal.Undecided) }
