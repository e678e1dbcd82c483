package server

import (
	"errors"
	"net"
	"net/http"
	"testing"

	"runner/server/pool"
)

func TestPagesAndForeignNamesAreKeptOut(t *testing.T) {
	s := host(t, Config{Origins: []string{"https://good.example"}, Hosts: []string{"runner.lan"}}, scripted(said("q", "four")))
	for _, c := range []struct {
		header  []string
		status  int
		allowed string
	}{
		{nil, 200, ""},
		{[]string{"Host", "evil.example"}, 403, ""},
		{[]string{"Host", "evil.example:8080"}, 403, ""},
		{[]string{"Host", "localhost:8080"}, 200, ""},
		{[]string{"Host", "LOCALHOST."}, 200, ""},
		{[]string{"Host", "runner.lan"}, 200, ""},
		{[]string{"Host", "[::1]:80"}, 200, ""},
		{[]string{"Host", "192.168.1.7"}, 200, ""},
		{[]string{"Host", "localhost.evil.example"}, 403, ""},
		{[]string{"Origin", "https://evil.example"}, 403, ""},
		{[]string{"Origin", "null"}, 403, ""},
		{[]string{"Origin", "https://good.example"}, 200, "https://good.example"},
		{[]string{"Origin", "http://localhost:3000"}, 200, "http://localhost:3000"},
		{[]string{"Origin", "http://localhost.evil.example"}, 403, ""},
		{[]string{"Origin", "vscode-webview://abc"}, 200, "vscode-webview://abc"},
		{[]string{"Sec-Fetch-Site", "cross-site"}, 403, ""},
	} {
		r := s.do(t, http.MethodPost, "/say", `{"text":"q"}`, c.header...)
		if r.StatusCode != c.status || r.Header.Get("Access-Control-Allow-Origin") != c.allowed {
			t.Errorf("%v: %d, allowed %q: %s", c.header, r.StatusCode, r.Header.Get("Access-Control-Allow-Origin"), r.body)
		}
	}
	r := s.do(t, http.MethodOptions, "/say", "", "Origin", "https://good.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
	if r.StatusCode != http.StatusNoContent || r.Header.Get("Access-Control-Allow-Headers") != "authorization" {
		t.Errorf("preflight: %d %v", r.StatusCode, r.Header)
	}
	if r := s.do(t, http.MethodOptions, "/say", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST"); r.StatusCode != http.StatusForbidden {
		t.Errorf("preflight of a foreign page: %d", r.StatusCode)
	}
}

func TestOnlyTheMachineItselfIsServedWithoutKeys(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Skip("no address that others can reach: ", err)
	}
	p := pool.New(pool.Config{})
	defer p.Close()
	if err := New(Config{Pool: p}).Serve(t.Context(), l); !errors.Is(err, ErrPublic) {
		t.Errorf("%v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is still open: %v", err)
	}
}
