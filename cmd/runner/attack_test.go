package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// attack is load that one key puts on the server. It must hardly delay another key's requests.
type attack struct {
	name    string
	scope   string
	clients int
	// send carries out one request and returns how many tokens it cost, 0 for work that has no tokens.
	send func(ctx context.Context, a *attacker) (tokens int, err error)
	// serve has flags for the server.
	serve []string
}

// attacker is one client of an attack.
type attacker struct {
	url, key string
	client   *http.Client
	rng      *rand.Rand
	// hostile says that what is sent may be refused, and refused counts how often it was.
	hostile bool
	refused *atomic.Int64
}

var attacks = []attack{
	{"long texts to embed", "embed", 2, func(ctx context.Context, a *attacker) (int, error) {
		inputs := make([][]int, 64)
		for i := range inputs {
			inputs[i] = a.tokens(1980)
		}
		_, err := a.post(ctx, "/v1/embeddings", map[string]any{"input": inputs})
		return 64 * 1980, err
	}, nil},
	{"slow schemas", "generate", 2, func(ctx context.Context, a *attacker) (int, error) {
		first := a.rng.IntN(1 << 30) // so that none is in the cache
		values := make([]int, 5000)
		for i := range values {
			values[i] = first + i
		}
		return a.askFor(ctx, map[string]any{"not": map[string]any{"enum": values}})
	}, nil},
	{"schemas that are too complex", "generate", 2, func(ctx context.Context, a *attacker) (int, error) {
		patterns := make([]any, 60)
		for i := range patterns {
			patterns[i] = map[string]any{"pattern": fmt.Sprintf("a.{0,%d}b%d", i, a.rng.IntN(1<<30))}
		}
		return a.askFor(ctx, map[string]any{"type": "string", "allOf": patterns})
	}, nil},
}

// askFor asks for an answer of one token with a schema, which may be refused.
func (a *attacker) askFor(ctx context.Context, schema any) (int, error) {
	_, err := a.post(ctx, "/v1/chat/completions", map[string]any{
		"max_tokens": 1, "messages": []any{map[string]any{"role": "user", "content": "Hello"}},
		"response_format": map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "x", "schema": schema}},
	})
	return 1, err
}

// samples is how many requests are timed in each situation.
const samples = 60

// allowed is how much longer than among plain chats the 95th percentile of normal requests may be during an attack.
const allowed = 250 * time.Millisecond

// TestAttacks compares the time of a normal request during an attack with its time among plain chats that cost as many tokens per second
// and come from as many clients.
func TestAttacks(t *testing.T) {
	if os.Getenv("RUNNER_LONG") == "" {
		t.Skip("it takes minutes; set RUNNER_LONG=1")
	}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) { a.compare(t) })
	}
}

func (a *attack) compare(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.json")
	normal, bad, plain := newKey(t, file, "normal", "generate"), newKey(t, file, "bad", a.scope), newKey(t, file, "plain", "generate")
	s := serve(t, append([]string{"--api-keys", file}, a.serve...)...)
	idle, _ := s.timed(t, normal, nil, attacker{}, 0, noLimit)
	attacked, rate := s.timed(t, normal, a.send, attacker{url: s.url, key: bad, hostile: true}, a.clients, noLimit)
	among, plainRate := s.timed(t, normal, plainChat, attacker{url: s.url, key: plain}, a.clients, rate)
	t.Logf("idle: %s", quantiles(idle))
	t.Logf("among plain chats of %d clients, %.0f tokens per second: %s", a.clients, plainRate, quantiles(among))
	t.Logf("during the attack of %d clients, %.0f tokens per second: %s", a.clients, rate, quantiles(attacked))
	if more := quantile(attacked, .95) - quantile(among, .95); more > allowed {
		t.Errorf("the 95th percentile is %v more than among plain chats, at most %v is allowed", more, allowed)
	}
}

// noLimit is for clients that send as much as they can.
const noLimit = -1

// timed measures normal requests while clients send what send does, at most perSecond tokens per second together. It returns
// the times in order, and how many tokens per second the clients spent.
func (s *serving) timed(t *testing.T, key string, send func(context.Context, *attacker) (int, error), like attacker, clients int, perSecond float64) (times []time.Duration, rate float64) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var refused, sent atomic.Int64
	began := time.Now()
	for i := range clients {
		wg.Go(func() {
			c := like
			c.client, c.rng, c.refused = &http.Client{Transport: &http.Transport{}}, rand.New(rand.NewPCG(5, uint64(i))), &refused
			tokens := 0
			for ctx.Err() == nil {
				n, err := send(ctx, &c)
				if err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
				sent.Add(1)
				if tokens += n; perSecond >= 0 {
					due := began.Add(time.Duration(min(float64(tokens*clients)/perSecond, 1e6) * float64(time.Second)))
					select {
					case <-time.After(time.Until(due)):
					case <-ctx.Done():
					}
				}
			}
		})
	}
	if clients > 0 {
		time.Sleep(time.Second) // until the load is there
	}
	before, at := s.tokensUsed(key), time.Now()
	asker := attacker{url: s.url, key: key, client: &http.Client{Transport: &http.Transport{}}, refused: &refused}
	own := 0
	for i := range samples {
		from := time.Now()
		n, err := chat(t.Context(), &asker, fmt.Sprintf("What is %d + 25?", 17+i), 16)
		if err != nil {
			t.Fatal(err)
		}
		own += n
		times = append(times, time.Since(from))
		time.Sleep(20 * time.Millisecond)
	}
	rate = max(0, s.tokensUsed(key)-before-float64(own)) / time.Since(at).Seconds()
	stop()
	wg.Wait()
	t.Logf("%d requests by %d clients, %d refused", sent.Load(), clients, refused.Load())
	slices.Sort(times)
	return times, rate
}

// tokensUsed is how many tokens the server has worked on so far.
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
		if strings.HasPrefix(line, "runner_tokens_total{") && (strings.Contains(line, `"prompt"`) || strings.Contains(line, `"completion"`)) {
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &x); err != nil {
				s.t.Fatal(err)
			}
			n += x
		}
	}
	return n
}

// plainChat asks what cannot be taken from the cache, with a long prompt and a short answer.
func plainChat(ctx context.Context, a *attacker) (tokens int, err error) {
	var b strings.Builder
	for range 450 {
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

// post sends a request and returns the answer, nil where it was refused for now.
func (a *attacker) post(ctx context.Context, path string, body any) ([]byte, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return a.postRaw(ctx, path, b)
}

func (a *attacker) postRaw(ctx context.Context, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+a.key)
	res, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil || res.StatusCode == http.StatusOK:
	case a.hostile:
		a.refused.Add(1)
	default:
		err = fmt.Errorf("status %d: %.300s", res.StatusCode, text)
	}
	return text, err
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
func newKey(t *testing.T, file, id, scope string) string {
	t.Helper()
	out, err := exec.Command("runner", "apikey", "new", file, id, "--scope", scope, "--scope", "metrics").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[int(q*float64(len(sorted)-1))]
}

func quantiles(sorted []time.Duration) string {
	at := func(q float64) time.Duration { return quantile(sorted, q).Round(100 * time.Microsecond) }
	return fmt.Sprintf("median %v, 95th percentile %v, most %v", at(.5), at(.95), at(1))
}
