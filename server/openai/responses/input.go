package responses

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"runner/chattemplate"
	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// entry is an item of a conversation with its origin.
type entry struct {
	item Item
	// path is its place in the request; empty if it comes from the store.
	path string
	// sealed is its sealed value in the store; empty if the item has its own value or none.
	sealed string
	// home is the scope of its value if that comes from the store; nil if it comes from the request.
	home *seal.Scope
}

// rawItem is an item of an input before its type is known.
//
// A message, a call, the result of a call, a reasoning item as the server sent it, or a reference to a stored item.
// Items of other types, such as the records of hosted tools, are ignored with the warning `item_skipped`.
//
//openapi:request ResponseInputItem
type rawItem struct {
	// The type of the item. Without it the item is a message, or an item reference if it has only an `id`.
	Type *string `json:"type" api:"#ResponseItemType"`
	// The item's id. In a reference, the id of the stored item.
	ID *string `json:"id" api:"[..256]|null"`
	// The role of a message's author.
	Role *string `json:"role" api:"=user,assistant,system,developer|null"`
	// Whether an assistant message is an answer or comes before calls.
	Phase *string `json:"phase" api:"=commentary,final_answer|null"`
	// The text of a message or of a reasoning item. The text of a reasoning item is used only while calls are pending
	// and there is no sealed value.
	Content json.RawMessage `json:"content" api:"string|[..4096]#ResponseInputPart|null"`
	// The summary of a reasoning item. It is never used as reasoning.
	Summary json.RawMessage `json:"summary" api:"[..4096]#ResponseInputPart|null"`
	// The sealed value of a reasoning item. It restores the reasoning of that turn. A value that does not belong there
	// is ignored with the warning `sealed_dropped`; with `runner serve --sealed strict` the request is refused.
	EncryptedContent *string `json:"encrypted_content" api:"|null"`
	// The id of the call, in `function_call` and `function_call_output`.
	CallID *string `json:"call_id" api:"[..256]|null"`
	// The name of the function that was called.
	Name *string `json:"name" api:"[..256]|null"`
	// The namespace of the function, if it has one.
	Namespace *string `json:"namespace" api:"[..256]|null"`
	// The arguments as the model wrote them.
	Arguments *string `json:"arguments" api:"|null"`
	// The text of a call of a custom tool.
	Input *string `json:"input" api:"|null"`
	// The result of a call.
	Output json.RawMessage `json:"output" api:"string|[..4096]#ResponseInputPart|null"`
}

// reference names a stored item until that is looked up.
type reference struct{ id string }

func (r *reference) head() (id *string, kind string) { return &r.id, typeItemReference }

// input reads the items of a request.
func (q *asked) input() error {
	raw := q.wire.Input
	switch {
	case !wire.Given(raw):
		if q.wire.PreviousResponseID == nil && q.wire.Instructions == nil {
			return wire.Invalid("input", "give a text or a list of items")
		}
		return nil
	case raw[0] == '"':
		said, err := wire.Text("input", raw)
		if err != nil {
			return err
		}
		m := &Message{Type: typeMessage, Status: statusCompleted, Role: string(chattemplate.User),
			Content: []Part{{Type: partInput, Text: said}}}
		q.items = []entry{{item: m, path: "input"}}
		return nil
	}
	list, err := wire.List("input", raw)
	if err != nil {
		return wire.Invalid("input", "it takes a text or a list of items")
	}
	var skipped kinds
	for i, raw := range list {
		path := wire.Index("input", i)
		q.last = i+1 == len(list)
		item, kind, err := q.readItem(path, raw)
		switch {
		case err != nil:
			return err
		case item == nil:
			skipped.add(kind)
		default:
			q.items = append(q.items, entry{item: item, path: path})
		}
	}
	if skipped.count > 0 {
		q.warnings.Add(CodeItemSkipped, skipped.of("input items"))
	}
	return nil
}

// kinds counts things that were left out by type.
type kinds struct {
	count int
	names []string
}

func (k *kinds) add(name string) {
	const most = 8
	k.count++
	if name = strconv.Quote(wire.Clip(name)); len(k.names) < most && !slices.Contains(k.names, name) {
		k.names = append(k.names, name)
	}
}

