package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"runner/testenv"
)

// attack is load that one key puts on the server. It must hardly delay the requests of another key.
type attack struct {
	name    string
	clients int
	// key has the flags of the attacker's key.
	key []string
	// send makes one request and returns its cost in tokens, 0 for work without tokens.
	send func(ctx context.Context, a *attacker) (tokens int, err error)
}

// attacker is a client that attacks, or that sends the plain chats that an attack is compared with.
type attacker struct {
	url, key string
	client   *http.Client
	rng      *rand.Rand
	// hostile is set if requests may be refused. refused counts the refusals.
	hostile bool
	refused *atomic.Int64
	// terms is the length of a plain chat.
	terms int
}

var attacks = []attack{
	{"long texts to embed", 2, []string{"--permission", "embed"}, embedLong},
	// A raw prompt does not contain the schema, so the schema is compiled even if the context is small.
	{"enumerations under not", 2, []string{"--permission", "generate", "--reasoning", "full"}, notEnum},
	{"patterns that are too complex", 2, []string{"--permission", "generate"}, complexPatterns},
	{"patterns whose client leaves", 2, []string{"--permission", "generate"}, abandoned},
	{"texts of 30 MB for the tokenizer", 6, []string{"--permission", "models"}, longText},
	{"lists of 900,000 stop strings", 2, []string{"--permission", "generate"}, longList},
}

// embedLong asks for the embeddings of 64 texts of 1,980 tokens.
func embedLong(ctx context.Context, a *attacker) (int, error) {
	inputs := make([][]int, 64)
	for i := range inputs {
		inputs[i] = a.tokens(1980)
	}
	_, err := a.post(ctx, "/v1/embeddings", map[string]any{"input": inputs})
	return 64 * 1980, err
}

// notEnum asks for an answer of one token that is not one of 5,000 numbers. The numbers are new each time, so that the
// schema is never cached.
func notEnum(ctx context.Context, a *attacker) (int, error) {
	first := a.rng.IntN(1 << 30)
	values := make([]int, 5000)
	for i := range values {
		values[i] = first + i
	}
	schema := map[string]any{"not": map[string]any{"enum": values}}
	return a.askFor(ctx, "/v1/completions", map[string]any{"prompt": "Hello"}, schema)
}

// complexPatterns asks for an answer of one token with a schema that takes seconds to compile.
func complexPatterns(ctx context.Context, a *attacker) (int, error) {
	patterns := make([]any, 60)
	for i := range patterns {
		patterns[i] = map[string]any{"pattern": fmt.Sprintf("a.{0,%d}b%d", i, a.rng.IntN(1<<30))}
	}
	hello := map[string]any{"messages": []any{map[string]any{"role": "user", "content": "Hello"}}}
	return a.askFor(ctx, "/v1/chat/completions", hello, map[string]any{"type": "string", "allOf": patterns})
}

// abandoned sends the request of complexPatterns and leaves after a tenth of a second.
func abandoned(ctx context.Context, a *attacker) (int, error) {
	ctx, leave := context.WithTimeout(ctx, 100*time.Millisecond)
	defer leave()
	n, err := complexPatterns(ctx, a)
	if ctx.Err() != nil {
		return n, nil
	}
	return n, err
}

// longText asks for the token count of a text of 30 MB.
func longText(ctx context.Context, a *attacker) (int, error) {
	_, err := a.postRaw(ctx, "/tokenize", longTextBody())
	return 0, err
}

// longList asks for an answer of one token with 900,000 stop strings.
func longList(ctx context.Context, a *attacker) (int, error) {
	_, err := a.postRaw(ctx, "/v1/chat/completions", longListBody())
	return 1, err
}

// The bodies are made once, because the clients share the processor with the server.
var (
	longTextBody = sync.OnceValue(func() []byte {
		return []byte(`{"content":"` + strings.Repeat("a b ", 30_000_000/4) + `"}`)
	})
	longListBody = sync.OnceValue(func() []byte {
		var b bytes.Buffer
		b.WriteString(`{"max_tokens":1,"messages":[{"role":"user","content":"Hello"}],"stop":["a"`)
		for i := range 900_000 {
			fmt.Fprintf(&b, `,"a%d"`, i)
		}
		b.WriteString("]}")
		return b.Bytes()
	})
)

// askFor asks for an answer of one token that matches a schema. The request may be refused.
func (a *attacker) askFor(ctx context.Context, path string, body map[string]any, schema any) (int, error) {
	body["max_tokens"] = 1
	body["response_format"] = map[string]any{
		"type": "json_schema", "json_schema": map[string]any{"name": "x", "schema": schema},
	}
	_, err := a.post(ctx, path, body)
	return 1, err
}

