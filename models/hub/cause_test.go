package hub

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"syscall"
	"testing"

	"runner/hint"
)

// What people read of a failed connection has no address of a name server, no port and no word of the system's own.
func TestPlainCauses(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for want, err := range map[string]error{
		"no such host": dial(&net.DNSError{Err: "no such host", Name: "hub.invalid", Server: "192.0.2.1:53",
			IsNotFound: true}),
		"the name server does not answer": dial(&net.DNSError{Err: "i/o timeout", Server: "192.0.2.1:53", IsTimeout: true}),
		"the connection is refused":       dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)),
		"no way to the network":           dial(os.NewSyscallError("connect", syscall.ENETUNREACH)),
		"the connection was cut":          fmt.Errorf("read: %w", io.ErrUnexpectedEOF),
		"no answer in time":               dial(os.ErrDeadlineExceeded),
		"something else":                  errors.New("something else"),
	} {
		if got := plainCause(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}

// TestProxyIsNamed: an error about a proxy has its address and its variable, and neither its user nor its password.
func TestProxyIsNamed(t *testing.T) {
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	defer refuses.Close()
	was := proxyFor
	defer func() { proxyFor = was }()
	for _, c := range []struct{ endpoint, proxy, variable, cause string }{
		{"https://hub.invalid", "127.0.0.1:1", "HTTPS_PROXY", "the connection is refused"},
		{"https://hub.invalid", "127.0.0.1:1", "https_proxy", "the connection is refused"},
		{"http://hub.invalid", "127.0.0.1:1", "HTTP_PROXY", "the connection is refused"},
		{"https://hub.invalid", refuses.Listener.Addr().String(), "HTTPS_PROXY", "it answers 403"},
	} {
		for _, v := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
			t.Setenv(v, "")
		}
		t.Setenv(c.variable, "http://user:secret@"+c.proxy)
		proxyFor = func(*http.Request) (*url.URL, error) { return url.Parse(os.Getenv(c.variable)) }
		client, err := New(Config{Endpoint: c.endpoint, Retry: Retry{Tries: 1}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Repository(t.Context(), "Org/Model", "main")
		want := "Org/Model: hub.invalid cannot be reached by the proxy " + c.proxy + " (" + c.cause + ")"
		advice := "check " + c.variable + ", or list the host in NO_PROXY to go without the proxy"
		if err == nil || err.Error() != want || hint.Of(err) != advice {
			t.Errorf("%v; %s; want %s; %s", err, hint.Of(err), want, advice)
		}
	}
}
