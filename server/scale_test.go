package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/backend/remote/standin"
	"runner/runner"
	"runner/server"
	"runner/server/openai"
	"runner/server/wire"
	"runner/testenv"
)

// Environment variables of the processes that BenchmarkOpenStreams starts.
const (
	roleKey    = "RUNNER_SCALE_ROLE"
	addressKey = "RUNNER_SCALE_ADDRESS"
	streamsKey = "RUNNER_SCALE_STREAMS"
	paceKey    = "RUNNER_SCALE_PACE"
	windowKey  = "RUNNER_SCALE_WINDOW"
)

// BenchmarkOpenStreams measures what a runner before vLLM costs while many streams are open. The engine is the stand-in
// over package fake, in a process of its own. The clients are in a third process, so that this one is the runner alone.
//
//	go test ./server -run '^$' -bench OpenStreams -benchtime 1x
//
// docs/scale.md has the figures.
func BenchmarkOpenStreams(b *testing.B) {
	for _, c := range []struct {
		streams int
		pace    time.Duration
	}{{100, 50 * time.Millisecond}, {500, 100 * time.Millisecond}, {2000, 400 * time.Millisecond}} {
		b.Run(fmt.Sprintf("streams=%d", c.streams), func(b *testing.B) {
			for b.Loop() {
				openStreams(b, c.streams, c.pace, 10*time.Second)
			}
		})
	}
}

// TestOpenStreams runs the benchmark in small, so that it stays in order.
func TestOpenStreams(t *testing.T) {
	if role := os.Getenv(roleKey); role != "" {
		play(t, role)
		return
	}
	openStreams(t, 20, 10*time.Millisecond, 300*time.Millisecond)
}

// child is a process that plays a role.
type child struct {
	lines *bufio.Scanner
	stop  func()
}

// start starts a process of this program.
func start(tb testing.TB, role string, env ...string) *child {
	tb.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestOpenStreams$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), append(env, roleKey+"="+role)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		in.Close() // the role ends with its input
		_ = cmd.Wait()
	})
	tb.Cleanup(stop)
	return &child{bufio.NewScanner(out), stop}
}

// line returns what a child says next.
func (c *child) line(tb testing.TB) string {
	tb.Helper()
	if !c.lines.Scan() {
		tb.Fatal("a process ended: ", c.lines.Err())
	}
	return c.lines.Text()
}

// clientReport is what the clients measured while all streams were open.
type clientReport struct {
	Tokens int
	// Before counts the tokens until all streams had one, and Opening is how long that took.
	Before  int
	Opening float64
	// Wait is the median and the 99th percentile of the time between two tokens of a stream, in seconds.
	Wait, Wait99 float64
}

// openStreams opens streams and measures.
func openStreams(tb testing.TB, streams int, pace, window time.Duration) {
	tb.Helper()
	settings := []string{streamsKey + "=" + strconv.Itoa(streams), paceKey + "=" + pace.String(),
		windowKey + "=" + window.String()}
	engine := start(tb, "engine", settings...)
	base := serve(tb, engine.line(tb), streams)
	before, resident, idle := memory(), pages(), processor()
	clients := start(tb, "clients", append(settings, addressKey+"="+base)...)
	if said := clients.line(tb); said != "open" {
		tb.Fatal(said)
	}
	opening := processor() - idle
	during, residentThen := memory(), pages()
	from := processor() // without what memory took
	var report clientReport
	if err := json.Unmarshal([]byte(clients.line(tb)), &report); err != nil {
		tb.Fatal(err)
	}
	spent := processor() - from
	clients.stop()
	if report.Tokens < streams {
		tb.Fatalf("%d tokens of %d streams", report.Tokens, streams)
	}
	if b, ok := tb.(*testing.B); ok {
		b.ReportMetric(float64(report.Tokens)/window.Seconds(), "tokens/s")
		b.ReportMetric(100*spent.Seconds()/window.Seconds(), "cpu-%")
		perToken := float64(spent.Microseconds()) / float64(report.Tokens)
		b.ReportMetric(perToken, "cpu-us/token")
		b.ReportMetric((float64(opening.Microseconds())-perToken*float64(report.Before))/float64(streams), "cpu-us/open")
		b.ReportMetric(float64(during-before)/1024/float64(streams), "KiB/stream")
		b.ReportMetric(float64(residentThen-resident)/1024/float64(streams), "resident-KiB/stream")
		b.ReportMetric(1000*report.Opening, "ms-to-open-all")
		b.ReportMetric(1000*report.Wait, "ms-gap-p50")
		b.ReportMetric(1000*report.Wait99, "ms-gap-p99")
		b.ReportMetric(0, "ns/op")
	}
}

