package standin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/backend/remote"
	"runner/backend/remote/standin"
	"runner/backend/remote/web"
)

// only allows some tokens.
type only []backend.Token

func (o only) Allows(t backend.Token) bool { return slices.Contains(o, t) }
func (o only) Fill(m backend.Mask) {
	m.Clear()
	for _, t := range o {
		m.Set(t)
	}
}

// direct samples as package fake does, without a server.
func direct(t *testing.T, r *remote.Request) (list []remote.Sample) {
	t.Helper()
	m := fake.New(fake.Config{})
	q, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	feed, out := r.Tokens, make([]backend.Output, 1)
	for range r.Most {
		in := []backend.Input{{Sequence: q, Tokens: feed, Sampling: &r.Sampling}}
		if r.Allowed != nil {
			in[0].Constraint = only(r.Allowed)
		}
		if err := m.Step(context.Background(), in, out); err != nil {
			t.Fatal(err)
		}
		list = append(list, remote.Sample{Token: out[0].Token, Logprob: out[0].Logprob, Top: slices.Clone(out[0].Top)})
		if m.Vocab().EndsGeneration(out[0].Token) {
			break
		}
		feed = []backend.Token{out[0].Token}
	}
	return list
}

// randomRequest asks for something that every engine takes.
func randomRequest(rng *rand.Rand, v *backend.Vocab, id string) *remote.Request {
	r := &remote.Request{ID: id, Most: 1 + rng.IntN(12), Sampling: backend.Sampling{Seed: uint64(rng.Uint32() >> 1),
		TopLogprobs: rng.IntN(12) - 1}}
	for range 1 + rng.IntN(30) {
		r.Tokens = append(r.Tokens, backend.Token(rng.IntN(256)))
	}
	p := &r.Sampling
	switch rng.IntN(3) {
	case 0:
		p.Temperature = 1
	case 1:
		p.Temperature, p.TopK, p.MinP, p.TopP = 0.5+rng.Float32(), rng.IntN(40), rng.Float32()/10, 0.5+rng.Float32()/2
	}
	for range rng.IntN(4) {
		p.Bias = append(p.Bias, backend.TokenBias{Token: backend.Token(rng.IntN(v.Len())), Bias: 40*rng.Float32() - 20})
	}
	if rng.IntN(3) == 0 {
		r.Most = 1
		for t := range backend.Token(v.Len()) {
			if rng.IntN(8) < 1+6*rng.IntN(2) {
				r.Allowed = append(r.Allowed, t)
			}
		}
	}
	return r
}

// TestStreamsAreThoseOfTheModel opens random generations. Tokens, probabilities and alternatives are those that the
// model itself gives, whatever the engine's messages look like.
func TestStreamsAreThoseOfTheModel(t *testing.T) {
	t.Parallel()
	v := fake.Harmony()
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, h := start(t, c)
			e := engine(t, c.Kind, h.URL, v)
			rng := rand.New(rand.NewPCG(7, 8))
			for i := range 60 {
				r := randomRequest(rng, v, fmt.Sprint("r-", i))
				if err := e.Check(&r.Sampling); err != nil {
					t.Fatal(err)
				}
				want := direct(t, r)
				got, err := all(t, e, r)
				if len(got) == 0 || err != nil && !errors.Is(err, io.EOF) {
					t.Fatalf("request %d %+v: %d samples, %v\n%s", i, r, len(got), err, last(s))
				}
				if r.Allowed != nil && r.Sampling.Temperature > 0 {
					// Which token is drawn depends on how the others are kept out. Its probability does not.
					if !slices.Contains(r.Allowed, got[0].Token) {
						t.Fatalf("request %d: %d is not allowed", i, got[0].Token)
					}
					want = direct(t, &remote.Request{Tokens: r.Tokens, Most: 1, Sampling: r.Sampling,
						Allowed: []backend.Token{got[0].Token}})
				}
				for j, x := range got {
					compare(t, &x, &want[j], r)
				}
				// A stream of SGLang has one token where its probabilities have to be asked for.
				if len(got) != len(want) && (c.Kind != "sglang" || len(got) != 1) {
					t.Fatalf("request %d: %d samples, want %d", i, len(got), len(want))
				}
			}
			if n := s.Running(); n > 0 {
				t.Errorf("%d generations still run", n)
			}
		})
	}
}

// last returns the body of the last request.
func last(s *standin.Server) []byte {
	list := s.Requests()
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1]
}

