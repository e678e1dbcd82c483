package llamaserver_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/remote"
	"runner/backend/remote/dialect"
	"runner/backend/remote/llamaserver"
	"runner/backend/remote/llamaserver/llamaservertest"
	"runner/backend/remote/web"
)

const demo = "../../../models/demo/demo.gguf"

func engine(tb testing.TB, url string) (*dialect.Engine, *backend.Vocab) {
	tb.Helper()
	c, err := web.New(web.Config{Base: url})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	v := tokenizerOf(tb, demo).Vocab()
	return llamaserver.New(c, v), v
}

// collect reads a generation to its end.
func collect(s remote.Stream, err error) (tokens []remote.Sample, _ error) {
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for len(tokens) < 1000 {
		var x remote.Sample
		if err := s.Next(&x); errors.Is(err, io.EOF) {
			return tokens, nil
		} else if err != nil {
			return tokens, err
		}
		tokens = append(tokens, x)
	}
	return tokens, errors.New("the generation does not end")
}

// Tokens that end inside a character are not streamed by the server, but none is missing here, and each has its
// probability.
func TestPartsOfCharacters(t *testing.T) {
	s := llamaservertest.Start(t, llamaservertest.Options{Model: demo})
	e, v := engine(t, s.URL)
	for _, text := range []string{"a中b🙂c", "中文字", "🙂🙂", "é", "plain"} {
		for _, top := range []int{-1, 0, 3} {
			r := &remote.Request{Tokens: []backend.Token{5, 6, 7}, Most: 100, Sampling: backend.Sampling{TopLogprobs: top},
				Form: &remote.Form{Kind: remote.FormGBNF, Text: `root ::= "` + text + `"`}}
			tokens, err := collect(e.Open(t.Context(), r))
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			got := ""
			for _, x := range tokens {
				if !v.EndsGeneration(x.Token) {
					got += v.Piece(x.Token)
				}
				if top >= 0 && !(x.Logprob < 0) || len(x.Top) != max(top, 0) {
					t.Errorf("%q: the token %q has %v and %d alternatives", text, v.Piece(x.Token), x.Logprob, len(x.Top))
				}
			}
			if got != text {
				t.Errorf("%q came as %q", text, got)
			}
		}
	}
}

// A generation that reaches its maximum inside a character has all its tokens.
func TestMaximumInsideACharacter(t *testing.T) {
	s := llamaservertest.Start(t, llamaservertest.Options{Model: demo})
	e, v := engine(t, s.URL)
	for most := 1; most <= 5; most++ {
		r := &remote.Request{Tokens: []backend.Token{5, 6, 7}, Most: most, Sampling: backend.Sampling{TopLogprobs: -1},
			Form: &remote.Form{Kind: remote.FormGBNF, Text: `root ::= "x🙂y"`}}
		tokens, err := collect(e.Open(t.Context(), r))
		if err != nil {
			t.Fatal(err)
		}
		// Which token ends the generation is drawn again, because the server does not tell it.
		if len(tokens) == 0 || len(tokens) > most || v.Piece(tokens[0].Token) != "x" {
			t.Errorf("at most %d tokens: %v", most, tokens)
		}
	}
}