// memory returns what Go holds after a collection: the heap and the stacks.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// pages returns the memory of this process that is resident, in bytes; 0 if the system does not tell.
func pages() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(data), &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}

// processor returns the processor time of this process.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// serve starts a runner before an engine and returns its address.
func serve(tb testing.TB, engine string, streams int) string {
	tb.Helper()
	models := remotePool(tb, engine, backend.Config{Sequences: streams + 16},
		runner.Config{Queue: 2 * streams, Parallel: streams})
	s := server.New(server.Config{Pool: models, Cards: []wire.Card{{Name: "big"}}, MaxConnections: 2*streams + 64})
	s.Mount(openai.New(s, openai.Config{}))
	return testenv.Listen(tb, s)
}

// play is the whole of a process that BenchmarkOpenStreams started.
func play(t *testing.T, role string) {
	streams, err := strconv.Atoi(os.Getenv(streamsKey))
	if err != nil {
		t.Fatal(err)
	}
	duration := func(key string) time.Duration {
		d, err := time.ParseDuration(os.Getenv(key))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	switch role {
	case "engine":
		h := httptest.NewServer(standin.New(standin.Config{Kind: "vllm", Pace: duration(paceKey), Model: fake.Config{
			Script: talk(fake.Harmony()), ContextSize: 4096, Sequences: 2 * streams, CacheTokens: 1024 * streams}}))
		defer h.Close()
		fmt.Println(h.URL)
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "clients":
		listen(os.Getenv(addressKey), streams, duration(windowKey))
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
}

// talk writes an answer without an end.
func talk(v *backend.Vocab) fake.Script {
	answer := fake.Encode(v, "<|channel|>final<|message|>")
	var words []backend.Token
	for _, w := range []string{" the", " answer", " is", " that", " reasoning", " plus", " what", " have", " from"} {
		words = append(words, fake.Encode(v, w)...)
	}
	begin := fake.Encode(v, "<|start|>assistant")
	return func(tokens []backend.Token) backend.Token {
		for n := range answer {
			if k := len(tokens) - n - len(begin); k >= 0 && slices.Equal(tokens[k:k+len(begin)], begin) &&
				slices.Equal(tokens[k+len(begin):], answer[:n]) {
				return answer[n]
			}
		}
		return words[(len(tokens)*len(tokens)/7)%len(words)]
	}
}

// silent is how many tokens talk writes that are no text.
const silent = 3

// listen opens streams, says "open" when all have a token, and reports what came in the time after.
func listen(base string, streams int, window time.Duration) {
	began := time.Now()
	var tokens, before atomic.Int64
	var measuring atomic.Bool
	var first, all sync.WaitGroup
	var mu sync.Mutex
	var gaps []float64
	ctx, cancel := context.WithCancel(context.Background())
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	turn := make(chan struct{}, 512) // how many open at a time
	first.Add(streams)
	for range streams {
		all.Go(func() {
			turn <- struct{}{}
			free := sync.OnceFunc(func() {
				<-turn
				first.Done()
			})
			var own []float64
			last := time.Time{}
			if err := follow(ctx, client, base, func() {
				free()
				now := time.Now()
				if before.Add(1); measuring.Load() {
					tokens.Add(1)
					if !last.IsZero() {
						own = append(own, now.Sub(last).Seconds())
					}
				}
				last = now
			}); err != nil && ctx.Err() == nil {
				fmt.Println("a stream failed:", err)
				os.Exit(1)
			}
			mu.Lock()
			defer mu.Unlock()
			gaps = append(gaps, own...)
		})
	}
	first.Wait()
	report := clientReport{Opening: time.Since(began).Seconds(), Before: int(before.Load()) + silent*streams}
	fmt.Println("open")
	measuring.Store(true)
	time.Sleep(window)
	measuring.Store(false)
	report.Tokens = int(tokens.Load())
	cancel()
	all.Wait()
	slices.Sort(gaps)
	if n := len(gaps); n > 0 {
		report.Wait, report.Wait99 = gaps[n/2], gaps[n*99/100]
	}
	data, _ := json.Marshal(report) // numbers alone
	fmt.Println(string(data))
}

// follow reads one answer and calls came with each piece of it.
func follow(ctx context.Context, c *http.Client, base string, came func()) error {
	body := `{"model":"big","stream":true,"max_tokens":3000,"messages":[{"role":"user","content":"Say something."}]}`
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	q.Header.Set("Content-Type", "application/json")
	r, err := c.Do(q)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", r.StatusCode)
	}
	lines := bufio.NewReader(r.Body)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("the answer ends: %w", err)
		}
		if bytes.Contains(line, []byte(`"content":"`)) && !bytes.Contains(line, []byte(`"content":""`)) {
			came()
		}
	}
}
