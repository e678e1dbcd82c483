// Package apierror has OpenAI's shape of errors. The OpenAI formats use it, and routes that belong to no format.
//
// The status and the code of an error come from package wire.
package apierror

import (
	"net/http"

	"runner/server/wire"
)

// Body is the body of an error.
type Body struct {
	Error Detail `json:"error"`
}

// Detail says what is wrong.
type Detail struct {
	// Message is for people. It begins with Param if there is one, because many clients show nothing else.
	Message string `json:"message"`
	// Type is the class of error from which clients make exceptions, for example invalid_request_error.
	Type string `json:"type"`
	// Param is the wrong field of the request; null if there is none.
	Param *string `json:"param"`
	// Code names the kind of error for programs.
	Code string `json:"code"`
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
