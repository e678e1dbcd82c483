package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"runner/testenv"
)

// largeBody is a body that is costly to read or to check. Most of them are refused.
type largeBody struct {
	name, path string
	body       func() []byte
}

// largeBodies are made once, because the clients share the processor with the server.
var largeBodies = []largeBody{
	{"3 MB of stop strings", "/v1/chat/completions", sync.OnceValue(func() []byte {
		return []byte(chatWith(`"stop":[` + many(240_000, `"stop%06d"`) + `]`))
	})},
	{"a schema of 100,000 members", "/v1/chat/completions", sync.OnceValue(func() []byte {
		return []byte(chatWith(`"response_format":{"type":"json_schema","json_schema":{"name":"x",` +
			`"schema":{"type":"object","properties":{` + many(100_000, `"m%d":{"type":"string"}`) + `}}}}`))
	})},
	{"300,000 messages", "/v1/chat/completions", sync.OnceValue(func() []byte {
		return []byte(`{"messages":[` + many(300_000, `{"role":"user","content":"%d"}`) + `],"max_tokens":1}`)
	})},
	{"30 MB of user", "/v1/chat/completions", sync.OnceValue(func() []byte {
		return []byte(chatWith(`"user":"` + strings.Repeat("u", 30_000_000) + `"`))
	})},
	{"21 MB of broken JSON", "/v1/chat/completions", sync.OnceValue(func() []byte {
		return []byte(`{"messages":[{"role":"user","content":"` + strings.Repeat("a ", 10_500_000) + `"}],]`)
	})},
	{"8 MB to count", "/v1/messages/count_tokens", sync.OnceValue(func() []byte {
		return []byte(`{"model":"demo","messages":[{"role":"user","content":"` + strings.Repeat("a b ", 2_000_000) + `"}]}`)
	})},
	{"9,900 messages", "/v1/chat/completions", sync.OnceValue(func() []byte {
		return []byte(`{"messages":[` + many(9_900, `{"role":"user","content":"`+strings.Repeat("word ", 500)+`%d"}`) +
			`],"max_tokens":1}`)
	})},
	{"900,000 values", "/v1/responses", sync.OnceValue(func() []byte {
		return []byte(`{"input":"Hello","max_output_tokens":1,"metadata":{"x":[` + many(900_000, `%d`) + `]}}`)
	})},
	{"1,000 functions", "/v1/chat/completions", sync.OnceValue(func() []byte {
		return []byte(chatWith(`"tools":[` + many(1000, `{"type":"function","function":{"name":"f%d","description":"`+
			strings.Repeat("It does. ", 500)+`","parameters":{"type":"object","properties":{"a":{"type":"string"},`+
			`"b":{"type":"array","items":{"enum":["x","y","z"]}}}}}}`) + `]`))
	})},
	{"escapes", "/api/chat", sync.OnceValue(func() []byte {
		return []byte(`{"model":"demo","messages":[{"role":"user","content":"` + strings.Repeat(`\u0061`, 3_000_000) + `"}]}`)
	})},
	{"a body over the limit", "/v1/chat/completions", overLimit},
	{"a chunked body over the limit", "/v1/chat/completions", overLimit},
	{"tokens of a long text", "/tokenize", sync.OnceValue(func() []byte {
		return []byte(`{"content":"` + strings.Repeat("a b ", 1_000_000) + `"}`)
	})},
	{"text of many tokens", "/detokenize", sync.OnceValue(func() []byte {
		return []byte(`{"tokens":[` + strings.Repeat("100,", 900_000) + `100]}`)
	})},
	{"embeddings", "/v1/embeddings", sync.OnceValue(func() []byte {
		return []byte(`{"input":[` + many(2000, `"`+strings.Repeat("a b ", 2000)+`%d"`) + `]}`)
	})},
}

// overLimit returns a chat that is longer than --max-body.
var overLimit = sync.OnceValue(func() []byte {
	return []byte(chatWith(`"user":"` + strings.Repeat("u", 40<<20) + `"`))
})

// post sends the body, in chunks if its name says so.
func (b *largeBody) post(ctx context.Context, a *attacker) error {
	var body io.Reader = bytes.NewReader(b.body())
	if strings.HasPrefix(b.name, "a chunked") {
		body = io.MultiReader(body)
	}
	_, err := a.postFrom(ctx, b.path, body)
	return err
}

// sealedConversation sends a conversation with much sealed reasoning, of which most does not belong where it stands.
// The value is asked for once.
func sealedConversation() func(ctx context.Context, a *attacker) error {
	var once sync.Once
	var body []byte
	return func(ctx context.Context, a *attacker) (err error) {
		once.Do(func() {
			asks := *a
			asks.hostile = false // its answer is wanted
			var text []byte
			text, err = asks.postRaw(ctx, "/v1/chat/completions",
				[]byte(`{"max_tokens":300,"reasoning_seal":true,"messages":[{"role":"user","content":"What is 17 + 25?"}]}`))
			_, value, found := strings.Cut(string(text), `"reasoning_encrypted_content":"`)
			value, _, _ = strings.Cut(value, `"`)
			if err == nil && !found {
				err = fmt.Errorf("there is no sealed value in %s", text)
			}
			body = []byte(`{"max_tokens":1,"messages":[` + many(2_000, `{"role":"user","content":"%d"},{"role":"assistant",`+
				`"content":"a","reasoning_encrypted_content":"`+value+`"}`) + `,{"role":"user","content":"Hello"}]}`)
		})
		if err == nil {
			_, err = a.postRaw(ctx, "/v1/chat/completions", body)
		}
		return err
	}
}

// chatWith returns the body of a short chat with further fields.
func chatWith(fields string) string {
	return `{"max_tokens":1,"messages":[{"role":"user","content":"Hello"}],` + fields + `}`
}

// many returns n entries of a list. Each has its number.
func many(n int, format string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestLargeBodies: the large bodies of one key hardly delay another. The short form sends all of them in turn.
func TestLargeBodies(t *testing.T) {
	testenv.NeedLong(t, "it measures times, so nothing else may run")
	f, key := fairnessNow(), []string{"--permission", "models,embed"}
	sealed := sealedConversation()
	list := []hostility{{"large bodies", key, nil, func(ctx context.Context, a *attacker) error {
		i := a.rng.IntN(len(largeBodies) + 1)
		if i == len(largeBodies) {
			return sealed(ctx, a)
		}
		return largeBodies[i].post(ctx, a)
	}}}
	if os.Getenv("RUNNER_LONG") != "" {
		for i := range largeBodies {
			list = append(list, hostility{largeBodies[i].name, key, nil, largeBodies[i].post})
		}
		list = append(list, hostility{"a sealed conversation", key, nil, sealed})
	}
	rows := f.check(t, list...)
	t.Logf("%d questions in each of %d turns on %d cores\n%s%s", f.questions, f.turns, runtime.NumCPU(), fairnessTable,
		rows)
}
