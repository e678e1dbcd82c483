package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// ReadJSON reads the body of a request, one JSON value, into v. Unknown fields are collected in v's [Unread] if it has
// one. Errors are an *Error that names the wrong field. The server limits the length of bodies, their memory and their
// work, see [Budget]; an *Error from reading the body is returned unchanged. What its beginning shows to be over a
// limit is refused before the rest is read. If ReadJSON returns nil, the request still has work, see [Work].
func ReadJSON(r *http.Request, v any) error {
	s := newShape(mostEntries(v))
	body, err := readBody(r, s)
	var large *http.MaxBytesError
	var own *Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &large):
		return Errorf(CodeTooLarge, "the body is longer than the %d bytes that are allowed (--max-body)", large.Limit).
			Because(err)
	case r.Context().Err() != nil:
		return FromError(context.Cause(r.Context()), nil)
	case err != nil:
		return Errorf(CodeInvalidJSON, "the body broke off").Because(err)
	}
	if !utf8.Valid(body) {
		return Errorf(CodeInvalidJSON, "the body is not UTF-8 text")
	}
	length := int64(len(body))
	if err := Reserve(r, BodyCost(length, s.values)-BodyCost(length, 0)); err != nil {
		return err
	}
	return decode(body, v)
}

// bodyPiece is how much of a body is read before it is looked at.
const bodyPiece = 64 << 10

// readBody reads a body and takes its shape. It stops early if the shape is refused. If the length is known, its memory
// is allocated at once, after the first piece has arrived. When readBody returns nil, the request has work.
func readBody(r *http.Request, s *shape) ([]byte, error) {
	values, depth := shapeOf(r)
	body := make([]byte, 0, 512)
	for {
		n, err := r.Body.Read(body[len(body):min(cap(body), len(body)+bodyPiece)])
		body = body[:len(body)+n]
		if err == io.EOF || len(body)-s.at >= bodyPiece {
			if err := Work(r); err != nil {
				return body, err
			}
			s.more(body)
			if err == io.EOF {
				s.end()
			}
			if err := s.refuse(values, depth); err != nil {
				return body, err
			}
			if err != io.EOF {
				Rest(r)
			}
		}
		switch {
		case err == io.EOF:
			return body, nil
		case err != nil:
			return body, err
		case len(body) == cap(body):
			length := 2 * len(body)
			if int64(len(body)) <= r.ContentLength {
				length = int(r.ContentLength) + 1
			}
			if len(body) < bodyPiece {
				length = min(length, bodyPiece)
			}
			body = slices.Grow(body, length-len(body))
		}
	}
}

// Unmarshal decodes JSON with the limits of v's fields and the errors of ReadJSON.
func Unmarshal(body []byte, v any) error {
	if most := mostEntries(v); most != nil {
		if err := look(body, most).tooMany(); err != nil {
			return err
		}
	}
	return decode(body, v)
}

func decode(body []byte, v any) error {
	err := json.Unmarshal(body, v)
	if err == nil {
		err = inRange(v)
	}
	if u, ok := v.(interface{ unread() *Unread }); ok && err == nil {
		u.unread().look("", body, fieldsOf(reflect.TypeOf(v).Elem()))
	}
	var own *Error
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return own
	case errors.As(err, &wrong) && wrong.Field != "":
		return Invalid(fieldPath(wrong.Field), "%s cannot stand here; it takes %s", jsonName(clip(wrong.Value)),
			jsonName(wrong.Type.Kind().String())).Because(err)
	case errors.As(err, &wrong):
		return Errorf(CodeInvalidJSON, "the body has to be a JSON object").Because(err)
	case errors.As(err, &syntax) && len(body) > 0:
		return Errorf(CodeInvalidJSON, "the body is not valid JSON at byte %d", syntax.Offset).Because(err)
	}
	return Errorf(CodeInvalidJSON, "the body is not valid JSON").Because(err)
}

// fieldPath removes the names of embedded structs from a field's path in an error of package json. Fields of requests
// begin with a lower-case letter.
func fieldPath(path string) string {
	names := strings.Split(path, ".")
	names = slices.DeleteFunc(names, func(name string) bool { return name != "" && name[0] >= 'A' && name[0] <= 'Z' })
	return strings.Join(names, ".")
}

// clip shortens a long number for an error.
func clip(value string) string {
	const most = 40
	if len(value) <= most {
		return value
	}
	return value[:most] + "..."
}

// Given reports whether an optional value is present and not null.
func Given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// UnmarshalAt decodes the part of a body at path, as Unmarshal does.
func UnmarshalAt(path string, raw json.RawMessage, v any) error {
	err := Unmarshal(raw, v)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field == "" {
		return Invalid(path, "%s cannot stand here", jsonName(clip(wrong.Value)))
	}
	return Under(path, err)
}

