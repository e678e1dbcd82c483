// Package web speaks HTTP to engines on other machines: requests and replies in JSON, and streams of events.
//
// Its errors have no address, no key and no text of a request or of a reply, because they reach logs. Redirects are
// not followed, because the key would go with them. All lengths have limits.
package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config says how to reach an engine.
type Config struct {
	// Base is the engine's address, such as http://127.0.0.1:8000. A path in it comes before all other paths.
	Base string
	// Key is sent as a bearer token if it is not empty.
	Key string
	// TLS replaces the settings for https; nil means the system's certificates.
	TLS *tls.Config
	// ConnectTimeout is how long connecting may take; 0 means 5 seconds.
	ConnectTimeout time.Duration
}

// Client sends requests to one engine. It is safe for concurrent use.
type Client struct {
	base string
	key  string
	http *http.Client
	// pacer is that of all its connections.
	pacer *pacer
}

const (
	// maxReply is the largest reply that is no stream, in bytes.
	maxReply = 64 << 20
	// maxError is how much of an error's body is read.
	maxError = 64 << 10
	// idleConnections is how many connections are kept for later.
	idleConnections = 256
)

// New returns a client. The address must be http or https and have a host.
func New(c Config) (*Client, error) {
	u, err := url.Parse(c.Base)
	if err != nil {
		return nil, errors.New("the engine's address is not a URL")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the engine's address must begin with http:// or https://")
	case u.Host == "" || u.Hostname() == "":
		return nil, errors.New("the engine's address has no host")
	case u.User != nil:
		return nil, errors.New("the engine's address has a user or password, which belongs into the key")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the engine's address has a query or a fragment")
	}
	if c.ConnectTimeout <= 0 {
		c.ConnectTimeout = 5 * time.Second
	}
	dialer := &net.Dialer{Timeout: c.ConnectTimeout, KeepAlive: 15 * time.Second}
	p := newPacer()
	return &Client{base: strings.TrimRight(u.String(), "/"), key: c.Key, pacer: p, http: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:     pacedDial(dialer, p),
			TLSClientConfig: c.TLS, TLSHandshakeTimeout: c.ConnectTimeout,
			MaxIdleConnsPerHost: idleConnections, MaxIdleConns: idleConnections, IdleConnTimeout: 30 * time.Second,
			DisableCompression: true, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 64 << 10,
		},
	}}, nil
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Get decodes the JSON reply to a GET request into reply.
func (c *Client) Get(ctx context.Context, path string, reply any) error {
	return c.exchange(ctx, http.MethodGet, path, nil, reply)
}

// Post sends body as JSON and decodes the JSON reply into reply, unless that is nil.
func (c *Client) Post(ctx context.Context, path string, body, reply any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return c.exchange(ctx, http.MethodPost, path, data, reply)
}

func (c *Client) exchange(ctx context.Context, method, path string, body []byte, reply any) error {
	r, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	data, err := io.ReadAll(io.LimitReader(r.Body, maxReply+1))
	switch {
	case err != nil:
		return failure(ctx, err, Broken)
	case len(data) > maxReply:
		return &Error{Kind: Malformed, Detail: fmt.Sprintf("a reply has more than %d bytes", maxReply)}
	case reply == nil:
		return nil
	}
	if json.Unmarshal(data, reply) != nil { // its error would quote the reply
		return &Error{Kind: Malformed, Detail: "a reply is not the JSON that was expected"}
	}
	return nil
}

// Stream sends body as JSON and returns the stream of events that answers.
func (c *Client) Stream(ctx context.Context, path string, body any) (*Events, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := c.send(ctx, http.MethodPost, path, data)
	if err != nil {
		return nil, err
	}
	if kind := r.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		r.Body.Close()
		return nil, &Error{Kind: Malformed, Detail: "the reply is not a stream of events"}
	}
	return newEvents(ctx, r.Body), nil
}

// send returns the reply if its status is 200.
func (c *Client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the engine's address is not a URL")
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	req.Header.Set("User-Agent", "runner")
	// A request may be sent again if the engine has just closed an idle connection. An empty list says so and is not sent.
	req.Header["Idempotency-Key"] = nil
	r, err := c.http.Do(req)
	if err != nil {
		return nil, failure(ctx, err, Unreachable)
	}
	if r.StatusCode == http.StatusOK {
		return r, nil
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(r.Body, maxError)) // what can be read is enough
	e := Refusal(r.StatusCode, text)
	e.RetryAfter = retryAfter(r.Header.Get("Retry-After"))
	return nil, e
}

// Refusal makes an error of a status that is not 200 and the text that came with it. An error in a stream may have no
// status, which is 0.
func Refusal(status int, text []byte) *Error {
	e := &Error{Kind: Refused, Status: status}
	switch s := status; {
	case s == http.StatusTooManyRequests || s == http.StatusServiceUnavailable:
		e.Kind = Busy
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		e.Kind = Denied
	case s == http.StatusNotFound || s == http.StatusMethodNotAllowed || s == http.StatusNotImplemented:
		e.Kind = Missing
	case s == 0 || s >= 500:
		e.Kind = Broken
	default:
		e.TooLong, e.Vocabulary = tooLong(text), vocabulary(text)
	}
	return e
}

// sizes match how engines say how many tokens a model has, where they refuse a token: vLLM with the number, and SGLang
// with the last token.
var sizes = []struct {
	pattern *regexp.Regexp
	add     int
}{{regexp.MustCompile(`Vocabulary size: ([0-9]{1,9})\b`), 0},
	{regexp.MustCompile(`keys in \[0, ([0-9]{1,9})\]`), 1}}

// vocabulary returns how many tokens the model has, if an engine says so, or 0.
func vocabulary(body []byte) int {
	for _, s := range sizes {
		if m := s.pattern.FindSubmatch(body); m != nil {
			n, _ := strconv.Atoi(string(m[1])) // it has at most nine digits
			return n + s.add
		}
	}
	return 0
}

// tooLong reports whether an engine says that the prompt does not fit into its context.
func tooLong(body []byte) bool {
	text := strings.ToLower(string(body))
	return slices.ContainsFunc([]string{"exceed_context_size", "context length", "context size", "max_model_len",
		"maximum allowed length"}, func(part string) bool { return strings.Contains(text, part) })
}

// maxRetryAfter is the longest time that an engine may ask to wait.
const maxRetryAfter = time.Hour

// retryAfter reads a Retry-After header: a number of seconds or a date.
func retryAfter(value string) time.Duration {
	if value == "" {
		return 0
	}
	if n, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(n, 0), int(maxRetryAfter/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(time.Until(at), 0), maxRetryAfter)
	}
	return 0
}
