package envelope

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Protocol is the supported version of the protocol.
const Protocol = "mew/v0.4"

// The kinds of envelopes that this program knows. A space passes on other kinds unchanged.
const (
	Chat          = "chat"
	ChatCancel    = "chat/cancel"
	Start         = "reasoning/start"
	Thought       = "reasoning/thought"
	Conclusion    = "reasoning/conclusion"
	Cancel        = "reasoning/cancel"
	MCPRequest    = "mcp/request"
	MCPResponse   = "mcp/response"
	MCPProposal   = "mcp/proposal"
	MCPReject     = "mcp/reject"
	StreamRequest = "stream/request"
	StreamOpen    = "stream/open"
	StreamClose   = "stream/close"
	Welcome       = "system/welcome"
	Presence      = "system/presence"
	Error         = "system/error"
)

// The limits of an envelope.
const (
	// MaxSize is the maximum size of an envelope in bytes.
	MaxSize = 1 << 20
	// MaxID is the maximum length in bytes of the id of a message or participant.
	MaxID = 128
	// MaxIDs is the maximum number of ids in to and in correlation_id.
	MaxIDs = 64
	// MaxContext is the maximum length of a context in bytes, and MaxNesting the maximum number of ids in it.
	MaxContext = 2048
	MaxNesting = 16
	maxKind    = 64
	maxDepth   = 64
)

// Envelope is one message.
type Envelope struct {
	// ID is the message's id in its space.
	ID string
	// Time is when it was sent; zero if the sender did not say.
	Time time.Time
	// From is the sender. To are the recipients; empty means everyone.
	From string
	To   []string
	// Kind is one of the constants above or another kind.
	Kind string
	// Correlation are the ids of the messages that it answers or is about.
	Correlation []string
	// Context is the path of the reasoning that it belongs to: the ids of reasoning/start messages, the outermost first,
	// separated by slashes. It may be empty.
	Context string
	// Payload is a JSON object.
	Payload json.RawMessage
}

// For reports whether the envelope names a participant as a recipient, and whether it names anyone.
func (e *Envelope) For(id string) (named, any bool) {
	return slices.Contains(e.To, id), len(e.To) > 0
}

// Cancels returns the ids of what a cancel ends: those in its correlation_id, and for a reasoning/cancel also the
// innermost reasoning of its context. The rest of the context only says where that reasoning belongs. For other kinds
// it returns none.
func (e *Envelope) Cancels() []string {
	switch {
	case e.Kind == ChatCancel, e.Kind == Cancel && e.Context == "":
		return e.Correlation
	case e.Kind == Cancel:
		return append([]string{e.Enclosing()}, e.Correlation...)
	}
	return nil
}

// Enclosing returns the id of the innermost reasoning that contains the envelope, or an empty string.
func (e *Envelope) Enclosing() string { return e.Context[strings.LastIndexByte(e.Context, '/')+1:] }

// Within returns the context of messages inside the reasoning that a start begins.
func (e *Envelope) Within() string {
	if e.Context == "" {
		return e.ID
	}
	return e.Context + "/" + e.ID
}

// RoomWithin reports whether a context has room for two more levels: a reasoning, and another one inside it.
func RoomWithin(context string) bool {
	return strings.Count(context, "/")+3 <= MaxNesting && len(context)+2*(MaxID+1) <= MaxContext
}

// SyntaxError says what is wrong with an envelope, a frame or a capability.
type SyntaxError struct {
	// Field is the wrong field; empty means the whole.
	Field  string
	Detail string
}

func (e *SyntaxError) Error() string {
	if e.Field == "" {
		return e.Detail
	}
	return e.Field + " " + e.Detail
}

func wrong(field, format string, args ...any) error {
	return &SyntaxError{field, fmt.Sprintf(format, args...)}
}

func wrongID(field string) error {
	return wrong(field, "must be 1 to %d bytes without control characters", MaxID)
}

// Parse reads an envelope. Missing fields are empty, and a missing payload is an empty object; Validate checks what is
// required. If there is an error, the envelope has only its id, if that is valid, so that the error can name the
// message.
func Parse(data []byte) (Envelope, error) {
	fields, err := object(data)
	if err != nil {
		return Envelope{}, err
	}
	return fromFields(fields)
}

