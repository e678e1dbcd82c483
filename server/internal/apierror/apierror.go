// Package apierror is the shape of an error in the OpenAI formats, and of what belongs to no format.
//
// It decides nothing: which status and code a failure has is package wire's to say.
package apierror

import (
	"net/http"

	"runner/server/wire"
)

// Body is the body of an answer that is an error.
type Body struct {
	Error Detail `json:"error"`
}

// Detail says what is wrong.
type Detail struct {
	// Message is for people, and begins with Param where there is one: many clients show nothing else.
	Message string `json:"message"`
	// Type is the class that clients make their exceptions from, for instance invalid_request_error.
	Type string `json:"type"`
	// Param is the field of the request that is wrong; null when it is none.
	Param *string `json:"param"`
	// Code names the error for programs.
	Code string `json:"code"`
}

// New gives an error OpenAI's shape.
func New(e *wire.Error) Body {
	d := Detail{Message: e.Error(), Type: typeOf(e.Status), Code: e.Code}
	if e.Param != "" {
		d.Param = &e.Param
	}
	return Body{d}
}

// typeOf returns the class of errors with a status.
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

// Write answers a request with an error, before anything else was written.
func Write(w http.ResponseWriter, e *wire.Error) { wire.WriteError(w, e, New(e)) }
