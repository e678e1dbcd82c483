package anthropic

import (
	"fmt"
	"net/http"

	"runner/generation"
	"runner/server/wire"
)

// requestID returns the id of a request and sets the header in which Anthropic's clients look for it. It is the
// server's id, if there is one.
func (a *API) requestID(w http.ResponseWriter) string {
	h := w.Header()
	id := h.Get("Request-Id")
	if id == "" {
		if id = h.Get("X-Request-Id"); id == "" {
			id = a.cfg.NewID("req_")
		}
		h.Set("Request-Id", id)
	}
	return id
}

// ErrorResponse is the body of an error, and the data of an error event.
//
//openapi:answer AnthropicError
type ErrorResponse struct {
	// The type of this object.
	Type  string      `json:"type" api:"=error"`
	Error ErrorDetail `json:"error"`
	// The id of the request, as in the headers `Request-Id` and `X-Request-Id`.
	RequestID string `json:"request_id"`
}

// ErrorDetail says what is wrong.
//
//openapi:answer AnthropicErrorDetail
type ErrorDetail struct {
	// The kind of error. Anthropic's clients choose the class of their exceptions by it.
	Type string `json:"type" api:"#AnthropicErrorType"`
	// A message for people. If a field is wrong, it begins with the field's name.
	Message string `json:"message"`
	// Details for programs.
	Details ErrorDetails `json:"details"`
}

// ErrorDetails is for programs.
//
//openapi:answer
type ErrorDetails struct {
	ErrorCode string `json:"error_code" api:"#ErrorCode"`
	// The field of the request that is wrong, such as `messages[0].content[1]`.
	Param string `json:"param,omitempty"`
}

// codeThread is Anthropic's code for a thread that the server cannot continue. Clients then send the whole
// conversation.
const codeThread = "thread_unsupported_request"

// fields are this format's names of the fields of [generation.Request].
var fields = wire.Names[MessagesRequest]("", map[string]string{
	"Continues": "messages",
	"ToolName":  "tool_choice.name", "Form": "output_config.format", "ResponseFormat": "output_config.format",
	"Visibility": "thinking", "Effort": "output_config.effort", "Budget": "thinking.budget_tokens",
})

// wireError converts an error of any kind. For a prompt that is too long it has Anthropic's words.
func wireError(err error) *wire.Error {
	return wire.FromLong(err, fields, func(long *generation.PromptTooLongError, _ string) string {
		if long.Tokens == 0 {
			return fmt.Sprintf("prompt is too long: at least %d tokens > %d maximum", long.Context+1, long.Context)
		}
		// A prompt that fills the context leaves no room for an answer.
		return fmt.Sprintf("prompt is too long: %d tokens > %d maximum", long.Tokens, min(long.Context, long.Tokens-1))
	})
}

// WriteError answers with an error in Anthropic's shape.
func (a *API) WriteError(w http.ResponseWriter, err error) {
	e := wireError(err)
	wire.WriteError(w, e, errorResponse(e, a.requestID(w)))
}

func errorResponse(e *wire.Error, id string) ErrorResponse {
	return ErrorResponse{
		Type: "error", RequestID: id,
		Error: ErrorDetail{Type: errorType(e), Message: e.Error(), Details: ErrorDetails{ErrorCode: e.Code, Param: e.Param}},
	}
}

// errorType returns Anthropic's type of an error.
func errorType(e *wire.Error) string {
	switch e.Status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return "timeout_error"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusServiceUnavailable:
		if e.Code == wire.CodeTimeout {
			return "timeout_error"
		}
		return "overloaded_error"
	}
	if e.Status >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}
