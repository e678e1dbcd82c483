package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"runner/hint"
	"runner/models/cache"
)

// DefaultEndpoint is the address of the hub.
const DefaultEndpoint = "https://huggingface.co"

// MaxHTTP is the size in bytes over which the hub does not serve a file over HTTP, but only by its protocol Xet.
const MaxHTTP = 50_000_000_000

const (
	maxRedirects = 10
	maxHeader    = 256 << 10
	// stallBytes is what a connection must deliver in each period of Config.Stall.
	stallBytes = 16 << 10
)

// Config says how to reach the hub.
type Config struct {
	// Endpoint is the address of the hub. "" means [DefaultEndpoint].
	Endpoint string
	// Token is sent to the endpoint. The zero token sends none.
	Token Token
	// Offline makes every request fail with the kind [Offline].
	Offline bool
	// UserAgent says to the hub which program asks.
	UserAgent string
	// Stall is how long a connection may deliver next to nothing. 0 means 30 seconds.
	Stall time.Duration
	Retry Retry
	// Waiting is called before a request to the API is repeated after a wait. It may be nil.
	Waiting func(err error, wait time.Duration)
}

// FromEnvironment reads the variables that Hugging Face's tools read: HF_ENDPOINT, HF_HUB_OFFLINE, and the token of
// HF_TOKEN, or of the file HF_TOKEN_PATH, or of the file token in HF_HOME. HF_HUB_DISABLE_IMPLICIT_TOKEN means that no
// token is sent.
func FromEnvironment() (Config, error) {
	c := Config{
		Endpoint: os.Getenv("HF_ENDPOINT"),
		Offline:  isTrue(os.Getenv("HF_HUB_OFFLINE")) || isTrue(os.Getenv("TRANSFORMERS_OFFLINE")),
	}
	if isTrue(os.Getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		return c, nil
	}
	text, from, err := tokenText()
	if err != nil {
		return Config{}, err
	}
	if c.Token, err = NewToken(text); err != nil {
		return Config{}, fmt.Errorf("%s: %w", from, err)
	}
	return c, nil
}

func isTrue(text string) bool {
	switch strings.ToUpper(text) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

// tokenText returns the user's token and where it is from. It is "" if there is none.
func tokenText() (text, from string, err error) {
	for _, v := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if text := os.Getenv(v); strings.TrimSpace(text) != "" {
			return text, v, nil
		}
	}
	file := os.Getenv("HF_TOKEN_PATH")
	if home := cache.Home(); file == "" && home != "" {
		file = filepath.Join(home, "token")
	}
	if file == "" {
		return "", "", nil
	}
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return "", "", nil
	}
	var short []byte
	if err == nil {
		defer f.Close()
		short, err = io.ReadAll(io.LimitReader(f, 4096))
	}
	if err != nil {
		return "", "", &hint.Error{Text: fmt.Sprintf("the token's file: %v", err), Err: err,
			Advice: "check HF_HOME, the folder with the token, and HF_TOKEN_PATH; or set HF_TOKEN"}
	}
	return string(short), file, nil
}

// Client asks the hub. It is safe for concurrent use.
type Client struct {
	config    Config
	endpoint  *url.URL
	transport http.RoundTripper
}

// New returns a client. The error says what is wrong with the endpoint. Proxies are taken from the environment.
func New(c Config) (*Client, error) {
	if c.Endpoint == "" {
		c.Endpoint = DefaultEndpoint
	}
	u, err := url.Parse(strings.TrimRight(c.Endpoint, "/"))
	switch {
	case err != nil:
		return nil, errors.New("the endpoint of the hub is not an address")
	case u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return nil, errors.New("the endpoint of the hub must begin with https:// or http://")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the endpoint of the hub must have no user, password, query or fragment")
	}
	if c.Stall == 0 {
		c.Stall = 30 * time.Second
	}
	if c.UserAgent == "" {
		c.UserAgent = "runner"
	}
	c.Retry = c.Retry.orDefaults()
	// Ranges of a file share the line better over connections of their own, so there is no HTTP/2.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &Client{config: c, endpoint: u, transport: &http.Transport{
		Proxy:                  proxyFor,
		OnProxyConnectResponse: refusedByProxy,
		DialContext:            (&net.Dialer{Timeout: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:    15 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        30 * time.Second,
		DisableCompression:     true,
		Protocols:              protocols,
		ReadBufferSize:         64 << 10,
	}}, nil
}

