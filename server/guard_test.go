package server

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"runner/server/keys"
	"runner/server/pool"
)

func TestPagesAndForeignNamesAreKeptOut(t *testing.T) {
	s := host(t, Config{Origins: []string{"https://good.example"}, Hosts: []string{"runner.lan"}},
		scripted(said("q", "four")))
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
		{[]string{"Sec-Fetch-Site", "Cross-Site"}, 403, ""},
		{[]string{"Sec-Fetch-Site", "CROSS-SITE "}, 403, ""},
		{[]string{"Sec-Fetch-Site", "same-origin"}, 200, ""},
	} {
		r := s.do(t, http.MethodPost, "/say", `{"text":"q"}`, c.header...)
		if r.StatusCode != c.status || r.Header.Get("Access-Control-Allow-Origin") != c.allowed {
			t.Errorf("%v: %d, allowed %q: %s", c.header, r.StatusCode, r.Header.Get("Access-Control-Allow-Origin"), r.body)
		}
	}
	r := s.do(t, http.MethodOptions, "/say", "", "Origin", "https://good.example", "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "authorization")
	if r.StatusCode != http.StatusNoContent || r.Header.Get("Access-Control-Allow-Headers") != "authorization" {
		t.Errorf("preflight: %d %v", r.StatusCode, r.Header)
	}
	if r := s.do(t, http.MethodOptions, "/say", "", "Origin", "https://evil.example", "Access-Control-Request-Method",
		"POST"); r.StatusCode != http.StatusForbidden {
		t.Errorf("preflight of a foreign page: %d", r.StatusCode)
	}
}

func TestHostNames(t *testing.T) {
	long := strings.Repeat("a", 63)
	allowed := []string{
		"localhost", "LocalHost:8080", "localhost.", "localhost.:8080", "localhost:", "app.localhost",
		"a.b.localhost:80", "127.0.0.1", "127.0.0.1:8080", "127.0.0.1.", "10.0.0.5:1", "[::1]", "[::1]:8080",
		"::1", "[FE80::1]:80", "[fe80::1%25eth0]", "host.docker.internal", "HOST.docker.Internal.:8080",
		"host.containers.internal:80", "a.internal", "x.y.z.internal", "ollama", "ollama:11434", "my_service-1",
		"OLLAMA.", "runner-2.", "internal", "local", long, "box.local", "BOX.local.:8080", "runner.example.org",
		"dotted.example.org:1",
	}
	refused := []string{
		"", ":8080", ".", "..", "evil.example", "evil.example:8080", "evil.example.", "printer.local",
		"a.box.local", "box.local.evil.example", "internal.evil.example", "evil.internal.example.com",
		"evil-internal.com", "evilinternal.com", "localhost.evil.example", "notlocalhost.com", ".internal",
		"a..internal", ".localhost", "localhost..", "a.internal..", "ollama..", long + "a", long + "a.internal",
		"127.0.0.1.evil.example", "127.0.0.1:80:evil.example", "[::1].evil.example", "[::1", "::1]",
		"[localhost]", "[evil.example]:80", "evil.example:80:80", "localhost:80@evil.example", "evil@localhost",
		"localhost:evil", "ollama/x", "a b", "a,b", "*", "*.internal", "b\u00fccher", "b\u00fccher.internal",
		"local\u212aost", "\uff4cocalhost", "xn--bcher-kva.example", "1.2.3.4.5",
		"runner.example.org.evil.example",
	}
	hosts := []string{"box.local", "Runner.Example.org", "dotted.example.org."}
	for _, c := range []struct {
		hosts []string
		want  bool
	}{{allowed, true}, {refused, false}} {
		for _, name := range c.hosts {
			if got := (&Server{cfg: Config{Hosts: hosts}}).hostAllowed(name); got != c.want {
				t.Errorf("without keys %q: allowed %t", name, got)
			}
			for _, named := range [][]string{nil, hosts} {
				if !(&Server{cfg: Config{Keys: &keys.Set{}, Hosts: named}}).hostAllowed(name) {
					t.Errorf("with keys %q is refused", name)
				}
			}
		}
	}
}

func TestHostsOverHTTP(t *testing.T) {
	key := "one-secret-for-all-tests"
	set, err := keys.One(key)
	if err != nil {
		t.Fatal(err)
	}
	open := host(t, Config{}, scripted(said("q", "four")))
	keyed := host(t, Config{Keys: set, Hosts: []string{"runner.lan"}}, scripted(said("q", "four")))
	const body = `{"text":"q"}`
	bearer := "Bearer " + key
	for _, c := range []struct {
		host        string
		open, keyed int
	}{
		{"host.docker.internal:8080", 200, 200},
		{"runner:8080", 200, 200},
		{"printer.local", 403, 200},
		{"evil.example", 403, 200},
		{"evil.internal.example.com", 403, 200},
	} {
		if r := open.do(t, http.MethodPost, "/say", body, "Host", c.host); r.StatusCode != c.open {
			t.Errorf("%s without keys: %d: %s", c.host, r.StatusCode, r.body)
		}
		r := keyed.do(t, http.MethodPost, "/say", body, "Host", c.host, "Authorization", bearer)
		if r.StatusCode != c.keyed {
			t.Errorf("%s with a key: %d: %s", c.host, r.StatusCode, r.body)
		}
		if r := keyed.do(t, http.MethodPost, "/say", body, "Host", c.host); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without the key: %d: %s", c.host, r.StatusCode, r.body)
		}
		origin := []string{"Host", c.host, "Origin", "https://page.example", "Authorization", bearer}
		if r := keyed.do(t, http.MethodPost, "/say", body, origin...); r.StatusCode != http.StatusForbidden {
			t.Errorf("%s from a foreign page: %d: %s", c.host, r.StatusCode, r.body)
		}
	}
}

// An HTTP/1.0 request may have no host. Then nothing can be checked, so it is refused.
func TestRequestsWithoutHostAreRefusedWithoutKeys(t *testing.T) {
	s := host(t, Config{}, scripted())
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /v1/models HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.0 403 ") {
		t.Errorf("%v: %s", err, answer)
	}
}

func TestOnlyTheMachineItselfIsServedWithoutKeys(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
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
