package dialect_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/backend/remote"
	"runner/backend/remote/dialect"
	"runner/backend/remote/llamaserver"
	"runner/backend/remote/sglang"
	"runner/backend/remote/vllm"
	"runner/backend/remote/web"
)

var update = flag.Bool("update", false, "write the golden files")

// kinds are the ways in which servers speak. recorded is the folder with recorded streams, if there is one.
var kinds = []struct {
	name, recorded string
	make           func(*web.Client, *backend.Vocab) *dialect.Engine
	textOnly       bool
}{
	{"vllm", "../vllm/testdata", vllm.New, false},
	{"vllm with text", "", vllm.New, true},
	{"sglang", "../sglang/testdata", sglang.New, false},
	{"llama-server", "", llamaserver.New, false},
}

// player is a server that answers each request for a stream with the same events.
type player struct {
	textOnly bool

	mu       sync.Mutex
	events   string
	requests [][]byte
}

// ServeHTTP implements http.Handler.
func (p *player) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what cannot be read asks for nothing
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case bytes.Contains(body, []byte(`"stream":true`)):
		p.requests = append(p.requests, body)
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, p.events)
	case r.URL.Path == "/v1/models":
		_, _ = io.WriteString(w, `{"data":[{"id":"m","owned_by":"vllm","max_model_len":4096}]}`)
	case r.URL.Path == "/version":
		_, _ = io.WriteString(w, `{}`)
	case p.textOnly && strings.HasPrefix(r.URL.Path, "/inference/"):
		w.WriteHeader(http.StatusForbidden)
	default:
		w.WriteHeader(http.StatusBadRequest)
	}
}

// play starts a player and returns an engine of a kind that asks it.
func play(tb testing.TB, kind int) (*player, *dialect.Engine) {
	tb.Helper()
	p := &player{textOnly: kinds[kind].textOnly}
	h := httptest.NewServer(p)
	tb.Cleanup(h.Close)
	c, err := web.New(web.Config{Base: h.URL})
	if err != nil {
		tb.Fatal(err)
	}
	e := kinds[kind].make(c, nil)
	tb.Cleanup(e.Close)
	return p, e
}

// request asks for a stream, with the best tokens in addition if top is not negative.
func request(top int) *remote.Request {
	return &remote.Request{ID: "a", Tokens: []backend.Token{1, 2, 3}, Most: 100,
		Sampling: backend.Sampling{Temperature: 1, TopLogprobs: top}}
}

