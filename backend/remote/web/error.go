package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"
)

// Kind says what went wrong.
type Kind int

// The kinds of error.
const (
	// Refused: the engine does not take the request. It would not take it a second time.
	Refused Kind = iota
	// Denied: the key is missing or wrong.
	Denied
	// Missing: the engine does not have the path.
	Missing
	// Busy: the engine asks to come back later.
	Busy
	// Unreachable: no connection, or no reply on it.
	Unreachable
	// Untrusted: the certificate of the engine is not trusted, or there is no agreement about TLS.
	Untrusted
	// NoCertificate: the engine does not take our certificate, or wants one and there is none.
	NoCertificate
	// Slow: the engine did not reply in time.
	Slow
	// Broken: the connection broke in a reply, or the engine failed.
	Broken
	// Malformed: the reply is not what the engine should send.
	Malformed
)

// Error is an error of an exchange with an engine.
type Error struct {
	Kind Kind
	// Status is the HTTP status, or 0.
	Status int
	// Detail is one line, or empty.
	Detail string
	// RetryAfter is how long the engine asks to wait, or 0.
	RetryAfter time.Duration
	// Cut says that the connection was there and broke without a reply, so the engine may have failed at the request.
	Cut bool
	// TooLong says that the prompt does not fit into the engine's context.
	TooLong bool
	// Vocabulary is how many tokens the model has, if the engine says so where it refuses a token; else 0.
	Vocabulary int
}

// texts say what the kinds of error are.
var texts = [...]string{
	Refused:       "the engine refuses the request",
	Denied:        "the engine refuses the key",
	Missing:       "the engine does not have what was asked for",
	Busy:          "the engine is busy",
	Unreachable:   "the engine cannot be reached",
	Untrusted:     "the engine is not trusted",
	NoCertificate: "the engine rejects the certificate of this program",
	Slow:          "the engine does not answer in time",
	Broken:        "the connection to the engine broke",
	Malformed:     "the engine sent an unusable reply",
}

func (e *Error) Error() string {
	text := texts[e.Kind]
	if e.Status != 0 {
		text += fmt.Sprintf(" (status %d)", e.Status)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Temporary reports whether the same request may succeed later.
func (e *Error) Temporary() bool {
	switch e.Kind {
	case Busy, Unreachable, Slow, Broken, Malformed:
		return true
	}
	return false
}

// Is reports whether an error is one of a kind.
func Is(err error, k Kind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == k
}

// alert says what an engine means by an alert of TLS.
func alert(text string) (kind Kind, detail string) {
	switch strings.TrimPrefix(text, "tls: ") {
	case "certificate required":
		return NoCertificate, "it wants a certificate of ours"
	case "bad certificate", "unknown certificate", "unknown certificate authority", "unsupported certificate",
		"revoked certificate", "expired certificate", "access denied":
		return NoCertificate, "it does not take our certificate"
	case "handshake failure": // what TLS 1.2 says of a missing certificate and of much else
		return Untrusted, "there is no agreement about TLS, or it wants a certificate of ours"
	}
	return Untrusted, "there is no agreement about TLS"
}

// failure makes an Error of an error of net/http, which would name the address. If ctx has ended, it returns the cause.
func failure(ctx context.Context, err error, kind Kind) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e := &Error{Kind: kind}
	var dns *net.DNSError
	var op *net.OpError
	var record tls.RecordHeaderError
	var verification *tls.CertificateVerificationError
	var host x509.HostnameError
	var authority x509.UnknownAuthorityError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		e.Detail = "the name of its machine is unknown"
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Detail = "nothing listens at the address"
	case errors.As(err, &record), strings.Contains(err.Error(), "gave HTTP response"):
		e.Kind, e.Detail = Untrusted, "it does not speak TLS"
	case errors.As(err, &host):
		e.Kind, e.Detail = Untrusted, "its certificate is for another name"
	case errors.As(err, &authority), errors.As(err, &verification):
		e.Kind, e.Detail = Untrusted, "its certificate cannot be verified"
	case errors.As(err, &op) && op.Op == "remote error": // an alert of TLS, which has no type of its own
		e.Kind, e.Detail = alert(op.Err.Error())
	case strings.Contains(err.Error(), "tls: "):
		e.Kind, e.Detail = Untrusted, "there is no agreement about TLS"
	case errors.As(err, &timeout) && timeout.Timeout():
		e.Detail = "connecting takes too long"
	case errors.As(err, &op) && op.Op == "dial":
		e.Detail = "there is no way to its machine"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &op) && op.Op == "read":
		e.Cut = true
	}
	return e
}