// of returns the text of a warning, with the number of things and their types.
func (k *kinds) of(things string) string {
	return strconv.Itoa(k.count) + " " + things + " were left out because their types are not known here: " +
		strings.Join(k.names, ", ")
}

// readItem reads one item and its type. The item is nil if the type is unknown. Conversations that began on another
// server contain records of tools that this one does not have; the messages around them say what matters.
func (q *asked) readItem(path string, raw json.RawMessage) (item Item, kind string, err error) {
	typed, err := readType(path, raw)
	if err != nil {
		return nil, "", err
	}
	if typed != nil && !slices.Contains(itemTypes, *typed) {
		return nil, *typed, nil
	}
	item, err = q.readKnown(path, raw)
	return item, "", err
}

// readType reads the type of an object; nil if it has none. It reads no other fields, because they depend on the type.
func readType(path string, raw json.RawMessage) (*string, error) {
	var typed struct {
		Type *string `json:"type"`
	}
	err := wire.Object(path, raw, &typed)
	return typed.Type, err
}

// itemTypes are the known types of items.
var itemTypes = []string{
	typeMessage, typeReasoning, typeCall, typeCallOutput, typeCustom, typeCustomOutput, typeItemReference,
}

// readKnown reads an item with a known type or without a type.
func (q *asked) readKnown(path string, raw json.RawMessage) (Item, error) {
	var r rawItem
	if err := wire.Object(path, raw, &r); err != nil {
		return nil, err
	}
	id := ""
	if r.ID != nil {
		id = *r.ID
	}
	kind := typeMessage
	switch {
	case r.Type != nil:
		kind = *r.Type
	case r.Role == nil && id != "":
		kind = typeItemReference
	}
	switch kind {
	case typeMessage:
		return q.readMessage(path, id, &r)
	case typeReasoning:
		return readReasoning(path, id, &r)
	case typeCall:
		return readCall(path, id, &r)
	case typeCallOutput, typeCustomOutput:
		return q.readCallOutput(path, id, kind, &r)
	case typeCustom:
		return readCustomCall(path, id, &r)
	case typeItemReference:
		if id == "" {
			return nil, wire.Invalid(path+".id", "it names the item; it is missing")
		}
		return &reference{id}, nil
	}
	return nil, wire.Invalid(path+".type", "%q is not known", wire.Clip(kind)) // readItem has left it out
}

func (q *asked) readMessage(path, id string, r *rawItem) (Item, error) {
	m := &Message{ID: id, Type: typeMessage, Status: statusCompleted}
	if r.Role != nil {
		m.Role = *r.Role
	}
	plain := partInput
	switch chattemplate.Role(m.Role) {
	case chattemplate.User, chattemplate.System, chattemplate.Developer:
	case chattemplate.Assistant:
		plain = partOutput
		if r.Phase != nil {
			m.Phase = *r.Phase
		}
	default:
		return nil, wire.Invalid(path+".role", "it takes user, assistant, system or developer")
	}
	var err error
	m.Content, err = readParts(path+".content", r.Content, plain, q.unread(m.Role == string(chattemplate.User)))
	return m, err
}

// readParts reads content that is a string or a list of parts. plain is the type of the part for a string, and for
// parts that mean the same. unread gets a warning about parts that are not text; if it is nil, they are refused.
func readParts(path string, raw json.RawMessage, plain string, unread *wire.Warnings) ([]Part, error) {
	if !wire.Given(raw) {
		return nil, wire.Invalid(path, "it takes a text or a list of parts; it is missing")
	}
	parts := []Part{}
	err := wire.TextOrEach(path, raw, func(s string) { parts = append(parts, Part{Type: plain, Text: s}) },
		func(path string, p *rawPart) error {
			part, err := p.read(path, plain, unread)
			parts = append(parts, part)
			return err
		})
	return parts, err
}

// unread returns what gets warnings about parts of the item that are not text. It is nil in the last item if that is
// said by the user, because the model would answer without having seen the part.
func (q *asked) unread(said bool) *wire.Warnings {
	if said && q.last {
		return nil
	}
	return &q.warnings
}

