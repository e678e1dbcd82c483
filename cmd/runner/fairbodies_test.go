package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
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
		return []byte(chatWith(`"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{` +
			`"type":"object","properties":{` + many(100_000, `"m%d":{"type":"string"}`) + `}}}}`))
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
	{"embeddings", "/v1/embeddings", sync.OnceValue(func() []byte {
		return []byte(`{"input":[` + many(2000, `"`+strings.Repeat("a b ", 2000)+`%d"`) + `]}`)
	})},
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
	f, key := fairnessNow(), []string{"--permission", "models,embed"}
	list := []hostility{{"large bodies", key, nil, func(ctx context.Context, a *attacker) error {
		b := &largeBodies[a.rng.IntN(len(largeBodies))]
		_, err := a.postRaw(ctx, b.path, b.body())
		return err
	}}}
	if os.Getenv("RUNNER_LONG") != "" {
		for _, b := range largeBodies {
			list = append(list, hostility{b.name, key, nil, func(ctx context.Context, a *attacker) error {
				_, err := a.postRaw(ctx, b.path, b.body())
				return err
			}})
		}
	}
	rows := f.check(t, list...)
	t.Logf("%d questions in each of %d turns on %d cores\n%s%s", f.questions, f.turns, runtime.NumCPU(), fairnessTable,
		rows)
}
