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
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"runner/models/random"
)

// serving is a running "runner serve" of the tested program.
type serving struct {
	t   *testing.T
	url string
	cmd *exec.Cmd
	// ends says that the server may end before the test stops it.
	ends bool

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
		if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !s.ends {
			t.Errorf("stopping the server: %v", err)
		}
		<-read
		if err := s.cmd.Wait(); err != nil {
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
			s.t.Fatalf("the server is not well:\n%s", s.logged())
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

// metric reads one of the server's metrics.
func (s *serving) metric(name string) float64 {
	s.t.Helper()
	res, err := http.Get(s.url + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			x, err := strconv.ParseFloat(value, 64)
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

// TestServeManyAtOnce: 64 clients ask at once and some leave early. Everybody gets the answer to their own question,
// and nothing leaks.
func TestServeManyAtOnce(t *testing.T) {
	soak := 10 * time.Second
	switch {
	case os.Getenv("RUNNER_LONG") != "":
		soak = 2 * time.Minute
	case testing.Short():
		soak = 2 * time.Second
	}
	s := serve(t, "--parallel", "8", "--queue", "100")
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	questions := map[string]string{} // the answer of the model to each, asked alone
	rng := rand.New(rand.NewPCG(7, 11))
	for len(questions) < 24 {
		a, b := 100+rng.IntN(400), 100+rng.IntN(400)
		q := fmt.Sprintf("What is %d + %d?", a, b)
		got := s.ask(t.Context(), client, q, 0)
		if got.err != nil {
			t.Fatal(got.err)
		}
		if got.text == fmt.Sprintf("%d + %d = %d.", a, b, a+b) {
			questions[q] = got.text
		}
	}
	var list []string
	for q := range questions {
		list = append(list, q)
	}
	rest := func() (goroutines, memory float64) {
		client.CloseIdleConnections()
		s.settled("runner_requests_in_flight", 1) // this request
		s.settled(`runner_runs_active{model="demo"}`, 0)
		s.settled(`runner_runs_waiting{model="demo"}`, 0)
		return s.metric("go_goroutines"), s.metric("process_resident_memory_bytes")
	}
	tellWhose := func(q, text string) {
		for _, another := range list {
			if another != q && strings.Contains(text, strings.TrimSuffix(strings.TrimPrefix(another, "What is "), "?")) {
				t.Errorf("%s was answered with %q, which belongs to %s", q, text, another)
			}
		}
	}
	load := func(d time.Duration) (whole, left, other int64) {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		var nWhole, nLeft, nOther atomic.Int64
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(3, uint64(i)))
				for ctx.Err() == nil {
					q, leave := list[rng.IntN(len(list))], 0
					if rng.IntN(4) == 0 {
						leave = 1 + rng.IntN(12)
					}
					got := s.ask(context.WithoutCancel(ctx), client, q, leave)
					switch {
					case got.err != nil:
						t.Errorf("%s: %v", q, got.err)
					case got.finish == "" && !strings.HasPrefix(questions[q], got.text):
						nOther.Add(1)
						tellWhose(q, got.text)
					case got.finish == "":
						nLeft.Add(1)
					case got.text == questions[q]:
						nWhole.Add(1)
					default:
						nOther.Add(1)
						tellWhose(q, got.text)
					}
				}
			})
		}
		wg.Wait()
		return nWhole.Load(), nLeft.Load(), nOther.Load()
	}
	load(soak / 5) // the first requests allocate what the server keeps
	goroutines, memory := rest()
	whole, left, other := load(soak)
	after, grown := rest()
	t.Logf("%d answers, %d of them other than alone, %d clients left early; %.0f goroutines, then %.0f; %.1f MiB, "+
		"then %.1f", whole+other, other, left,
		goroutines, after, memory/(1<<20), grown/(1<<20))
	if whole == 0 || left == 0 {
		t.Errorf("%d answers, %d left early", whole, left)
	}
	// The order of sums in the engine's own kernels depends on what shares a step, so occasionally another digit is
	// chosen.
	if other > 0 && repeats(t) || other*50 > whole {
		t.Errorf("%d of %d answers are other than alone", other, whole+other)
	}
	if after > goroutines+5 {
		t.Errorf("%.0f goroutines, and %.0f before", after, goroutines)
	}
	if grown > memory+64<<20 {
		t.Errorf("%.1f MiB more memory", (grown-memory)/(1<<20))
	}
}

// TestServeLimitsStoredResponses stores one, so the second one replaces the first.
func TestServeLimitsStoredResponses(t *testing.T) {
	s := serve(t, "--responses", "1")
	var ids []string
	for range 2 {
		res, err := http.Post(s.url+"/v1/responses", "application/json", strings.NewReader(`{"input":"What is 17 + 25?"}`))
		if err != nil {
			t.Fatal(err)
		}
		var made struct{ ID string }
		err = json.NewDecoder(res.Body).Decode(&made)
		res.Body.Close()
		if err != nil || made.ID == "" {
			t.Fatalf("%d, %v", res.StatusCode, err)
		}
		ids = append(ids, made.ID)
	}
	for i, want := range []int{http.StatusNotFound, http.StatusOK} {
		res, err := http.Get(s.url + "/v1/responses/" + ids[i])
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("response %d: %d, want %d", i, res.StatusCode, want)
		}
	}
}

