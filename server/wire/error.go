package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
)

// Error is what a failed request is answered with. Formats give it their own shape.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Code names the kind of error for programs. It is one of the constants below.
	Code string
	// Param is the wrong field of the request, named as the format does, for example messages[0].content; may be empty.
	Param string
	// Message is for people. It may quote the request, so it must not be logged. With CodeContextLength it has the words
	// that clients look for, and names the field itself.
	Message string
	// RetryAfter is how long to wait before trying again; 0 if unknown.
	RetryAfter time.Duration
	// Final says that trying again would fail the same way at the same cost. Without it clients repeat requests that
	// fail with a status of 500 or more.
	Final bool
	// Err is the cause; may be nil.
	Err error
}

// The codes of errors. Package seal has those of sealed values.
const (
	CodeInvalid         = "invalid_value"
	CodeInvalidJSON     = "invalid_json"
	CodeUnsupported     = "unsupported_value"
	CodeTooLarge        = "request_too_large"
	CodeContextLength   = "context_length_exceeded"
	CodeNoKey           = "missing_api_key"
	CodeBadKey          = "invalid_api_key"
	CodeForbidden       = "permission_denied"
	CodeOrigin          = "origin_not_allowed"
	CodeHost            = "host_not_allowed"
	CodeModel           = "model_not_found"
	CodeModelInUse      = "model_in_use"
	CodeGated           = "model_gated"
	CodeHub             = "hub_failed"
	CodeDiskFull        = "disk_full"
	CodeNotFound        = "not_found"
	CodeMethod          = "method_not_allowed"
	CodeEncoding        = "unsupported_encoding"
	CodeRate            = "rate_limit_exceeded"
	CodeQueue           = "queue_full"
	CodeConnections     = "too_many_connections"
	CodeBusy            = "server_busy"
	CodeTimeout         = "request_timeout"
	CodeDraining        = "server_stopping"
	CodeModelUnusable   = "model_unusable"
	CodeUnavailable     = "model_unavailable"
	CodeModelChanged    = "model_changed"
	CodeInternal        = "internal_error"
	CodeClientCancelled = "client_cancelled"
)

// StatusClientClosed is the status, in logs and metrics, of a request whose client has gone. The number is nginx's.
const StatusClientClosed = 499

func (e *Error) Error() string {
	if e.Param != "" && e.Code != CodeContextLength {
		return e.Param + ": " + e.Message
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an error with a code, and the status that goes with it.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Status: statusOf(code), Code: code, Message: fmt.Sprintf(format, args...)}
}

// At says that a field of the request is wrong. It returns the error.
func (e *Error) At(param string) *Error {
	e.Param = param
	return e
}

// Because sets the cause. It returns the error.
func (e *Error) Because(err error) *Error {
	e.Err = err
	return e
}

// Invalid returns an error about a wrong field of the request.
func Invalid(param, format string, args ...any) *Error {
	return Errorf(CodeInvalid, format, args...).At(param)
}

// Unsupported returns an error about a field of the request that is valid but asks for something that is not supported.
func Unsupported(param, format string, args ...any) *Error {
	return Errorf(CodeUnsupported, format, args...).At(param)
}