// recording is a file of testdata without its comments, which begin with #. "top 2" in it says how many alternatives
// were asked for.
func recording(tb testing.TB, name string) (events string, top int) {
	tb.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	top = -1
	var b strings.Builder
	for line := range strings.Lines(string(data)) {
		if _, err := fmt.Sscanf(line, "top %d", &top); err != nil && !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return b.String(), top
}

// recordings returns the files of a kind.
func recordings(tb testing.TB, kind int) []string {
	tb.Helper()
	if kinds[kind].recorded == "" {
		return nil
	}
	files, err := filepath.Glob(kinds[kind].recorded + "/*.txt")
	if err != nil || len(files) == 0 {
		tb.Fatal("no recordings", err)
	}
	return files
}

// TestRecordedStreams replays the messages of engines.
func TestRecordedStreams(t *testing.T) {
	for kind := range kinds {
		for _, name := range recordings(t, kind) {
			base := strings.TrimSuffix(name, ".txt")
			t.Run(kinds[kind].name+"/"+filepath.Base(base), func(t *testing.T) {
				p, e := play(t, kind)
				var top int
				p.events, top = recording(t, name)
				got := text(t, e, top)
				if *update {
					if err := os.WriteFile(base+".golden", []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(base + ".golden")
				if err != nil || got != string(want) {
					t.Errorf("%v, got\n%swant\n%s", err, got, want)
				}
			})
		}
	}
}

// text returns what a stream is read as, one token a line, and how it ends.
func text(t *testing.T, e *dialect.Engine, top int) string {
	t.Helper()
	s, err := e.Open(t.Context(), request(top))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out strings.Builder
	for {
		var x remote.Sample
		err := s.Next(&x)
		var w *web.Error
		switch {
		case errors.Is(err, io.EOF):
			return out.String() + "end\n"
		case errors.As(err, &w):
			fmt.Fprintf(&out, "%v; again %v; too long %v\n", err, w.Temporary(), w.TooLong)
			return out.String()
		case err != nil:
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%d", x.Token)
		if top >= 0 {
			fmt.Fprintf(&out, " %g %v", x.Logprob, x.Top)
		}
		out.WriteByte('\n')
	}
}

// FuzzEvents reads any data as an event of vLLM and SGLang, after one that is good. What is accepted is JSON, its
// tokens and their probabilities are in it, and all else is an error of package web.
func FuzzEvents(f *testing.F) {
	for kind := range kinds {
		for _, name := range recordings(f, kind) {
			events, _ := recording(f, name)
			for line := range strings.Lines(events) {
				if data, ok := strings.CutPrefix(line, "data:"); ok {
					f.Add(kinds[kind].name, []byte(strings.TrimSpace(data)))
				}
			}
		}
	}
	c, err := web.New(web.Config{Base: "http://127.0.0.1"})
	if err != nil {
		f.Fatal(err)
	}
	engines := map[string]*dialect.Engine{vllm.Kind: vllm.New(c, nil), sglang.Kind: sglang.New(c, nil)}
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		e := engines[kind]
		if e == nil {
			t.Skip("a kind that does not exist")
		}
		for _, top := range []int{-1, 0, 2} {
			read := e.Events(t.Context(), request(top))
			for range 2 {
				event, err := read(data)
				var w *web.Error
				if err != nil {
					if !errors.As(err, &w) {
						t.Fatal(err)
					}
					break
				}
				if !json.Valid(data) && len(data) < 500 { // the beginning of a long one may be left unread
					t.Fatalf("%q is accepted", data)
				}
				for _, x := range event.Samples {
					if top < 0 && len(x.Top) > 0 || !(x.Logprob <= 0) || !bytes.Contains(data, fmt.Append(nil, x.Token)) {
						t.Fatalf("%q has %+v", data, x)
					}
				}
			}
		}
	})
}

// TestSettingsThatAreOff writes in each way that settings are off. Engines are asked the same, in one request, and
// refuse none.
func TestSettingsThatAreOff(t *testing.T) {
	for kind := range kinds {
		for _, top := range []int{-1, 0} {
			p, e := play(t, kind)
			for _, off := range backendtest.Off {
				r := request(top)
				off.Write(&r.Sampling)
				if err := e.Check(&r.Sampling); err != nil {
					t.Errorf("%s, %s: %v", kinds[kind].name, off.Name, err)
				}
				s, err := e.Open(t.Context(), r)
				if err != nil {
					t.Fatal(kinds[kind].name, off.Name, err)
				}
				s.Close()
			}
			for i, off := range backendtest.Off {
				if len(p.requests) != len(backendtest.Off) || !bytes.Equal(p.requests[i], p.requests[0]) {
					t.Fatalf("%s, %s: %d requests, among them\n%s\nnot\n%s", kinds[kind].name, off.Name, len(p.requests),
						p.requests[min(i, len(p.requests)-1)], p.requests[0])
				}
			}
		}
	}
}

// BenchmarkEvents reads a stream of events of one token each.
func BenchmarkEvents(b *testing.B) {
	const tokens = 1000
	for kind, event := range map[int]string{
		0: `{"request_id":"generate-tokens-42","usage":null,"choices":[{"index":0,"finish_reason":null,"token_ids":[10]}]}`,
		2: `{"text":"a","output_ids":[97],"meta_info":{"id":"a","finish_reason":null,"prompt_tokens":2,` +
			`"weight_version":"default","num_retractions":0,"cached_tokens":1,"dp_rank":null}}`,
		3: `{"index":0,"content":"","tokens":[10],"stop":false,"id_slot":-1,"tokens_predicted":1,"tokens_evaluated":3}`,
	} {
		b.Run(kinds[kind].name, func(b *testing.B) {
			p, e := play(b, kind)
			p.events = strings.Repeat("data: "+event+"\n\n", tokens)
			if kind == 3 {
				p.events = ""
				for i := range tokens {
					p.events += "data: " + strings.Replace(event, `predicted":1`, fmt.Sprintf(`predicted":%d`, i+1), 1) + "\n\n"
				}
			}
			r := request(-1)
			r.Most = tokens
			n := 0
			for b.Loop() {
				s, err := e.Open(b.Context(), r)
				if err != nil {
					b.Fatal(err)
				}
				var x remote.Sample
				for range tokens {
					if err := s.Next(&x); err != nil {
						b.Fatal(err)
					}
					n++
				}
				s.Close()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n)/1e3, "us/token")
		})
	}
}
