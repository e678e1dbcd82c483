package server

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"runner/backend/fake"
)

// TestPlainHTTPToTLS: a request without TLS to a port that has it is answered in the API's shape, whatever its method
// and however much it sends, and nothing it does delays others. Requests with TLS are answered as ever.
func TestPlainHTTPToTLS(t *testing.T) {
	helper := httptest.NewUnstartedServer(nil)
	helper.StartTLS()
	certificates, authority := helper.TLS.Certificates, helper.Certificate()
	helper.Close()
	s := host(t, Config{TLS: &tls.Config{Certificates: certificates}}, fake.Config{})
	address := strings.TrimPrefix(s.url, "http://")

	// They send the beginning of a request, garbage, or nothing.
	var held []net.Conn
	for _, beginning := range []string{"POST /say HT", "Z", "GET / HTTP/1.1\r\nX: y\r\n", "", "\x16"} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, beginning)
		held = append(held, c)
	}
	for _, c := range []struct {
		method, path, body string
		says               bool
	}{
		{"GET", "/say", "", true}, {"DELETE", "/say", "", true}, {"PATCH", "/say", "{}", true},
		{"POST", "/say", `{"text":"` + strings.Repeat("a", 4<<20) + `"}`, true}, {"HEAD", "/say", "", false},
	} {
		a := s.do(t, c.method, c.path, c.body)
		if a.StatusCode != http.StatusBadRequest || a.Header.Get("Content-Type") != "application/json" ||
			strings.Contains(a.body, "use an address that begins with https://") != c.says ||
			strings.Contains(a.body, `"echo_error":"invalid_value"`) != c.says || !a.Close {
			t.Errorf("%s %s: %d %v %s", c.method, c.path, a.StatusCode, a.Header, a.body)
		}
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	for _, second := range []bool{false, true} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots},
			ForceAttemptHTTP2: second}}
		res, err := client.Get("https://" + address + "/nothing")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if res.Body.Close(); err != nil || res.StatusCode != http.StatusNotFound || (res.ProtoMajor == 2) != second {
			t.Errorf("with TLS: %d %s %s, %v", res.StatusCode, res.Proto, body, err)
		}
		client.CloseIdleConnections()
	}
	// What does not end its request in time is closed.
	for _, c := range held[:3] {
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if answer, err := io.ReadAll(bufio.NewReader(c)); err != nil || len(answer) > 0 {
			t.Errorf("half a request is answered with %q, %v", answer, err)
		}
	}
}
