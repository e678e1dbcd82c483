package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

const secret = "key-that-no-log-may-have"

func client(tb testing.TB, url string, c Config) *Client {
	tb.Helper()
	c.Base = url
	got, err := New(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(got.Close)
	return got
}

// failed returns an error as the kind it has. It fails the test if the error tells an address, the key or a text.
func failed(t *testing.T, err error, url string) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is not an *Error", err)
	}
	host := strings.TrimPrefix(strings.TrimPrefix(url, "https://"), "http://")
	for _, private := range []string{host, strings.Split(host, ":")[0], secret, "a private text"} {
		if strings.Contains(err.Error(), private) {
			t.Errorf("%q tells %q", err, private)
		}
	}
	return e
}

// Each reply becomes the kind of error that says whether it can be tried again.
func TestReplies(t *testing.T) {
	for _, c := range []struct {
		status    int
		header    string
		body      string
		kind      Kind
		temporary bool
		after     time.Duration
		long      bool
		size      int
	}{
		{status: 400, body: `{"error":{"message":"a private text"}}`, kind: Refused},
		{status: 400, body: `{"error":{"type":"exceed_context_size_error"}}`, kind: Refused, long: true},
		{status: 422, body: "a private text", kind: Refused},
		{status: 400, kind: Refused, size: 1536, body: // from vLLM 0.32.0
		`{"error":{"message":"token_id(s) [2147483647] in logit_bias contain out-of-vocab token ids. Vocabulary size: 1536 ` +
			`(parameter=logit_bias, value=[2147483647])","type":"BadRequestError","param":"logit_bias","code":400}}`},
		{status: 400, kind: Refused, size: 248320,
			body: `{"error":{"message":"logit_bias must has keys in [0, 248319], got 2147483647."}}`},
		{status: 400, kind: Refused, body: "Vocabulary size: 99999999999"},
		{status: 500, kind: Broken, body: "Vocabulary size: 151936", temporary: true},
		{status: 401, kind: Denied}, {status: 403, kind: Denied}, {status: 404, kind: Missing}, {status: 501, kind: Missing},
		{status: 429, header: "7", kind: Busy, temporary: true, after: 7 * time.Second},
		{status: 503, header: "99999999", kind: Busy, temporary: true, after: time.Hour},
		{status: 503, header: "soon", kind: Busy, temporary: true},
		{status: 500, body: strings.Repeat("a private text", 1<<16), kind: Broken, temporary: true},
		{status: 302, header: "0", kind: Refused},
		{status: 200, body: "a private text that is no JSON", kind: Malformed, temporary: true},
		{status: 200, body: `{"a":`, kind: Malformed, temporary: true},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+secret || r.URL.Path != "/base/x" {
				t.Errorf("authorization %q for %s", r.Header.Get("Authorization"), r.URL.Path)
			}
			w.Header().Set("Retry-After", c.header)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		err := client(t, s.URL+"/base/", Config{Key: secret}).Post(t.Context(), "/x", map[string]int{}, &struct{}{})
		e := failed(t, err, s.URL)
		if e.Kind != c.kind || e.Temporary() != c.temporary || e.RetryAfter != c.after || e.TooLong != c.long ||
			e.Vocabulary != c.size {
			t.Errorf("status %d: %+v, temporary %v; want kind %d", c.status, *e, e.Temporary(), c.kind)
		}
		s.Close()
	}
}

// An engine that cannot be reached, hangs or is not trusted is an error without its address.
func TestNoReply(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + closed.Addr().String()
	closed.Close()
	if e := failed(t, client(t, nobody, Config{}).Get(t.Context(), "/", nil), nobody); e.Kind != Unreachable {
		t.Errorf("nobody listens: %v", e)
	}
	dies := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}))
	defer dies.Close()
	if e := failed(t, client(t, dies.URL, Config{}).Post(t.Context(), "/", 1, nil), dies.URL); !e.Cut || !e.Temporary() {
		t.Errorf("an engine that drops the connection: %+v", e)
	}
	if e := failed(t, client(t, nobody, Config{}).Get(t.Context(), "/", nil), nobody); e.Cut {
		t.Errorf("nobody listens, and the connection broke: %+v", e)
	}
	unknown := "http://engine.invalid:80"
	if e := failed(t, client(t, unknown, Config{}).Get(t.Context(), "/", nil), unknown); e.Kind != Unreachable {
		t.Errorf("an unknown name: %v", e)
	}
	stop := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stop }))
	defer hangs.Close()
	defer close(stop)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := client(t, hangs.URL, Config{}).Get(ctx, "/", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an engine that hangs: %v", err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "{}")
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it would say that the certificate was refused
	s.StartTLS()
	defer s.Close()
	if e := failed(t, client(t, s.URL, Config{}).Get(t.Context(), "/", nil), s.URL); e.Kind != Untrusted || e.Temporary() {
		t.Errorf("an unknown certificate: %v", e)
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	if err := client(t, s.URL, Config{TLS: &tls.Config{RootCAs: roots}}).Get(t.Context(), "/", nil); err != nil {
		t.Errorf("a certificate that is trusted: %v", err)
	}
	plain := "https://" + strings.TrimPrefix(hangs.URL, "http://")
	if e := failed(t, client(t, plain, Config{}).Get(t.Context(), "/", nil), plain); e.Temporary() {
		t.Errorf("no TLS: %v", e)
	}
}

func TestBadAddresses(t *testing.T) {
	for _, url := range []string{"", "127.0.0.1:8000", "ftp://a", "http://", "http://user:" + secret + "@a",
		"http://a?key=" + secret, "http://a/#x", "http://a b", "http://%zz"} {
		if _, err := New(Config{Base: url}); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// FuzzEvents reads streams of any bytes. The data of the events is what a slow reader finds.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("data: {\"a\":1}\n\ndata:2\n\n"))
	f.Add([]byte(": ping\n\nevent: x\ndata: 1\r\n\r\ndata: [DONE]\n\n"))
	f.Add([]byte("data: " + strings.Repeat("x", 40<<10) + "\n\ndata: cut"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		var want []string
		whole := strings.Split(string(stream), "\n")
		for _, line := range whole[:len(whole)-1] {
			if data, ok := strings.CutPrefix(line, "data:"); ok {
				want = append(want, strings.TrimSpace(data))
			}
		}
		e := newEvents(t.Context(), io.NopCloser(strings.NewReader(string(stream))))
		for i := 0; ; i++ {
			data, err := e.Next()
			if err != nil {
				if i != len(want) || (whole[len(whole)-1] == "") != errors.Is(err, io.EOF) {
					t.Errorf("%q: %d events of %d, then %v", stream, i, len(want), err)
				}
				return
			}
			if i >= len(want) || string(data) != want[i] {
				t.Fatalf("%q: event %d is %q", stream, i, data)
			}
		}
	})
}