// Under adds to an error about a part of a body the path of that part.
func Under(path string, err error) error {
	var own *Error
	if !errors.As(err, &own) {
		return err
	}
	placed := *own
	if placed.Param = path; own.Param != "" {
		placed.Param += "." + own.Param
	}
	return &placed
}

// jsonName names a Go kind, or a value in package json's word for it, as JSON does and with an article.
func jsonName(word string) string {
	switch {
	case strings.HasPrefix(word, "int"), strings.HasPrefix(word, "uint"):
		return "a whole number"
	case strings.HasPrefix(word, "float"):
		return "a number"
	case word == "bool":
		return "true or false"
	case word == "slice", word == "array":
		return "a list"
	case word == "struct", word == "map", word == "object":
		return "an object"
	}
	return "a " + word
}

// NewJSON returns an encoder that writes each value in one line. It writes <, > and & as they are: clients look for
// words such as "2 tokens > 1 maximum" in the text as it comes.
func NewJSON(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// Marshal returns a value as NewJSON writes it, without a line end.
func Marshal(v any) ([]byte, error) {
	var text bytes.Buffer
	err := NewJSON(&text).Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// Quote returns a text as a JSON string.
func Quote(s string) string {
	text, _ := Marshal(s) // texts can always be written
	return string(text)
}

// WriteJSON answers with a JSON value.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	body, err := Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError,
			[]byte(`{"error":{"message":"the answer cannot be written as JSON","code":"internal_error"}}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	p := parts{w: w, control: http.NewResponseController(w)}
	for part := range slices.Chunk(body, writePart) {
		if p.write(part) != nil {
			return
		}
	}
}

// parts writes an answer in parts, each with a deadline, so that a client that does not read cannot hold a model for
// long. Only writers in tests have no deadlines.
type parts struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (p *parts) write(part []byte) error {
	_ = p.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := p.w.Write(part)
	return err
}

// Answer answers with a JSON value and status 200. It always returns nil, for a [Handler] to return.
func Answer(w http.ResponseWriter, v any) error {
	WriteJSON(w, http.StatusOK, v)
	return nil
}

// WriteList answers with a JSON object that has one field, a list of n values. The list is written in parts and is
// never in memory as a whole. Making a part of a long list is work, see [Work].
func WriteList(w http.ResponseWriter, r *http.Request, field string, n int, value func(i int) any) {
	if Work(r) != nil {
		return // the client has gone
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	p := parts{w: w, control: http.NewResponseController(w)}
	var buf bytes.Buffer
	enc := NewJSON(&buf)
	buf.WriteString("{" + Quote(field) + ":[")
	for i := range n {
		if i > 0 {
			buf.WriteByte(',')
		}
		_ = enc.Encode(value(i))    // values of these types never fail
		buf.Truncate(buf.Len() - 1) // the line end
		if buf.Len() >= listPart {
			Rest(r)
			if p.write(buf.Bytes()) != nil || Work(r) != nil {
				return
			}
			buf.Reset()
		}
	}
	Rest(r)
	buf.WriteString("]}")
	_ = p.write(buf.Bytes())
}

// writePart is the number of bytes that a client must read within writeTimeout. listPart is how many bytes of a
// list are written at once.
const (
	writePart = 1 << 20
	listPart  = 64 << 10
)

// Refuser is a writer that counts the errors written to it by their codes.
type Refuser interface{ Refused(code string) }

// WriteError answers with an error. Nothing has been written before. body is the error in the format's shape. Headers
// say whether and when to try again: Retry-After in whole seconds, and X-Should-Retry, which the official clients of
// OpenAI and Anthropic obey. It counts the error, see [CountRefusal].
func WriteError(w http.ResponseWriter, e *Error, body any) {
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((e.RetryAfter+999_999_999)/1_000_000_000)))
	}
	if e.Final {
		w.Header().Set("X-Should-Retry", "false")
	}
	CountRefusal(w, e)
	WriteJSON(w, e.Status, body)
}

// PlainError is the body of an answer that failed, in formats whose protocol defines none.
//
//openapi:answer PlainError
type PlainError struct {
	// A message for people. If a field is wrong, it begins with the field's name.
	Message string `json:"message"`
	Code    string `json:"code" api:"#ErrorCode"`
	// The field of the request that is wrong, such as `messages[0].content`.
	Param string `json:"param,omitempty"`
}

// WritePlain answers with an error as a [PlainError].
func WritePlain(w http.ResponseWriter, e *Error) {
	WriteError(w, e, PlainError{e.Error(), e.Code, e.Param})
}

// CountRefusal counts an error if w is a [Refuser]. WriteError calls it. Formats call it if they answer in another way.
func CountRefusal(w http.ResponseWriter, e *Error) {
	if r, ok := w.(Refuser); ok {
		r.Refused(e.Code)
	}
}
