package standin_test

import (
	"context"
	"flag"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/backend/fake"
	"runner/backend/remote"
	"runner/backend/remote/remotetest"
	"runner/backend/remote/sglang"
	"runner/backend/remote/standin"
	"runner/backend/remote/vllm"
	"runner/backend/remote/web"
)

// TestMain runs many tests at a time, because most of their time is waiting.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(max(16, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// variants are the ways in which servers speak.
var variants = map[string]standin.Config{
	"vllm":                 {Kind: "vllm"},
	"vllm with text":       {Kind: "vllm", NoTokensRoute: true},
	"vllm with old routes": {Kind: "vllm", OldRoutes: true},
	"vllm with old names":  {Kind: "vllm", TokenNames: true, Burst: 3},
	"sglang":               {Kind: "sglang"},
	"sglang incremental":   {Kind: "sglang", Incremental: true, Burst: 3},
}

// start starts a server that ends with the test.
func start(tb testing.TB, c standin.Config) (*standin.Server, *httptest.Server) {
	tb.Helper()
	s := standin.New(c)
	h := httptest.NewServer(s)
	tb.Cleanup(h.Close)
	return s, h
}

// engine returns the engine of a kind at an address.
func engine(tb testing.TB, kind, url string, v *backend.Vocab) remote.Engine {
	tb.Helper()
	c := client(tb, url, 0)
	if kind == "sglang" {
		return sglang.New(c, v)
	}
	return vllm.New(c, v)
}

// engineWithTimeout returns an engine without a vocabulary that connects in a given time.
func engineWithTimeout(tb testing.TB, kind, url string, connect time.Duration) remote.Engine {
	tb.Helper()
	c := client(tb, url, connect)
	if kind == "sglang" {
		return sglang.New(c, nil)
	}
	return vllm.New(c, nil)
}

func client(tb testing.TB, url string, connect time.Duration) *web.Client {
	tb.Helper()
	c, err := web.New(web.Config{Base: url, ConnectTimeout: connect})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// open opens the model of an engine. local tokenizes as the server's model does.
func open(tb testing.TB, e remote.Engine, load backend.Config, patience remote.Patience) *remote.Model {
	tb.Helper()
	local := fake.New(fake.Config{})
	m, err := remote.Open(context.Background(), remote.Config{Engine: e, Vocab: local.Vocab(), Tokenize: local.Tokenize,
		Architecture: "gpt-oss", Load: load, Patience: patience})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { m.Close() })
	return m
}

// TestConformance runs the suite of package backendtest over both kinds of engine. RUNNER_LONG=1 adds the
// variants with other spellings, and the count of leaks, for which nothing else may run in this process.
func TestConformance(t *testing.T) {
	long := os.Getenv("RUNNER_LONG") != ""
	skip := remotetest.NotApplicable(nil)
	if !long {
		t.Parallel()
		skip["Leaks"] = "leaks are counted with RUNNER_LONG=1"
	}
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			if !long {
				if c.TokenNames || c.OldRoutes || c.Incremental {
					t.Skip("only the spelling differs; RUNNER_LONG=1 runs it")
				}
				t.Parallel()
			}
			backendtest.Run(t, func(t *testing.T, load backend.Config) backend.Model {
				c := c
				c.Model = fake.Config{ContextSize: load.ContextSize + 64, Sequences: 64, CacheTokens: 1 << 18, Delay: longSteps}
				c.Pace = 300 * time.Microsecond // else most of the time goes into tokens that nobody takes
				_, h := start(t, c)
				return open(t, engine(t, c.Kind, h.URL, fake.Harmony()), load, remote.Patience{})
			}, backendtest.Options{Tolerance: 1e-5, Skip: skip})
		})
	}
}

// longSteps slows down steps of many tokens, so that they can be cancelled while they run.
func longSteps(tokens int) time.Duration {
	if tokens < 500 {
		return 0
	}
	return 40 * time.Millisecond
}
