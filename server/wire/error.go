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

// Errorf returns an error with a status and a code.
func Errorf(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invalid returns an error about a wrong field of the request.
func Invalid(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Code: CodeInvalid, Param: param, Message: fmt.Sprintf(format, args...)}
}

// Unsupported returns an error about a field of the request that is valid but asks for something that is not supported.
func Unsupported(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Code: CodeUnsupported, Param: param,
		Message: fmt.Sprintf(format, args...)}
}

// Causes with which the server ends the context of a request.
var (
	// ErrTimeout: the request took longer than it may.
	ErrTimeout = errors.New("the request took longer than the server allows")
	// ErrDraining: the server is stopping.
	ErrDraining = errors.New("the server is stopping")
)

// FromError returns what to answer to a request that failed with err. params maps the fields of [generation.Request]
// to the format's names. Those of Sampling are there as in "Sampling.TypicalP"; "Sampling" alone is for errors that
// name none of them.
func FromError(err error, params map[string]string) *Error {
	var own *Error
	var request *generation.RequestError
	var long *generation.PromptTooLongError
	var visibility *reasoning.VisibilityError
	var conversation *chattemplate.ConversationError
	var template *chattemplate.TemplateError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &request):
		return &Error{Status: http.StatusBadRequest, Code: CodeInvalid, Param: params[request.Path()],
			Message: advised(request.Err, request.Hint()), Err: err}
	case errors.As(err, &long):
		return tooLong(long, params[cmp.Or(long.Field, "Messages")], err)
	case errors.As(err, &visibility):
		return &Error{Status: http.StatusForbidden, Code: CodeForbidden, Param: params["Visibility"],
			Message: advised(err, visibility.Hint()), Err: err}
	case errors.Is(err, generation.ErrQueueFull):
		return &Error{Status: http.StatusTooManyRequests, Code: CodeQueue,
			Message: "too many requests are waiting; try again soon", RetryAfter: time.Second, Err: err}
	case errors.Is(err, ErrTimeout):
		return &Error{Status: http.StatusServiceUnavailable, Code: CodeTimeout, Message: ErrTimeout.Error(),
			Final: true, Err: err}
	case errors.Is(err, ErrDraining), errors.Is(err, generation.ErrClosed):
		return &Error{Status: http.StatusServiceUnavailable, Code: CodeDraining, Message: ErrDraining.Error(),
			RetryAfter: 5 * time.Second, Err: err}
	case errors.Is(err, generation.ErrChanged):
		return &Error{Status: http.StatusServiceUnavailable, Code: CodeModelChanged, Param: params["Model"], Err: err,
			Message: generation.ErrChanged.Error() + "; the operator has to restore them or to start the server again"}
	case errors.Is(err, generation.ErrBadLogits):
		return &Error{
			Status: http.StatusServiceUnavailable, Code: CodeModelUnusable, RetryAfter: 5 * time.Second, Err: err,
			Message: "the model's engine fails; try again soon, and the server's log says more",
		}
	case errors.Is(err, generation.ErrCrashed):
		return &Error{
			Status: http.StatusServiceUnavailable, Code: CodeUnavailable, RetryAfter: time.Second, Err: err,
			Message: "the model's engine crashed; try again soon, and the server's log says more",
		}
	case errors.Is(err, generation.ErrOtherModel):
		return &Error{
			Status: http.StatusServiceUnavailable, Code: CodeModelChanged, Param: params["Model"],
			RetryAfter: 10 * time.Second, Err: err,
			Message: generation.ErrOtherModel.Error() + "; the operator has to bring the old one back or to start the server " +
				"again",
		}
	case errors.Is(err, generation.ErrUnavailable):
		after, when := retryAfter(err)
		return &Error{
			Status: http.StatusServiceUnavailable, Code: CodeUnavailable, RetryAfter: after, Err: err,
			Message: "the model's engine is not available; try again " + when + ", and the server's log says more",
		}
	case errors.Is(err, generation.ErrRefused):
		return &Error{Status: http.StatusBadRequest, Code: CodeUnsupported, Err: err,
			Message: "the model's engine refuses the request, and the server's log says more"}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &Error{Status: StatusClientClosed, Code: CodeClientCancelled, Message: "the request was cancelled", Err: err}
	case errors.As(err, &conversation):
		return &Error{Status: http.StatusBadRequest, Code: CodeInvalid, Param: params["Messages"],
			Message: advised(err, conversation.Hint()), Err: err}
	case errors.As(err, &template) && template.Rendering:
		return &Error{Status: http.StatusBadRequest, Code: CodeInvalid, Param: params["Messages"],
			Message: advised(err, template.Hint()), Err: err}
	}
	return &Error{Status: http.StatusInternalServerError, Code: CodeInternal,
		Message: "the model failed; the server's log says more", Err: err}
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

// retryAfter returns how long a client should wait for an engine that is not available, and says it in words. It is
// what the engine asks for, within limits. The words are for streams that have begun, which have no header for it.
func retryAfter(err error) (after time.Duration, when string) {
	const usual, least, most = 2 * time.Second, time.Second, 10 * time.Minute
	var e *generation.UnavailableError
	if !errors.As(err, &e) || e.After <= 0 {
		return usual, "soon"
	}
	after = min(max(e.After, least), most)
	return after, fmt.Sprintf("in %.0f s", math.Ceil(after.Seconds()))
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
	message := fmt.Sprintf("This model's maximum context length is %d tokens. However, your %s resulted in %s. "+
		"Please reduce the length of the %s.",
		long.Context, field, resulted, field)
	return &Error{Status: http.StatusBadRequest, Code: CodeContextLength, Param: param, Message: message, Err: err}
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