// Retry returns the rules for repeating requests.
func (c *Client) Retry() Retry { return c.config.Retry }

// address returns the address of a path of the hub. The parts are escaped, slashes in them too.
func (c *Client) address(query string, parts ...string) *url.URL {
	u := *c.endpoint
	escaped := make([]string, len(parts))
	for i, p := range parts {
		escaped[i] = url.PathEscape(p)
	}
	u.RawPath = u.EscapedPath() + "/" + strings.Join(escaped, "/")
	u.Path += "/" + strings.Join(parts, "/")
	u.RawQuery = query
	return &u
}

// answer is what came at the end of a chain of redirects.
type answer struct {
	*http.Response
	// own is the header of the last answer that came from the endpoint itself. Only the endpoint speaks for the hub.
	own http.Header
	// home reports that the response is from the endpoint too.
	home bool
}

// get sends one request and follows redirects. name is what to call it in errors. The caller closes the body.
func (c *Client) get(ctx context.Context, name string, u *url.URL, header http.Header) (*answer, error) {
	if c.config.Offline {
		return nil, &Error{Kind: Offline, Name: name, Detail: "the hub is not asked, because HF_HUB_OFFLINE is set",
			Advice: "unset HF_HUB_OFFLINE to allow downloads"}
	}
	a := &answer{home: true}
	for range maxRedirects + 1 {
		r := &http.Request{Method: http.MethodGet, URL: u, Header: header.Clone(), Host: u.Host}
		r.Header.Set("User-Agent", c.config.UserAgent)
		r.Header.Set("Accept-Encoding", "identity")
		if a.home && !c.config.Token.IsZero() {
			r.Header.Set("Authorization", "Bearer "+c.config.Token.secret)
		}
		resp, err := c.send(ctx, r)
		if err != nil {
			return nil, unreachable(ctx, name, u, err)
		}
		a.Response = resp
		if a.home {
			a.own = resp.Header
		}
		if !isRedirect(resp.StatusCode) {
			return a, nil
		}
		_ = resp.Body.Close()
		to, err := u.Parse(resp.Header.Get("Location"))
		switch {
		case err != nil || to.Hostname() == "" || to.Scheme != "https" && to.Scheme != "http":
			return nil, badAnswer(name, "redirects to something that is not an address", nil)
		case u.Scheme == "https" && to.Scheme == "http":
			return nil, badAnswer(name, "redirects from https to http, to "+to.Host, nil)
		}
		to.User = nil
		a.home = a.home && sameOrigin(to, c.endpoint)
		u = to
	}
	return nil, badAnswer(name, fmt.Sprintf("redirects more than %d times", maxRedirects), nil)
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		return true
	}
	return false
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// send sends one request. The response's body ends with an error if the connection stalls.
func (c *Client) send(ctx context.Context, r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watched{stall: c.config.Stall, left: c.config.Stall, cancel: cancel, ctx: ctx}
	stop := w.watch()
	resp, err := c.transport.RoundTrip(r.WithContext(ctx))
	stop()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	w.ReadCloser = resp.Body
	resp.Body = w
	return resp, nil
}

// watched is a body that gives up if it delivers fewer than stallBytes in a period. The time that the reader takes
// between calls does not count.
type watched struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	stall  time.Duration
	left   time.Duration
	got    int
	once   sync.Once
}

// watch cancels the request when the time that is left is over, unless stop is called before.
func (w *watched) watch() (stop func()) {
	began := time.Now()
	t := time.AfterFunc(w.left, func() { w.cancel(errStalled) })
	return func() {
		t.Stop()
		w.left -= time.Since(began)
	}
}