// all reads a generation to its end.
func all(t *testing.T, e remote.Engine, r *remote.Request) (list []remote.Sample, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	s, err := e.Open(ctx, r)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for {
		var x remote.Sample
		if err := s.Next(&x); err != nil {
			return list, err
		}
		list = append(list, x)
	}
}

func compare(t *testing.T, got, want *remote.Sample, r *remote.Request) {
	t.Helper()
	near := func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-3 }
	if got.Token != want.Token {
		t.Fatalf("token %d, want %d, of %+v", got.Token, want.Token, r)
	}
	if r.Sampling.TopLogprobs < 0 {
		return
	}
	if !near(got.Logprob, want.Logprob) || len(got.Top) != len(want.Top) {
		t.Fatalf("probability %v, want %v, with %d alternatives, want %d", got.Logprob, want.Logprob, len(got.Top),
			len(want.Top))
	}
	for i, x := range got.Top {
		if x.Token != want.Top[i].Token || !near(x.Logprob, want.Top[i].Logprob) {
			t.Fatalf("alternatives %v, want %v", got.Top, want.Top)
		}
	}
}

// TestRequestsOfAllSettings checks what no sample shows: salts and forms.
func TestRequestsOfAllSettings(t *testing.T) {
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			s, h := start(t, c)
			e := engine(t, c.Kind, h.URL, fake.Harmony())
			send := func(change func(r *remote.Request)) map[string]any {
				r := &remote.Request{ID: "one", Tokens: []backend.Token{1}, Most: 1, Sampling: backend.Sampling{TopLogprobs: -1}}
				change(r)
				if _, err := all(t, e, r); !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				var body map[string]any
				if err := json.Unmarshal(last(s), &body); err != nil {
					t.Fatal(err)
				}
				return body
			}
			salt := func(b map[string]any) any { return b["cache_salt"] }
			if got := salt(send(func(r *remote.Request) {})); got != nil {
				t.Errorf("a salt that nobody asked for: %v", got)
			}
			if got := salt(send(func(r *remote.Request) { r.Salt = "mine" })); got != "mine" {
				t.Errorf("the salt is %v", got)
			}
			if got := salt(send(func(r *remote.Request) { r.Salt, r.NoCache = "mine", true })); got != "one" {
				t.Errorf("a prefix that nobody may share has the salt %v", got)
			}
			for _, k := range []remote.FormKind{remote.FormJSONSchema, remote.FormRegex, remote.FormGBNF} {
				text := `root ::= "a\"b"`
				data, _ := json.Marshal(send(func(r *remote.Request) { r.Form = &remote.Form{Kind: k, Text: text} }))
				quoted, _ := json.Marshal(text)
				if n := strings.Count(string(data), string(quoted)); n != 1 {
					t.Errorf("the form %s is %d times in %s", k, n, data)
				}
			}
			data, _ := json.Marshal(send(func(r *remote.Request) {
				r.Form = &remote.Form{Kind: remote.FormChoices, List: []string{"yes", "a.b"}}
			}))
			want := map[string]string{"vllm": `{"choice":["yes","a.b"]}`, "sglang": `"regex":"(yes|a\\.b)"`}[c.Kind]
			if !strings.Contains(string(data), want) {
				t.Errorf("%s is not in %s", want, data)
			}
		})
	}
}

// TestSettingsWithoutAnEqual lists what is refused by name.
func TestSettingsWithoutAnEqual(t *testing.T) {
	for name, c := range variants {
		_, h := start(t, c)
		e := engine(t, c.Kind, h.URL, fake.Harmony())
		m := open(t, e, backend.Config{}, remote.Patience{})
		for word, p := range map[string]backend.Sampling{"typical_p": {TypicalP: 0.5}, "repetition": {RepetitionPenalty: 1.1},
			"bias": {Bias: []backend.TokenBias{{Token: 1, Bias: 101}}}} {
			if err := m.CheckSampling(&p); err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%s, %s: %v", name, word, err)
			}
		}
		if err := m.CheckSampling(&backend.Sampling{Temperature: 2.5}); (err == nil) == (c.Kind == "vllm") {
			t.Errorf("%s at temperature 2.5: %v", name, err)
		}
		if _, err := e.Encode(context.Background(), "a<|end|>b", false); err == nil {
			t.Errorf("%s tokenizes the name of a control token as text", name)
		}
		ids, err := e.Encode(context.Background(), "a<|end|>b", true)
		if err != nil || !slices.Equal(ids, fake.Encode(fake.Harmony(), "a<|end|>b")) {
			t.Errorf("%s: %v, %v", name, ids, err)
		}
	}
}