func fromFields(fields map[string]json.RawMessage) (Envelope, error) {
	e, err := readFields(fields)
	if err != nil {
		return Envelope{ID: e.ID}, err
	}
	return e, nil
}

func readFields(fields map[string]json.RawMessage) (e Envelope, err error) {
	if err := text(fields, "id", &e.ID); err != nil {
		return e, err
	}
	if e.ID != "" && !ValidID(e.ID) {
		e.ID = ""
		return e, wrongID("id")
	}
	var protocol, ts string
	for name, to := range map[string]*string{"protocol": &protocol, "ts": &ts, "from": &e.From, "kind": &e.Kind,
		"context": &e.Context} {
		if err := text(fields, name, to); err != nil {
			return e, err
		}
	}
	if protocol != "" && protocol != Protocol {
		return e, wrong("protocol", "must be %s", Protocol)
	}
	if ts != "" {
		if e.Time, err = time.Parse(time.RFC3339, ts); err != nil {
			return e, wrong("ts", "is not an RFC 3339 time")
		}
		if e.Time.Year() < 0 || e.Time.Year() > 9999 {
			return e, wrong("ts", "is out of range")
		}
	}
	if e.To, err = list(fields, "to"); err != nil {
		return e, err
	}
	name := "correlation_id"
	if _, ok := fields[name]; !ok {
		name = "correlationId"
	}
	if e.Correlation, err = list(fields, name); err != nil {
		return e, err
	}
	e.Kind = canonicalKind(e.Kind)
	if e.Payload, err = payload(e.Kind, fields["payload"]); err != nil {
		return e, err
	}
	return e, e.check()
}

// canonicalKind returns a kind in v0.4's spelling.
func canonicalKind(kind string) string {
	for _, family := range []string{"reasoning", "mcp"} {
		if rest, ok := strings.CutPrefix(kind, family+"."); ok {
			kind = family + "/" + rest
		}
	}
	if kind == "reasoning/step" {
		return Thought
	}
	return kind
}

// payload returns a payload in v0.4's spelling.
func payload(kind string, raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}"), nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, wrong("payload", "must be an object")
	}
	if message, old := fields["message"]; kind == Chat && old && fields["text"] == nil {
		delete(fields, "message")
		fields["text"] = message
		return json.Marshal(fields)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, wrong("payload", "is not JSON")
	}
	return b.Bytes(), nil
}

// check returns an error for a field that is out of its limits. Empty fields pass.
func (e *Envelope) check() error {
	if e.Kind != "" && !validKind(e.Kind) {
		return wrong("kind", "must be 1 to %d letters, digits, - and _, with slashes between them", maxKind)
	}
	for name, id := range map[string]string{"id": e.ID, "from": e.From} {
		if id != "" && !ValidID(id) {
			return wrongID(name)
		}
	}
	for name, ids := range map[string][]string{"to": e.To, "correlation_id": e.Correlation} {
		if len(ids) > MaxIDs {
			return wrong(name, "has more than %d ids", MaxIDs)
		}
		if !all(ids, ValidID) {
			return wrong(name, "has an id that is not 1 to %d bytes without control characters", MaxID)
		}
	}
	if e.Kind == Start && strings.Contains(e.ID, "/") {
		return wrong("id", "of a reasoning/start cannot have a slash, because it is part of contexts")
	}
	if e.Context == "" {
		return nil
	}
	path := strings.Split(e.Context, "/")
	if len(e.Context) > MaxContext || len(path) > MaxNesting || !all(path, ValidID) {
		return wrong("context", "must be at most %d ids with slashes between them, in %d bytes", MaxNesting, MaxContext)
	}
	return nil
}

// Validate returns an error if an envelope is not valid v0.4.
func (e *Envelope) Validate() error {
	switch {
	case e.ID == "":
		return wrong("id", "is missing")
	case e.From == "":
		return wrong("from", "is missing")
	case e.Kind == "":
		return wrong("kind", "is missing")
	case e.Time.IsZero():
		return wrong("ts", "is missing")
	case e.Kind != canonicalKind(e.Kind):
		return wrong("kind", "is in an older spelling")
	}
	if err := e.check(); err != nil {
		return err
	}
	if !ValidPayload(e.Payload) {
		return wrong("payload", "must be an object within the limits, without duplicate keys")
	}
	return nil
}