func (w *watched) Read(p []byte) (int, error) {
	stop := w.watch()
	n, err := w.ReadCloser.Read(p)
	stop()
	if w.got += n; w.got >= stallBytes {
		w.got, w.left = 0, w.stall
	}
	if cause := context.Cause(w.ctx); err != nil && !errors.Is(err, io.EOF) && cause != nil {
		err = cause
	}
	return n, err
}

func (w *watched) Close() error {
	err := w.ReadCloser.Close()
	w.once.Do(func() { w.cancel(nil) })
	return err
}

// proxyFor returns the proxy for a request. Tests replace it.
var proxyFor = http.ProxyFromEnvironment

// byProxy is the operation of net/http's errors about the way to a proxy.
const byProxy = "proxyconnect"

// refusedByProxy is the error of a proxy that answers and opens no connection.
func refusedByProxy(_ context.Context, _ *url.URL, _ *http.Request, r *http.Response) error {
	if r.StatusCode == http.StatusOK {
		return nil
	}
	return &net.OpError{Op: byProxy, Err: fmt.Errorf("it answers %d", r.StatusCode)}
}

// proxyOf returns the proxy that was used for an address and the variable that names it.
func proxyOf(u *url.URL) (host, variable string) {
	proxy, err := proxyFor(&http.Request{URL: u})
	if err != nil || proxy == nil {
		return "", ""
	}
	variable = strings.ToUpper(u.Scheme) + "_PROXY"
	if lower := strings.ToLower(variable); os.Getenv(variable) == "" && os.Getenv(lower) != "" {
		variable = lower
	}
	return proxy.Host, variable // without user and password
}

// unreachable says that a request or a body failed on its way. The end of the caller's context stays itself.
func unreachable(ctx context.Context, name string, u *url.URL, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// A url.Error has the address with its query, which may be a key.
	if e := (*url.Error)(nil); errors.As(err, &e) {
		err = e.Err
	}
	unreached := &Error{Kind: Unreachable, Name: name, Temporary: true, Err: err,
		Detail: fmt.Sprintf("%s cannot be reached (%s)", u.Host, plainCause(err)),
		Advice: "check the network, and HF_ENDPOINT and HTTPS_PROXY if they are set"}
	if at := (*net.OpError)(nil); errors.As(err, &at) && at.Op == byProxy {
		proxy, variable := proxyOf(u)
		unreached.Detail = fmt.Sprintf("%s cannot be reached by the proxy %s (%s)", u.Host, proxy, plainCause(at.Err))
		unreached.Advice = fmt.Sprintf("check %s, or list the host in NO_PROXY to go without the proxy", variable)
	}
	return unreached
}

// plainCause says in a few plain words why a connection failed.
func plainCause(err error) string {
	var name *net.DNSError
	var slow net.Error
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return "no such host"
	case errors.As(err, &name):
		return "the name server does not answer"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection is refused"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "no way to the network"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "the connection was cut"
	case errors.As(err, &slow) && slow.Timeout():
		return "no answer in time"
	}
	return err.Error()
}

func badAnswer(name, detail string, err error) *Error {
	return &Error{Kind: BadAnswer, Name: name, Detail: "the hub's answer " + detail,
		Advice: "check HF_ENDPOINT and proxies; try again later", Err: err}
}

// Page returns the page of a repository for a browser.
func (c *Client) Page(repo string) string { return c.endpoint.String() + "/" + repo }