// TestDescriptions says what is known of a server.
func TestDescriptions(t *testing.T) {
	for name, c := range variants {
		c.Name, c.Model = "openai/gpt-oss-120b", fake.Config{ContextSize: 4096}
		_, h := start(t, c)
		d, err := engine(t, c.Kind, h.URL, nil).Describe(context.Background())
		if err != nil {
			t.Fatal(name, err)
		}
		size := map[string]int{"vllm": 4096, "sglang": 4090}[c.Kind]
		if d.Model != c.Name || d.ContextSize != size || d.TrainedContext != 4096 || d.Version == "" || !d.Salted ||
			!d.Unsharing || d.Vocabulary != fake.Harmony().Len() || len(d.Forms) != 4 || d.Path == "" {
			t.Errorf("%s: %+v", name, d)
		}
		told := strings.Contains(strings.Join(d.Notes, "\n"), "start it with")
		if want := c.NoTokensRoute || c.OldRoutes || c.Kind == "sglang" && !c.Incremental; told != want {
			t.Errorf("%s: %q", name, d.Notes)
		}
	}
}

// padded returns a vocabulary that has n tokens more than that of the stand-in.
func padded(t *testing.T, n int) *backend.Vocab {
	t.Helper()
	v := fake.Harmony()
	p, err := backend.NewVocab(v.Config(v.Len() + n))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSizesOfVocabularies opens models with fewer and more tokens than the tokenizer has. Each engine says how many it
// has, and is asked once.
func TestSizesOfVocabularies(t *testing.T) {
	t.Parallel()
	local := fake.New(fake.Config{})
	size := local.Vocab().Len()
	for name, c := range variants {
		for _, x := range []struct {
			extra, says int
			terse       bool
			refused     string
		}{
			{extra: 0, says: size},
			{extra: 2000, says: size + 2000},
			{extra: 2100, says: size + 2100, refused: fmt.Sprintf("%d tokens and the engine's has %d", size, size+2100)},
			{extra: 2100, terse: true},
		} {
			c.Model, c.Terse = fake.Config{Vocab: padded(t, x.extra), ContextSize: 4096}, x.terse
			s := standin.New(c)
			var asked atomic.Int32
			h := newServer(t, "", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				if bytes.Contains(body, []byte(`"logit_bias":{"2147483647":0}`)) {
					asked.Add(1)
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				s.ServeHTTP(w, r)
			}), nil)
			e := engine(t, c.Kind, h.url, local.Vocab())
			for range 3 {
				if d, err := e.Describe(context.Background()); err != nil || d.Vocabulary != x.says {
					t.Errorf("%s, %d more tokens, terse %v: it says that it has %d of %d tokens, %v", name, x.extra, x.terse,
						d.Vocabulary, size+x.extra, err)
				}
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("%s: three descriptions ask %d times for the size", name, n)
			}
			m, err := remote.Open(context.Background(), remote.Config{Engine: e, Vocab: local.Vocab(),
				Tokenize: local.Tokenize, Architecture: "gpt-oss"})
			if err == nil {
				m.Close()
			}
			if (err != nil) != (x.refused != "") ||
				err != nil && (!errors.Is(err, remote.ErrTokenizer) || !strings.Contains(err.Error(), x.refused)) {
				t.Errorf("%s, %d more tokens, terse %v: %v, want %q", name, x.extra, x.terse, err, x.refused)
			}
			if n := len(s.Requests()); n > 0 {
				t.Errorf("%s: %d generations", name, n)
			}
		}
		c.Model, c.Terse = fake.Config{}, false
		_, h := start(t, c)
		m, err := remote.Open(context.Background(), remote.Config{Engine: engine(t, c.Kind, h.URL, padded(t, 1)),
			Vocab: padded(t, 1), Tokenize: local.Tokenize, Architecture: "gpt-oss"})
		if err == nil {
			m.Close()
		}
		if !errors.Is(err, remote.ErrTokenizer) {
			t.Errorf("%s has fewer tokens than the tokenizer: %v", name, err)
		}
	}
}