// FuzzStream reads streams of any events. What comes is a token of the vocabulary or an error, and it ends.
func FuzzStream(f *testing.F) {
	for _, s := range []string{
		"data: {\"index\":0,\"content\":\"a\",\"tokens\":[97],\"stop\":false,\"tokens_predicted\":1}\n\n" +
			"data: {\"content\":\"\",\"tokens\":[],\"stop\":true,\"tokens_predicted\":1}\n\n",
		"data: {\"content\":\"\\u4e2d\",\"tokens\":[173],\"stop\":false,\"tokens_predicted\":3}\n\n",
		"data: {\"tokens\":[99999],\"tokens_predicted\":1}\n\n", "data: {\"error\":{\"code\":500}}\n\n", "data: [DONE]\n\n",
		"data: {\"tokens\":[5],\"tokens_predicted\":2000000000}\n\n", "data: null\n\n",
		"data: {\"tokens\":[-1],\"tokens_predicted\":1}\n\n",
	} {
		f.Add(s)
	}
	body := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, _ := io.ReadAll(r.Body) // what cannot be read asks for nothing
		if !strings.Contains(string(request), `"stream":true`) {
			fmt.Fprint(w, `{"tokens":[4],"tokens_predicted":1,"completion_probabilities":[{"id":4,"logprob":-1}]}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, body)
	}))
	defer s.Close()
	e, v := engine(f, s.URL)
	f.Fuzz(func(t *testing.T, stream string) {
		body = stream
		for _, top := range []int{-1, 2} {
			tokens, _ := collect(e.Open(t.Context(), &remote.Request{Tokens: []backend.Token{1}, Most: 50,
				Sampling: backend.Sampling{TopLogprobs: top}})) // most streams end with an error
			for _, x := range tokens {
				if !v.Valid(x.Token) {
					t.Errorf("the token %d", x.Token)
				}
			}
		}
	})
}

// An engine that says that far more tokens are missing than a character can have is not believed. It would take all
// memory to look for them.
func TestTooManyMissingTokens(t *testing.T) {
	const letters = 1 << 20
	text := strings.Repeat("é", letters) + "a"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "data: {\"content\":%q,\"tokens\":[%d],\"tokens_predicted\":%d}\n\n", text, letterA(t), 2*letters+1)
	}))
	defer s.Close()
	e, _ := engine(t, s.URL)
	_, err := collect(e.Open(t.Context(), &remote.Request{Tokens: []backend.Token{5}, Most: 100,
		Sampling: backend.Sampling{TopLogprobs: -1}}))
	var bad *web.Error
	if !errors.As(err, &bad) || bad.Kind != web.Malformed {
		t.Errorf("the error is %v", err)
	}
}

// letterA returns the token of the letter a.
func letterA(t *testing.T) backend.Token {
	t.Helper()
	tokens, err := tokenizerOf(t, demo).Encode(nil, "a")
	if err != nil || len(tokens) != 1 {
		t.Fatalf("the letter a is %v, %v", tokens, err)
	}
	return tokens[0]
}

// An alternative that is not in the vocabulary is refused, also where the probabilities are asked for in a second
// request.
func TestUnknownAlternatives(t *testing.T) {
	for _, id := range []int{-1, 1 << 30, 5} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); !strings.Contains(string(body), `"n_probs":1536`) {
				fmt.Fprint(w, `{"tokens":[4],"tokens_predicted":1}`) // a part of a character has no probabilities
				return
			}
			fmt.Fprintf(w, `{"tokens":[9],"completion_probabilities":[{"id":9,"logprob":-1,"top_logprobs":[`+
				`{"id":9,"logprob":-1},{"id":%d,"logprob":-2},{"id":4,"logprob":-3}]}]}`, id)
		}))
		e, v := engine(t, s.URL)
		if v.Len() != 1536 {
			t.Fatalf("the vocabulary has %d tokens", v.Len())
		}
		tokens, err := collect(e.Open(t.Context(), &remote.Request{Tokens: []backend.Token{5}, Most: 1,
			Sampling: backend.Sampling{TopLogprobs: 3}}))
		var bad *web.Error
		if known := id == 5; (err == nil) != known || known && len(tokens[0].Top) != 3 ||
			!known && (!errors.As(err, &bad) || bad.Kind != web.Malformed) {
			t.Errorf("the alternative %d: %v, %v", id, tokens, err)
		}
		s.Close()
	}
}

// Without a shared cache no request asks the engine to keep its prompt: neither for a token, nor for the probabilities
// of one that is a part of a character, nor for a stream.
func TestNoRequestKeepsItsPrompt(t *testing.T) {
	for _, no := range []bool{true, false} {
		var bodies []string
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			bodies = append(bodies, string(body))
			switch {
			case strings.Contains(string(body), `"n_probs":1536`):
				fmt.Fprint(w, `{"tokens":[9],"completion_probabilities":[{"id":9,"logprob":-1,"top_logprobs":[]}]}`)
			case strings.Contains(string(body), `"stream":true`):
				fmt.Fprint(w, "data: {\"content\":\"\",\"tokens\":[],\"stop\":true,\"tokens_predicted\":0}\n\n")
			default:
				fmt.Fprint(w, `{"tokens":[4],"tokens_predicted":1}`)
			}
		}))
		e, _ := engine(t, s.URL)
		for _, most := range []int{1, 8} {
			_, _ = collect(e.Open(t.Context(), &remote.Request{Tokens: []backend.Token{5}, Most: most, NoCache: no,
				Sampling: backend.Sampling{TopLogprobs: 3}}))
		}
		s.Close()
		want := fmt.Sprintf(`"cache_prompt":%t`, !no)
		for _, body := range bodies {
			if !strings.Contains(body, want) {
				t.Errorf("no %s in %.300s", want, body)
			}
		}
		if len(bodies) != 3 {
			t.Errorf("%d requests instead of 3", len(bodies))
		}
	}
}

// A real llama-server names its model in the last event of a stream and in a reply that is no stream, and it has that
// name.
func TestMessagesNameTheModel(t *testing.T) {
	e, _ := engine(t, llamaservertest.Start(t, llamaservertest.Options{Model: demo}).URL)
	d, err := remote.Describe(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	for _, most := range []int{1, 5} {
		s, err := e.Open(t.Context(), &remote.Request{Tokens: []backend.Token{5, 6}, Most: most,
			Sampling: backend.Sampling{TopLogprobs: -1}})
		if err != nil {
			t.Fatal(err)
		}
		var x remote.Sample
		for err == nil {
			err = s.Next(&x)
		}
		if name := s.Model(); !errors.Is(err, io.EOF) || name == "" || name != d.Model {
			t.Errorf("at most %d tokens: the model is %q, and in messages %q; %v", most, d.Model, name, err)
		}
		s.Close()
	}
}