const (
	// samples is the number of requests that are timed in each situation, and pause the time between them.
	samples = 60
	pause   = 200 * time.Millisecond
	// allowed is how much longer the 95th percentile of normal requests may be during an attack than among plain chats.
	allowed = 250 * time.Millisecond
	// longest is the maximum time of a situation.
	longest = 3 * time.Minute
)

// TestAttacks compares the time of a normal request during an attack with its time among plain chats. The plain chats
// come from as many clients and cost as many tokens per second. The test prints a table. Each attack has its own
// server, which listens on the loopback interface.
func TestAttacks(t *testing.T) {
	testenv.NeedLong(t, "it takes minutes")
	table := "| attack | clients | requests | refused | tokens/s | idle | among plain chats | during the attack |" +
		" difference | memory |\n|---|---|---|---|---|---|---|---|---|---|\n"
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) { table += a.compare(t) })
	}
	t.Logf("median and 95th percentile of %d normal requests on %d cores; the difference is that of the 95th "+
		"percentiles, at most %v is allowed\n%s", samples, runtime.NumCPU(), allowed, table)
}

// compare measures an attack and returns its row of the table.
func (a *attack) compare(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "keys.json")
	normal := newKey(t, file, "normal", "--permission", "generate,metrics")
	plain := newKey(t, file, "plain", "--permission", "generate,metrics")
	bad := newKey(t, file, "bad", append([]string{"--permission", "metrics"}, a.key...)...)
	s := serve(t, "--api-keys", file)
	idle := s.timed(t, normal, nil, attacker{}, 0, noLimit)
	attacked := s.timed(t, normal, a.send, attacker{url: s.url, key: bad, hostile: true}, a.clients, noLimit)
	memory := s.mostMemory()
	among := s.timed(t, normal, plainChat, attacker{url: s.url, key: plain}, a.clients, attacked.rate)
	t.Logf("plain chats of %d clients: %d requests, %.0f tokens per second", a.clients, among.requests, among.rate)
	more := quantile(attacked.times, .95) - quantile(among.times, .95)
	if more > allowed {
		t.Errorf("the 95th percentile is %v more than among plain chats, at most %v is allowed", more, allowed)
	}
	return fmt.Sprintf("| %s | %d | %d | %d | %.0f | %s | %s | %s | %s | %s |\n",
		a.name, a.clients, attacked.requests, attacked.refused, attacked.rate,
		quantiles(idle.times), quantiles(among.times), quantiles(attacked.times), milliseconds(more), memory)
}

// noLimit is for clients that send as much as they can.
const noLimit = -1

// measured is the result of one situation.
type measured struct {
	// times has the times of the normal requests, sorted.
	times []time.Duration
	// rate is the number of tokens that the clients spent per second. requests and refused count their requests.
	rate              float64
	requests, refused int64
}

// timed measures normal requests while clients call send. Together they spend at most perSecond tokens per second.
func (s *serving) timed(
	t *testing.T, key string, send func(context.Context, *attacker) (int, error),
	like attacker, clients int, perSecond float64,
) (m measured) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), longest)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	var refused, sent atomic.Int64
	load, end := context.WithCancel(ctx)
	defer end()
	began := time.Now()
	for i := range clients {
		wg.Go(func() {
			c := like
			c.client, c.refused = &http.Client{Transport: &http.Transport{}}, &refused
			c.rng = rand.New(rand.NewPCG(5, uint64(i)))
			c.terms = min(maxTerms, max(1, int(perSecond/float64(clients*tokensOfTerm))))
			tokens, cost := 0, baseTokens+c.terms*tokensOfTerm
			for load.Err() == nil {
				if perSecond >= 0 {
					due := min(float64((tokens+cost)*clients)/max(perSecond, 1e-3), 1e6) // in seconds
					wait := time.Until(began.Add(time.Duration(due * float64(time.Second))))
					select {
					case <-time.After(wait):
					case <-load.Done():
						return
					}
				}
				n, err := send(load, &c)
				if err != nil && load.Err() == nil {
					t.Error(err)
					return
				}
				sent.Add(1)
				tokens, cost = tokens+n, n
			}
		})
	}
	if clients > 0 {
		time.Sleep(2 * time.Second) // until the load has built up
	}
	before, at := s.tokensUsed(key), time.Now()
	asker := attacker{url: s.url, key: key, client: &http.Client{Transport: &http.Transport{}}, refused: &refused}
	own := 0
	for i := range samples {
		from := time.Now()
		n, err := chat(ctx, &asker, fmt.Sprintf("What is %d + 25?", 17+i), 16)
		if err != nil {
			t.Fatalf("normal request %d of %d: %v", i+1, samples, err)
		}
		own += n
		m.times = append(m.times, time.Since(from))
		time.Sleep(pause)
	}
	m.rate = max(0, s.tokensUsed(key)-before-float64(own)) / time.Since(at).Seconds()
	end()
	wg.Wait()
	m.requests, m.refused = sent.Load(), refused.Load()
	slices.Sort(m.times)
	return m
}