// refusal makes an error of an answer that is neither 2xx nor a redirect.
func (c *Client) refusal(repo, name string, a *answer) *Error {
	e := &Error{Name: name, RetryAfter: retryAfter(a.Header, time.Now())}
	code, says := a.own.Get("X-Error-Code"), message(a.own.Get("X-Error-Message"))
	if !a.home {
		code, says = "", "" // a storage host does not speak for the hub
	}
	if says != "" {
		says = " (" + says + ")"
	}
	status := a.StatusCode
	switch {
	case status == http.StatusTooManyRequests:
		e.Kind, e.Temporary = RateLimited, true
		e.Detail = "the hub allows no more requests for now"
		e.Advice = "wait some minutes; with a token in HF_TOKEN the hub allows more"
		if e.RetryAfter > 0 {
			e.Advice = fmt.Sprintf("wait %v; with a token in HF_TOKEN the hub allows more", e.RetryAfter)
		}
	case status == http.StatusRequestTimeout || status >= 500 || !a.home:
		// A storage host refuses a file for instance when the redirect to it is too old. A new request gets a new one.
		e.Kind, e.Temporary = Unreachable, true
		e.Detail = fmt.Sprintf("%s answers %d", a.Request.URL.Host, status)
		e.Advice = "try again later"
	case code == "GatedRepo":
		e.Kind, e.Page = Gated, c.Page(repo)
		e.Detail = "the repository is gated: its owner wants its terms accepted first"
		e.Advice = fmt.Sprintf("visit %s, accept the terms, and set HF_TOKEN to a token of that account", e.Page)
		if !c.config.Token.IsZero() {
			e.Advice = fmt.Sprintf("visit %s with the account of the token, and see that the token may read gated repositories",
				e.Page)
		}
	case code == "RevisionNotFound":
		e.Kind, e.Detail, e.Advice = NotFound, "no such revision", "check its spelling, or leave it out for main"
	case code == "EntryNotFound":
		e.Kind, e.Detail, e.Advice = NotFound, "no such file in this revision", "check its spelling"
	case code == "RepoNotFound" || status == http.StatusNotFound ||
		status == http.StatusUnauthorized && c.config.Token.IsZero():
		// The hub answers 401 for a repository that does not exist, so as not to say which private ones do.
		e.Kind, e.Detail = NotFound, "the hub has no such repository, or it is private"
		e.Advice = "check the spelling; for a private repository set HF_TOKEN to a token that may read it"
	case status == http.StatusUnauthorized:
		e.Kind, e.Detail = Unauthorized, "the hub does not accept the token"+says
		e.Advice = "check HF_TOKEN, or the token's file: it may have expired"
	case status == http.StatusForbidden:
		e.Kind, e.Detail = Unauthorized, "the hub does not allow this"+says
		e.Advice = "check what the token in HF_TOKEN may read"
	default:
		e = badAnswer(name, fmt.Sprintf("is %d%s", status, says), nil)
	}
	return e
}

// message makes a server's text fit to be shown: short, on one line.
func message(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if r := []rune(text); len(r) > 200 {
		text = string(r[:200]) + "…"
	}
	return strings.TrimSpace(text)
}

// retryAfter returns how long an answer wants us to wait: Retry-After in seconds or as a date, or the field t of
// RateLimit (draft-ietf-httpapi-ratelimit-headers) if nothing remains.
func retryAfter(h http.Header, now time.Time) time.Duration {
	const most = 24 * time.Hour
	seconds := func(text string) time.Duration {
		n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 32)
		if err != nil {
			return 0
		}
		return min(time.Duration(n)*time.Second, most)
	}
	if after := h.Get("Retry-After"); after != "" {
		if at, err := http.ParseTime(after); err == nil {
			return min(max(at.Sub(now).Round(time.Second), 0), most)
		}
		return seconds(after)
	}
	var left, wait string
	for field := range strings.SplitSeq(h.Get("RateLimit"), ";") {
		if v, ok := strings.CutPrefix(strings.TrimSpace(field), "r="); ok {
			left = v
		}
		if v, ok := strings.CutPrefix(strings.TrimSpace(field), "t="); ok {
			wait = v
		}
	}
	if left != "0" {
		return 0
	}
	return seconds(wait)
}

// again waits before a request to the API is repeated, or returns err if it should not be.
func (c *Client) again(ctx context.Context, failures int, err error) error {
	wait, ok := c.config.Retry.After(failures, err, rand.Float64())
	if !ok {
		return err
	}
	if c.config.Waiting != nil {
		c.config.Waiting(err, wait)
	}
	return Sleep(ctx, wait)
}