// TestServeKeepsThePrefixOfAConversation: a second turn prefills only what differs from the first turn.
func TestServeKeepsThePrefixOfAConversation(t *testing.T) {
	s := serve(t, "--ctx-size", "8192")
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	turn := func(messages []message) (text string, prompt, cached int) {
		t.Helper()
		body, err := json.Marshal(map[string]any{"temperature": 0, "max_tokens": 200, "messages": messages})
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.Post(s.url+"/v1/chat/completions", "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var reply struct {
			Choices []struct{ Message message }
			Usage   struct {
				Prompt  int `json:"prompt_tokens"`
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		if err := json.NewDecoder(res.Body).Decode(&reply); err != nil || len(reply.Choices) != 1 {
			t.Fatalf("%d, %v", res.StatusCode, err)
		}
		return reply.Choices[0].Message.Content, reply.Usage.Prompt, reply.Usage.Details.Cached
	}
	var long strings.Builder
	for i := 0; long.Len() < 7_200; i++ {
		fmt.Fprintf(&long, "Entry %d of the list is %d. ", i, i*i%997)
	}
	messages := []message{{"user", long.String() + "What is 17 + 25?"}}
	text, first, _ := turn(messages)
	messages = append(messages, message{"assistant", text}, message{"user", "What is 532 - 187?"})
	_, second, cached := turn(messages)
	t.Logf("the first prompt has %d tokens, the second %d, of which %d were cached", first, second, cached)
	if first < 4000 {
		t.Fatalf("the conversation has only %d tokens", first)
	}
	if cached*100 < first*95 {
		t.Errorf("%d of %d tokens were reused", cached, first)
	}
}

// TestServeWithKeysOverTLS: the server accepts the keys that the commands make.
func TestServeWithKeysOverTLS(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "keys.json")
	newKey := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("runner", append([]string{"apikey", "new", file}, args...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	full, none := newKey("full", "--reasoning", "full"), newKey("none", "--scope", "generate")
	cert, key, roots := certificate(t, dir)
	s := serve(t, "--host", "0.0.0.0", "--api-keys", file, "--tls-cert", cert, "--tls-key", key)
	s.url = regexp.MustCompile(`//[^/]*:`).ReplaceAllString(s.url, "//127.0.0.1:")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots},
		ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	post := func(path, key, body string) (status, major int, text string) {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, s.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		content, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, res.ProtoMajor, string(content)
	}
	question := `{"messages":[{"role":"user","content":"What is 17 + 25?"}],"temperature":0,"reasoning":%q}`
	for _, c := range []struct {
		path, key, body string
		status          int
		contains        string
	}{
		{"/v1/chat/completions", full, fmt.Sprintf(question, "full"), http.StatusOK, "17 + 25 = 42."},
		{"/v1/chat/completions", none, fmt.Sprintf(question, "none"), http.StatusOK, "17 + 25 = 42."},
		{"/v1/chat/completions", none, fmt.Sprintf(question, "summary"), http.StatusForbidden, "reasoning:summary"},
		{"/v1/completions", none, `{"prompt":"What"}`, http.StatusForbidden, "reasoning:full"},
		{"/v1/embeddings", none, `{"input":"x"}`, http.StatusForbidden, "embed"},
		{"/v1/chat/completions", "rk-wrong", fmt.Sprintf(question, "none"), http.StatusUnauthorized, "invalid_api_key"},
		{"/tokenize", full, `{"content":"What is 17 + 25?"}`, http.StatusOK, "tokens"},
	} {
		status, major, text := post(c.path, c.key, c.body)
		if status != c.status || !strings.Contains(text, c.contains) {
			t.Errorf("%s: %d %s", c.path, status, text)
		}
		if major != 2 {
			t.Errorf("%s: HTTP/%d", c.path, major)
		}
	}
	if log := s.logged(); strings.Contains(log, full) || strings.Contains(log, none) || strings.Contains(log, "17 + 25") ||
		!strings.Contains(log, "key=none") ||
		!regexp.MustCompile(`status=401 .*key=""`).MatchString(log) {
		t.Errorf("the log:\n%s", log)
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

// TestServeSeveralModels: a model is loaded when it is requested, and makes room for another one.
func TestServeSeveralModels(t *testing.T) {
	path := filepath.Join(t.TempDir(), "random.gguf")
	if err := random.WriteFile(path, random.Config{Layers: 2, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "demo", "other="+path, "--memory", "1MB", "--keep-alive", "-1s")
	loaded := func() (names []string) {
		t.Helper()
		res, err := http.Get(s.url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`runner_model_loaded\{model="(\w+)"\} 1`).FindAllStringSubmatch(string(text),
			-1) {
			names = append(names, m[1])
		}
		return names
	}
	for _, model := range []string{"demo", "other", "demo"} {
		body := fmt.Sprintf(`{"model":%q,"max_tokens":4,"messages":[{"role":"user","content":"What is 17 + 25?"}]}`, model)
		res, err := http.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusOK || !strings.Contains(string(text), fmt.Sprintf(`"model":%q`, model)) {
			t.Fatalf("%s: %d %s", model, res.StatusCode, text)
		}
		if names := loaded(); len(names) != 1 || names[0] != model {
			t.Errorf("after %s there are %v in memory", model, names)
		}
	}
}
