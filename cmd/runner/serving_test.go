package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// serving is a running "runner serve" of the tested program.
type serving struct {
	t   *testing.T
	url string
	cmd *exec.Cmd
	// ends says that the server may end before the test stops it, and killed that the test kills it.
	ends, killed bool

	mu  sync.Mutex
	log bytes.Buffer
}

var address = regexp.MustCompile(`^serving .* at (http\S+)`)

// serve starts the program as a server and stops it with the test. The server must exit without an error or a reported
// race.
func serve(t *testing.T, args ...string) *serving {
	t.Helper()
	return serveAs(t, nil, args...)
}

// serveAs is serve with a change to the command that starts the program.
func serveAs(t *testing.T, change func(*exec.Cmd), args ...string) *serving {
	t.Helper()
	s := &serving{t: t, cmd: exec.Command("runner", append([]string{"serve", "--port", "0"}, args...)...)}
	if change != nil {
		change(s.cmd)
	}
	s.cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+filepath.Join(t.TempDir(), "data"))
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found := make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			if m := address.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
			}
			s.mu.Lock()
			s.log.WriteString(lines.Text() + "\n")
			s.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !s.ends && !s.killed {
			t.Errorf("stopping the server: %v", err)
		}
		<-read
		if err := s.cmd.Wait(); err != nil && !s.killed {
			t.Errorf("the server ended with %v:\n%s", err, s.logged())
		}
		if strings.Contains(s.logged(), "DATA RACE") {
			t.Errorf("a race:\n%s", s.logged())
		}
	})
	select {
	case s.url = <-found:
	case <-read:
		t.Fatalf("the server did not start:\n%s", s.logged())
	}
	return s
}

func (s *serving) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// logs waits until the log contains text.
func (s *serving) logs(text string) {
	s.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for ; !strings.Contains(s.logged(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("the log does not say %q:\n%s", text, s.logged())
		}
	}
}

// healthy waits until the server reports that it is healthy.
func (s *serving) healthy() {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		res, err := http.Get(s.url + "/health")
		if err != nil {
			s.t.Fatalf("%v:\n%s", err, s.logged())
		}
		res.Body.Close()
		switch {
		case res.StatusCode == http.StatusOK:
			return
		case time.Now().After(deadline):
			s.t.Fatalf("the server is not healthy:\n%s", s.logged())
		}
	}
}

// trusting returns the TLS configuration of a client that trusts a certificate.
func trusting(t *testing.T, cert string) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	return &tls.Config{RootCAs: roots}
}

// answer is the result of one streamed question.
type answer struct {
	text, finish string
	frames       int
	err          error
}

// ask streams an answer to a question. It leaves after so many frames; 0 means never.
func (s *serving) ask(ctx context.Context, client *http.Client, question string, leave int) answer {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, _ := json.Marshal(map[string]any{
		"model": "demo", "stream": true, "temperature": 0, "reasoning_effort": "low",
		"messages": []map[string]string{{"role": "user", "content": question}},
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		return answer{err: fmt.Errorf("status %d: %s", res.StatusCode, text)}
	}
	var a answer
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			return a
		}
		var chunk struct {
			Choices []struct {
				Delta        struct{ Content string }
				FinishReason string `json:"finish_reason"`
			}
			Error *struct{ Message string }
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			a.err = fmt.Errorf("a torn frame %q: %w", data, err)
			return a
		}
		if chunk.Error != nil {
			a.err = errors.New(chunk.Error.Message)
			return a
		}
		for _, c := range chunk.Choices {
			a.text += c.Delta.Content
			a.finish += c.FinishReason
		}
		if a.frames++; a.frames == leave {
			return a
		}
	}
	if a.err = lines.Err(); a.err == nil {
		a.err = io.ErrUnexpectedEOF
	}
	return a
}

// send sends a request, with an API key unless it is empty. It returns the status and the body of the response.
func send(t *testing.T, method, url, key, body string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(content)
}

// metric reads one of the server's metrics.
func (s *serving) metric(name string) float64 {
	s.t.Helper()
	_, text := send(s.t, http.MethodGet, s.url+"/metrics", "", "")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			x, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				s.t.Fatal(err)
			}
			return x
		}
	}
	s.t.Fatalf("there is no metric %s", name)
	return 0
}

// settled waits until a metric is at most most.
func (s *serving) settled(name string, most float64) {
	s.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for s.metric(name) > most {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s is still %v, want at most %v", name, s.metric(name), most)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// certificate makes a self-signed certificate for this machine. It returns its files and a pool that trusts it.
func certificate(t *testing.T, dir string) (cert, key string, roots *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(crand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(cert, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600); err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	return cert, key, roots
}

// says checks that a text has some others.
func says(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q is missing in\n%s", w, text)
		}
	}
}