// ValidPayload reports whether a payload is a JSON object that is within the limits.
func ValidPayload(payload json.RawMessage) bool {
	_, err := object(payload)
	return err == nil
}

// wireForm is the JSON form of an envelope.
type wireForm struct {
	Protocol    string          `json:"protocol"`
	ID          string          `json:"id"`
	TS          string          `json:"ts"`
	From        string          `json:"from"`
	To          []string        `json:"to,omitempty"`
	Kind        string          `json:"kind"`
	Correlation []string        `json:"correlation_id,omitempty"`
	Context     string          `json:"context,omitempty"`
	Payload     json.RawMessage `json:"payload"`
}

// Append appends the JSON of an envelope to dst, as one line without a line feed. It refuses what Validate refuses.
func (e *Envelope) Append(dst []byte) ([]byte, error) {
	if err := e.Validate(); err != nil {
		return dst, err
	}
	line, err := Pack(wireForm{Protocol, e.ID, e.Time.UTC().Format(time.RFC3339Nano), e.From, e.To, e.Kind, e.Correlation,
		e.Context, e.Payload})
	return append(dst, line...), err
}

// ValidID reports whether a string may be the id of a message or participant.
func ValidID(id string) bool {
	return id != "" && len(id) <= MaxID && utf8.ValidString(id) && strings.IndexFunc(id, func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
	}) < 0
}

func validKind(kind string) bool {
	if len(kind) > maxKind {
		return false
	}
	return all(strings.Split(kind, "/"), func(part string) bool {
		return part != "" && strings.IndexFunc(part, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
		}) < 0
	})
}

func all(texts []string, good func(string) bool) bool {
	return !slices.ContainsFunc(texts, func(s string) bool { return !good(s) })
}

// text reads a string field, if it is there.
func text(fields map[string]json.RawMessage, name string, to *string) error {
	raw := fields[name]
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if json.Unmarshal(raw, to) != nil {
		return wrong(name, "must be a string")
	}
	return nil
}

// list reads a field that is a list of strings or one string, if it is there.
func list(fields map[string]json.RawMessage, name string) ([]string, error) {
	raw := fields[name]
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, nil
	}
	var several []string
	if json.Unmarshal(raw, &several) != nil {
		return nil, wrong(name, "must be a list of strings")
	}
	return several, nil
}

// object reads an object. It refuses duplicate keys in it and in all objects inside it.
func object(data []byte) (map[string]json.RawMessage, error) {
	switch {
	case len(data) > MaxSize:
		return nil, wrong("", "it has more than %d bytes", MaxSize)
	case !utf8.Valid(data):
		return nil, wrong("", "it is not UTF-8")
	}
	if err := keysOnce(data); err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil || fields == nil {
		return nil, wrong("", "it is not one JSON object")
	}
	return fields, nil
}

// keysOnce returns an error for an object with a duplicate key and for too deep nesting.
func keysOnce(data []byte) error {
	type level struct {
		keys map[string]bool // nil in a list
		key  bool            // a key comes next
	}
	var open []level
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	for token, err := d.Token(); err == nil; token, err = d.Token() { // the caller finds invalid JSON
		if token == json.Delim('}') || token == json.Delim(']') {
			open = open[:len(open)-1]
			continue
		}
		if n := len(open); n > 0 && open[n-1].keys != nil {
			top := &open[n-1]
			if top.key {
				name, _ := token.(string)
				if top.keys[name] {
					return wrong("", "an object has a key twice")
				}
				top.keys[name] = true
			}
			if top.key = !top.key; !top.key {
				continue
			}
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{map[string]bool{}, true})
		case json.Delim('['):
			open = append(open, level{})
		}
		if len(open) > maxDepth {
			return wrong("", "it is nested deeper than %d", maxDepth)
		}
	}
	return nil
}