// rawPart is a part before its type is known.
type rawPart struct {
	Type    string          `json:"type"`
	Text    json.RawMessage `json:"text"`
	Refusal json.RawMessage `json:"refusal"`
}

func (p *rawPart) read(path, plain string, unread *wire.Warnings) (Part, error) {
	switch p.Type {
	case partInput, partOutput, "text":
		said, err := wire.Text(path+".text", p.Text)
		return Part{Type: plain, Text: said}, err
	case partRefusal:
		if plain != partOutput {
			return Part{}, wire.Invalid(path+".type", "only an assistant refuses")
		}
		said, err := wire.Text(path+".refusal", p.Refusal)
		return Part{Type: partRefusal, Text: said}, err
	}
	if unread == nil {
		return Part{}, wire.Unsupported(path+".type", "the models here read text only; use input_text or output_text")
	}
	return Part{Type: plain, Text: contract.Unread(unread, path, p.Type)}, nil
}

func readReasoning(path, id string, r *rawItem) (Item, error) {
	item := &Reasoning{ID: id, Type: typeReasoning, Status: statusCompleted, Summary: []Part{}}
	if r.EncryptedContent != nil {
		item.EncryptedContent = *r.EncryptedContent
	}
	for _, f := range []struct {
		name, kind string
		raw        json.RawMessage
		to         *[]Part
	}{{".summary", partSummary, r.Summary, &item.Summary}, {".content", partReasoning, r.Content, &item.Content}} {
		if !wire.Given(f.raw) {
			continue
		}
		list, err := wire.List(path+f.name, f.raw)
		if err != nil {
			return nil, err
		}
		err = wire.Each(path+f.name, list, func(path string, p *rawPart) error {
			if p.Type != f.kind && p.Type != "text" {
				return wire.Invalid(path+".type", "it takes %s", f.kind)
			}
			said, err := wire.Text(path+".text", p.Text)
			*f.to = append(*f.to, Part{Type: f.kind, Text: said})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return item, nil
}

func readCall(path, id string, r *rawItem) (Item, error) {
	c := &FunctionCall{ID: id, Type: typeCall, Status: statusCompleted}
	for _, f := range []struct {
		name  string
		value *string
		to    *string
		empty bool
	}{{".call_id", r.CallID, &c.CallID, false}, {".name", r.Name, &c.Name, false},
		{".arguments", r.Arguments, &c.Arguments, true}} {
		if f.value == nil || !f.empty && *f.value == "" {
			return nil, wire.Invalid(path+f.name, "it is missing")
		}
		*f.to = *f.value
	}
	if r.Namespace != nil {
		c.Namespace = *r.Namespace
	}
	if !chattemplate.ValidName(fullName(c.Namespace, c.Name)) {
		return nil, wire.Invalid(path+".name", chattemplate.NameAdvice)
	}
	return c, nil
}

// readCustomCall reads a call of a custom tool.
func readCustomCall(path, id string, r *rawItem) (Item, error) {
	if r.Input == nil {
		return nil, wire.Invalid(path+".input", "it is missing")
	}
	r.Arguments = r.Input
	item, err := readCall(path, id, r)
	if err != nil {
		return nil, err
	}
	item.(*FunctionCall).Type = typeCustom
	return item, nil
}

func (q *asked) readCallOutput(path, id, kind string, r *rawItem) (Item, error) {
	o := &FunctionCallOutput{ID: id, Type: kind, Status: statusCompleted, Output: r.Output}
	if r.CallID == nil || *r.CallID == "" {
		return nil, wire.Invalid(path+".call_id", "it names the call; it is missing")
	}
	o.CallID = *r.CallID
	parts, err := readParts(path+".output", r.Output, partInput, q.unread(false))
	if err != nil {
		return nil, err
	}
	o.text = joined(parts)
	return o, nil
}

// joined joins the texts of parts with line breaks, as other servers do.
func joined(parts []Part) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.Text
	}
	return strings.Join(texts, "\n")
}