// mostMemory is the maximum memory that the server has used so far. It is empty if the system does not report it.
func (s *serving) mostMemory() string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			var kb int
			if _, err := fmt.Sscan(rest, &kb); err == nil {
				return fmt.Sprintf("%d MB", kb/1024)
			}
		}
	}
	return ""
}

// tokensUsed is the number of tokens that the server has processed so far.
func (s *serving) tokensUsed(key string) (n float64) {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodGet, s.url+"/metrics", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var x float64
		if strings.HasPrefix(line, "runner_tokens_total{") && (strings.Contains(line, `"prompt"`) ||
			strings.Contains(line, `"completion"`)) {
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &x); err != nil {
				s.t.Fatal(err)
			}
			n += x
		}
	}
	return n
}

// The approximate cost of a plain chat: baseTokens, plus tokensOfTerm for each term. A chat has at most maxTerms terms.
const (
	baseTokens   = 100
	tokensOfTerm = 4
	maxTerms     = 450
)

// plainChat asks a question that is not in the cache and has a short answer.
func plainChat(ctx context.Context, a *attacker) (tokens int, err error) {
	var b strings.Builder
	for range a.terms {
		fmt.Fprintf(&b, "%d + ", a.rng.IntN(1000))
	}
	return chat(ctx, a, "What is "+b.String()+"1?", 16)
}

func chat(ctx context.Context, a *attacker, question string, most int) (tokens int, err error) {
	text, err := a.post(ctx, "/v1/chat/completions", map[string]any{
		"temperature": 0, "max_tokens": most, "messages": []any{map[string]any{"role": "user", "content": question}},
	})
	var got struct {
		Usage struct {
			Total int `json:"total_tokens"`
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	return got.Usage.Total, err
}

// post sends a request and returns the answer, or nil if it was refused.
func (a *attacker) post(ctx context.Context, path string, body any) ([]byte, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return a.postRaw(ctx, path, b)
}

// postRaw is post for an encoded body. A hostile request may be refused, even by closing the connection before the
// whole body has arrived, but must not make the server fail. Its answer is dropped.
func (a *attacker) postRaw(ctx context.Context, path string, body []byte) ([]byte, error) {
	return a.postFrom(ctx, path, bytes.NewReader(body))
}

// postFrom is postRaw for a body whose length may be unknown.
func (a *attacker) postFrom(ctx context.Context, path string, body io.Reader) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+a.key)
	res, err := a.client.Do(req)
	if err != nil {
		closed := errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)
		if a.hostile && closed {
			a.refused.Add(1)
			return nil, nil
		}
		return nil, err
	}
	defer res.Body.Close()
	if a.hostile && res.StatusCode == http.StatusOK {
		_, err := io.Copy(io.Discard, res.Body)
		return nil, err
	}
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode == http.StatusOK {
		return text, err
	}
	refused := res.StatusCode < http.StatusInternalServerError || res.StatusCode == http.StatusServiceUnavailable
	if a.hostile && refused {
		a.refused.Add(1)
		return nil, nil
	}
	return nil, fmt.Errorf("status %d: %.300s", res.StatusCode, text)
}

// tokens returns the ids of n random tokens.
func (a *attacker) tokens(n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = a.rng.IntN(400)
	}
	return ids
}

// newKey adds a key to a file and returns it.
func newKey(t *testing.T, file, id string, flags ...string) string {
	t.Helper()
	args := append([]string{"serve", "apikey", "new", file, id}, flags...)
	out, err := exec.Command("runner", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[int(q*float64(len(sorted)-1))]
}

// quantiles formats the median and the 95th percentile.
func quantiles(sorted []time.Duration) string {
	return milliseconds(quantile(sorted, .5)) + ", " + milliseconds(quantile(sorted, .95))
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
