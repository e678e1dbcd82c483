// Package apierror has OpenAI's shape of errors. The OpenAI formats use it, and routes that belong to no format.
//
// The status and the code of an error come from package wire.
package apierror

import (
	"net/http"

	"runner/server/wire"
)

// Body is the body of an error.
//
// Why a request was not answered.
//
//openapi:answer Error
type Body struct {
	Error Detail `json:"error"`
}

// Detail says what is wrong.
//
//openapi:answer ErrorDetail
type Detail struct {
	// A message for people. It says what is wrong and what to do, and may quote the request.
	Message string `json:"message"`
	// The class of the error. OpenAI's clients choose their exceptions by it.
	Type string `json:"type" api:"#ErrorType"`
	// The field of the request that is wrong, such as `messages[0].content`. Null if the error is not about a field.
	Param *string `json:"param"`
	Code  string  `json:"code" api:"#ErrorCode"`
}

// New returns an error in OpenAI's shape.
func New(e *wire.Error) Body {
	d := Detail{Message: e.Error(), Type: typeOf(e.Status), Code: e.Code}
	if e.Param != "" {
		d.Param = &e.Param
	}
	return Body{d}
}

// typeOf returns the class of an error with a status.
func typeOf(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "authentication_error"
	case status == http.StatusForbidden:
		return "permission_error"
	case status == http.StatusNotFound:
		return "not_found_error"
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status == http.StatusServiceUnavailable:
		return "service_unavailable_error"
	case status >= http.StatusInternalServerError:
		return "server_error"
	}
	return "invalid_request_error"
}

// Write answers with an error, see [wire.WriteError].
func Write(w http.ResponseWriter, e *wire.Error) { wire.WriteError(w, e, New(e)) }