// TestOldSGLang describes versions that do not keep prefixes apart, or crash if they are asked for their vocabulary.
func TestOldSGLang(t *testing.T) {
	for _, c := range []struct {
		version    string
		noPrefixes bool
		apart      bool
		vocabulary int
	}{
		{"0.4.8", false, false, 0}, {"0.4.8", true, true, 0}, {"0.5.4", false, false, 0},
		{"0.5.10", false, false, fake.Harmony().Len()},
		{"0.5.23", false, true, fake.Harmony().Len()}, {"main", false, false, 0},
	} {
		_, h := start(t, standin.Config{Kind: "sglang", Version: c.version, NoPrefixes: c.noPrefixes})
		d, err := engine(t, "sglang", h.URL, nil).Describe(context.Background())
		if err != nil || d.Salted != c.apart || d.Unsharing != c.apart || d.Vocabulary != c.vocabulary {
			t.Errorf("SGLang %s, without prefixes %v: %+v, %v", c.version, c.noPrefixes, d, err)
		}
		told := strings.Contains(strings.Join(d.Notes, "\n"), "--disable-radix-cache")
		if told == c.apart {
			t.Errorf("SGLang %s, without prefixes %v: %q", c.version, c.noPrefixes, d.Notes)
		}
	}
}

// TestTokensRouteIsDisabledLater starts a server again, now without --enable-scale-out. The next request takes the
// other route.
func TestTokensRouteIsDisabledLater(t *testing.T) {
	servers := []*standin.Server{standin.New(standin.Config{Kind: "vllm"}),
		standin.New(standin.Config{Kind: "vllm", NoTokensRoute: true})}
	var at, asked atomic.Int32
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/inference/v1/generate" {
			asked.Add(1)
		}
		servers[at.Load()].ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	e := engine(t, "vllm", h.URL, fake.Harmony())
	for range 3 {
		if _, err := e.Describe(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if n := asked.Load(); n != 2 { // for the route, and for the size of the vocabulary
		t.Errorf("three descriptions ask the route %d times", n)
	}
	for i := range servers {
		at.Store(int32(i))
		got, err := all(t, e, &remote.Request{ID: "one", Tokens: []backend.Token{1}, Most: 3,
			Sampling: backend.Sampling{TopLogprobs: -1}})
		if len(got) == 0 || !errors.Is(err, io.EOF) {
			t.Fatalf("server %d: %d samples, %v", i, len(got), err)
		}
	}
	if body := last(servers[1]); !bytes.Contains(body, []byte(`"prompt":[1]`)) {
		t.Errorf("the last request is %s", body)
	}
}

// TestOtherServersAreNoEngines asks servers that are something else.
func TestOtherServersAreNoEngines(t *testing.T) {
	for _, c := range []struct{ server, asked string }{{"vllm", "sglang"}, {"sglang", "vllm"}} {
		_, h := start(t, standin.Config{Kind: c.server})
		_, err := engine(t, c.asked, h.URL, nil).Describe(context.Background())
		var w *web.Error
		if !errors.As(err, &w) || w.Kind != web.Missing && w.Kind != web.Malformed {
			t.Errorf("%s asked as %s: %v", c.server, c.asked, err)
		}
	}
}

// TestKeys asks with a key and without it.
func TestKeys(t *testing.T) {
	for _, kind := range []string{"vllm", "sglang"} {
		h := httptest.NewServer(standin.New(standin.Config{Kind: kind, Key: "secret"}))
		defer h.Close()
		_, err := engine(t, kind, h.URL, nil).Describe(context.Background())
		var w *web.Error
		if !errors.As(err, &w) || w.Kind != web.Denied {
			t.Errorf("%s without a key: %v", kind, err)
		}
	}
}

// TestPenalties compares presence and frequency penalties with those of the model itself. The model of package remote
// sends them as a bias.
func TestPenalties(t *testing.T) {
	for name, c := range variants {
		_, h := start(t, c)
		m := open(t, engine(t, c.Kind, h.URL, fake.Harmony()), backend.Config{}, remote.Patience{})
		here := fake.New(fake.Config{})
		p := backend.Sampling{PresencePenalty: 1.5, FrequencyPenalty: -0.7, TopLogprobs: 2}
		tokens := map[backend.Model][]backend.Token{}
		for _, m := range []backend.Model{m, here} {
			q, err := m.NewSequence()
			if err != nil {
				t.Fatal(err)
			}
			p.Seen = []backend.Token{9, 9, 40}
			feed, out := []backend.Token{1, 2, 3}, make([]backend.Output, 1)
			for range 8 {
				in := []backend.Input{{Sequence: q, Tokens: feed, Sampling: &p}}
				if err := backend.StepAll(context.Background(), m, in, out); err != nil {
					t.Fatal(name, err)
				}
				feed = []backend.Token{out[0].Token}
				p.Seen = append(p.Seen, out[0].Token)
			}
			tokens[m] = p.Seen
			q.Close()
		}
		if !slices.Equal(tokens[m], tokens[here]) {
			t.Errorf("%s: %v, want %v", name, tokens[m], tokens[here])
		}
	}
}