// statusOf returns the status of errors with a code. Codes of formats and about the request have 400.
func statusOf(code string) int {
	switch code {
	case CodeNoKey, CodeBadKey:
		return http.StatusUnauthorized
	case CodeForbidden, CodeOrigin, CodeHost, CodeGated:
		return http.StatusForbidden
	case CodeModel, CodeNotFound:
		return http.StatusNotFound
	case CodeMethod:
		return http.StatusMethodNotAllowed
	case CodeModelInUse:
		return http.StatusConflict
	case CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case CodeEncoding:
		return http.StatusUnsupportedMediaType
	case CodeRate, CodeQueue:
		return http.StatusTooManyRequests
	case CodeClientCancelled:
		return StatusClientClosed
	case CodeInternal:
		return http.StatusInternalServerError
	case CodeHub, CodeDiskFull, CodeConnections, CodeBusy, CodeTimeout, CodeDraining, CodeModelUnusable, CodeUnavailable,
		CodeModelChanged:
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest
}

// Causes with which the server ends the context of a request.
var (
	// ErrTimeout: the request took longer than it may.
	ErrTimeout = errors.New("the request took longer than the server allows")
	// ErrDraining: the server is stopping.
	ErrDraining = errors.New("the server is stopping")
)

// failures are the errors that are known by their identity, and what to answer. The first that an error is counts.
var failures = []struct {
	err     error
	code    string
	after   time.Duration
	message string
}{
	{generation.ErrQueueFull, CodeQueue, time.Second, "too many requests are waiting; try again soon"},
	{ErrTimeout, CodeTimeout, 0, ErrTimeout.Error()},
	{ErrDraining, CodeDraining, 5 * time.Second, ErrDraining.Error()},
	{generation.ErrClosed, CodeDraining, 5 * time.Second, ErrDraining.Error()},
	{generation.ErrChanged, CodeModelChanged, 0,
		generation.ErrChanged.Error() + "; the operator has to restore them or to start the server again"},
	{generation.ErrBadLogits, CodeModelUnusable, 5 * time.Second,
		"the model's engine fails; try again soon, and the server's log says more"},
	{generation.ErrCrashed, CodeUnavailable, time.Second,
		"the model's engine crashed; try again soon, and the server's log says more"},
	{generation.ErrOtherModel, CodeModelChanged, 10 * time.Second,
		generation.ErrOtherModel.Error() + "; the operator has to bring the old one back or to start the server again"},
	{generation.ErrUnavailable, CodeUnavailable, 2 * time.Second,
		"the model's engine is not available; try again soon, and the server's log says more"},
	{generation.ErrRefused, CodeUnsupported, 0, "the model's engine refuses the request, and the server's log says more"},
	{context.Canceled, CodeClientCancelled, 0, "the request was cancelled"},
	{context.DeadlineExceeded, CodeClientCancelled, 0, "the request was cancelled"},
}

// FromError returns what to answer to a request that failed with err. params maps the fields of [generation.Request]
// to the format's names. Those of Sampling are there as in "Sampling.TypicalP"; "Sampling" alone is for errors that
// name none of them.
func FromError(err error, params map[string]string) *Error {
	var own *Error
	var request *generation.RequestError
	var long *generation.PromptTooLongError
	var visibility *reasoning.VisibilityError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &request):
		return Invalid(params[request.Path()]+request.Within, "%s", advised(request.Err, request.Hint())).Because(err)
	case errors.As(err, &long):
		return tooLong(long, params[cmp.Or(long.Field, "Messages")], err)
	case errors.As(err, &visibility):
		return Errorf(CodeForbidden, "%s", advised(err, visibility.Hint())).At(params["Visibility"]).Because(err)
	}
	for _, f := range failures {
		if errors.Is(err, f.err) {
			e := Errorf(f.code, "%s", f.message).Because(err)
			e.RetryAfter, e.Final = f.after, f.err == ErrTimeout
			if f.code == CodeModelChanged {
				e.Param = params["Model"]
			}
			if f.err == generation.ErrUnavailable {
				e.wait()
			}
			return e
		}
	}
	var conversation *chattemplate.ConversationError
	var template *chattemplate.TemplateError
	switch {
	case errors.As(err, &conversation):
		return Invalid(params["Messages"], "%s", advised(err, conversation.Hint())).Because(err)
	case errors.As(err, &template) && template.Rendering:
		return Invalid(params["Messages"], "%s", advised(err, template.Hint())).Because(err)
	}
	return Errorf(CodeInternal, "the model failed; the server's log says more").Because(err)
}

// FromLong is FromError for a format with words of its own for a prompt that is longer than the context: clients look
// for them and then shorten the conversation. message is what FromError says.
func FromLong(err error, params map[string]string,
	words func(long *generation.PromptTooLongError, message string) string) *Error {
	e := FromError(err, params)
	var long *generation.PromptTooLongError
	if errors.As(err, &long) {
		told := *e
		told.Message = words(long, e.Message)
		return &told
	}
	return e
}

// wait takes over, within limits, how long the cause asks to wait. The message has it too, for streams that have begun,
// which have no header for it.
func (e *Error) wait() {
	const least, most = time.Second, 10 * time.Minute
	var busy *generation.UnavailableError
	if errors.As(e.Err, &busy) && busy.After > 0 {
		e.RetryAfter = min(max(busy.After, least), most)
		e.Message = strings.Replace(e.Message, "soon", fmt.Sprintf("in %.0f s", math.Ceil(e.RetryAfter.Seconds())), 1)
	}
}

// tooLong returns the error for a field that is longer than the context. The words are OpenAI's: clients look for them
// and then shorten the conversation.
func tooLong(long *generation.PromptTooLongError, param string, err error) *Error {
	field := cmp.Or(param, "messages")
	resulted := fmt.Sprintf("%d tokens", long.Tokens)
	switch long.Tokens {
	case 0:
		resulted = fmt.Sprintf("more than %d tokens", long.Context)
	case long.Context:
		resulted += ", which leave no room for an answer"
	}
	return Errorf(CodeContextLength, "This model's maximum context length is %d tokens. However, your %s resulted in %s. "+
		"Please reduce the length of the %s.", long.Context, field, resulted, field).At(param).Because(err)
}

// advised returns the text of an error followed by its hint.
func advised(err error, hint string) string {
	if hint == "" {
		return err.Error()
	}
	return strings.TrimSuffix(err.Error(), ".") + "; " + hint
}

// Clip shortens a client's text for use in a message.
func Clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
