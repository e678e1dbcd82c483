package wire

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// ReadJSON reads the body of a request, one JSON value, into v. Fields that v does not have are ignored. The errors are an *Error with
// the field's name. How long a body may be is the server's to say, with [http.MaxBytesReader].
func ReadJSON(r *http.Request, v any) error {
	body, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		e := Errorf(http.StatusRequestEntityTooLarge, CodeTooLarge, "the body is longer than the %d bytes that are allowed (--max-body)", large.Limit)
		e.Err = err
		return e
	case err != nil:
		return &Error{Status: http.StatusBadRequest, Code: CodeInvalidJSON, Message: "the body broke off", Err: err}
	}
	if !utf8.Valid(body) {
		return &Error{Status: http.StatusBadRequest, Code: CodeInvalidJSON, Message: "the body is not UTF-8 text"}
	}
	return Unmarshal(body, v)
}

// Unmarshal reads JSON as ReadJSON does.
func Unmarshal(body []byte, v any) error {
	err := json.Unmarshal(body, v)
	var own *Error
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return own
	case errors.As(err, &wrong) && wrong.Field != "":
		return &Error{Status: http.StatusBadRequest, Code: CodeInvalid, Param: fieldPath(wrong.Field), Err: err,
			Message: valueName(clip(wrong.Value)) + " cannot stand here; it takes " + jsonName(wrong.Type.Kind().String())}
	case errors.As(err, &wrong):
		return &Error{Status: http.StatusBadRequest, Code: CodeInvalidJSON, Message: "the body has to be a JSON object", Err: err}
	case errors.As(err, &syntax) && len(body) > 0:
		return &Error{Status: http.StatusBadRequest, Code: CodeInvalidJSON, Err: err,
			Message: "the body is not valid JSON at byte " + strconv.FormatInt(syntax.Offset, 10)}
	}
	return &Error{Status: http.StatusBadRequest, Code: CodeInvalidJSON, Message: "the body is not valid JSON", Err: err}
}

// fieldPath is a field's path without the names of embedded structs, which package json puts into it. Fields of requests begin with a small
// letter.
func fieldPath(path string) string {
	names := strings.Split(path, ".")
	names = slices.DeleteFunc(names, func(name string) bool { return name != "" && name[0] >= 'A' && name[0] <= 'Z' })
	return strings.Join(names, ".")
}

// clip cuts a number of many digits for an error.
func clip(value string) string {
	const most = 40
	if len(value) <= most {
		return value
	}
	return value[:most] + "..."
}

// valueName is a value in the words of package json with its article.
func valueName(value string) string {
	switch value {
	case "bool":
		return "true or false"
	case "array":
		return "a list"
	case "object":
		return "an object"
	}
	return "a " + value
}

// Given reports whether an optional value of a body is there; null is not.
func Given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// UnmarshalAt reads the part of a body that stands at path, as Unmarshal does.
func UnmarshalAt(path string, raw json.RawMessage, v any) error {
	err := Unmarshal(raw, v)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field == "" {
		return Invalid(path, "%s cannot stand here", valueName(clip(wrong.Value)))
	}
	return Under(path, err)
}

// Under says of an error about a part of a body where in the body that part stands.
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

// jsonName names a Go kind as JSON does.
func jsonName(kind string) string {
	switch {
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
		return "a whole number"
	case strings.HasPrefix(kind, "float"):
		return "a number"
	case kind == "bool":
		return "true or false"
	case kind == "slice", kind == "array":
		return "a list"
	case kind == "struct", kind == "map":
		return "an object"
	}
	return "a " + kind
}

// WriteJSON answers with a JSON value.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":{"message":"the answer cannot be written as JSON","code":"internal_error"}}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// A client that does not read is given up, so that it holds no model. Writers without deadlines are those of tests, and whether the client
	// is still there shows in the request's context.
	control := http.NewResponseController(w)
	for part := range slices.Chunk(body, writePart) {
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := w.Write(part); err != nil {
			return
		}
	}
}

// writePart is how many bytes of an answer a client has writeTimeout for.
const writePart = 1 << 20

// SetRetryAfter sets the header of an error that says when to try again, in whole seconds.
func SetRetryAfter(w http.ResponseWriter, e *Error) {
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((e.RetryAfter+999_999_999)/1_000_000_000)))
	}
}
