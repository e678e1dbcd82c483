package testenv

import (
	"context"
	"net"
	"net/http"
	"testing"
)

// Listen has a server.Server listen on loopback until the test ends, and returns its address. It is an error if the
// server does not end well.
func Listen(t testing.TB, s interface {
	Serve(ctx context.Context, l net.Listener) error
}) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server: %v", err)
		}
	})
	return "http://" + l.Addr().String()
}
