// Command loadgen asks a server many questions at once over OpenAI's streamed chat completions and prints the
// results: tokens per second over the whole run, and while all clients were receiving answers and no prompt was
// being read (decode alone); time to first token; time between tokens; and, given the server's process id on Linux,
// the server's CPU time.
//
//	runner serve --parallel 8 &
//	go run ./scripts/loadgen -url http://127.0.0.1:8080 -clients 8 -seconds 20 -pid $!
//
// It parses only the last frames of each answer and skips the rest as bytes, so that it takes little time from the
// server on the same machine. The server serves the bundled model, or any other model with -prompt.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

type options struct {
	url, model, prompt, key string
	clients, maxTokens, pid int
	seconds                 float64
	seed                    uint64
}

// tally is what one client has measured.
type tally struct {
	requests, failed, tokens, frames int
	// text frames of an answer cut off by the end; its tokens are a few more, because some have no text
	cut            int
	first, between []time.Duration
	answers        []span
	arrived        []time.Time // every frame with text
}

// span is the time of an answer, from its first text to its last.
type span struct{ from, to time.Time }

func main() {
	var o options
	flag.StringVar(&o.url, "url", "http://127.0.0.1:8080", "the server's address")
	flag.StringVar(&o.model, "model", "", "model to ask; empty is the server's first")
	flag.StringVar(&o.key, "key", os.Getenv("RUNNER_API_KEY"), "API key")
	flag.StringVar(&o.prompt, "prompt", "", "question to ask; empty asks for sums")
	flag.IntVar(&o.clients, "clients", 1, "clients that ask at once")
	flag.IntVar(&o.maxTokens, "max-tokens", 0, "maximum tokens of an answer; 0 is no limit")
	flag.IntVar(&o.pid, "pid", 0, "the server's process, to measure its CPU time")
	flag.Float64Var(&o.seconds, "seconds", 10, "how long to run")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the questions")
	flag.Parse()
	if o.clients < 1 {
		fmt.Fprintln(os.Stderr, "loadgen: -clients must be 1 or more")
		os.Exit(2)
	}
	if err := run(&o); err != nil {
		fmt.Fprintln(os.Stderr, "loadgen:", err)
		os.Exit(1)
	}
}

func run(o *options) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(o.seconds*float64(time.Second)))
	defer cancel()
	before, err := cpuTime(o.pid)
	if err != nil {
		return err
	}
	began := time.Now()
	tallies := make([]tally, o.clients)
	var wg sync.WaitGroup
	for i := range tallies {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(o.seed, uint64(i)))
			client := &http.Client{Transport: &http.Transport{}}
			for ctx.Err() == nil {
				tallies[i].ask(ctx, client, o, rng)
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	after, err := cpuTime(o.pid)
	if err != nil {
		return err
	}
	report(o, tallies, took, after-before)
	return nil
}

// ask sends one question and reads its answer.
func (t *tally) ask(ctx context.Context, client *http.Client, o *options, rng *rand.Rand) {
	prompt := o.prompt
	if prompt == "" {
		prompt = fmt.Sprintf("What is %d + %d?", rng.IntN(1000), rng.IntN(1000))
	}
	request := map[string]any{
		"model": o.model, "stream": true, "temperature": 0, "reasoning": "full",
		"stream_options": map[string]bool{"include_usage": true},
		"messages":       []map[string]string{{"role": "user", "content": prompt}},
	}
	if o.maxTokens > 0 {
		request["max_tokens"] = o.maxTokens
	}
	body, err := json.Marshal(request)
	if err != nil {
		t.failed++
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		t.failed++
		return
	}
	req.Header.Set("Content-Type", "application/json")
	if o.key != "" {
		req.Header.Set("Authorization", "Bearer "+o.key)
	}
	began := time.Now()
	res, err := client.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			t.failed++
		}
		return
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, res.Body)
		t.failed++
		return
	}
	t.read(ctx, res.Body, began)
}

// read reads the frames of an answer.
func (t *tally) read(ctx context.Context, body io.Reader, began time.Time) {
	lines := bufio.NewReaderSize(body, 1<<16)
	last, frames := began, 0
	var usage []byte
	var arrived []time.Time // what follows the first frame
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			if ctx.Err() != nil {
				t.cut += len(arrived)
				t.take(arrived)
			} else if !errors.Is(err, io.EOF) {
				t.failed++
			}
			return
		}
		if !bytes.HasPrefix(line, []byte("data: ")) {
			continue
		}
		if bytes.HasPrefix(line, []byte("data: [DONE]")) {
			break
		}
		now := time.Now()
		if frames++; frames == 2 { // the first has the role and comes at once
			t.first = append(t.first, now.Sub(began))
		} else if frames > 2 {
			t.between = append(t.between, now.Sub(last))
		}
		if frames > 1 {
			arrived = append(arrived, now)
		}
		last = now
		usage = append(usage[:0], line[len("data: "):]...)
	}
	var final struct {
		Usage *struct {
			Completion int `json:"completion_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(usage, &final); err != nil || final.Usage == nil {
		t.failed++
		return
	}
	t.requests++
	t.frames += frames
	t.tokens += final.Usage.Completion
	t.take(arrived[:max(0, len(arrived)-2)]) // the last two frames are the finish reason and the usage
}

// take adds an answer whose text frames arrived at these times.
func (t *tally) take(arrived []time.Time) {
	if len(arrived) > 1 {
		t.answers = append(t.answers, span{arrived[0], arrived[len(arrived)-1]})
		t.arrived = append(t.arrived, arrived...)
	}
}

func report(o *options, tallies []tally, took, cpu time.Duration) {
	var all tally
	for i := range tallies {
		all.requests += tallies[i].requests
		all.failed += tallies[i].failed
		all.tokens += tallies[i].tokens
		all.frames += tallies[i].frames
		all.cut += tallies[i].cut
		all.first = append(all.first, tallies[i].first...)
		all.between = append(all.between, tallies[i].between...)
	}
	fmt.Printf("clients %d, %.1f s: %d answers, %d failed, %d tokens, %d frames\n", o.clients, took.Seconds(),
		all.requests, all.failed, all.tokens, all.frames)
	all.tokens += all.cut
	fmt.Printf("tokens per second   %.1f\n", float64(all.tokens)/took.Seconds())
	frames, long := decoding(tallies)
	fmt.Printf("decode alone        %.1f frames per second, in %.1f s\n", float64(frames)/max(long.Seconds(), 1e-9),
		long.Seconds())
	fmt.Printf("time to first token %s\n", quantiles(all.first))
	fmt.Printf("between frames      %s\n", quantiles(all.between))
	if o.pid != 0 && all.tokens > 0 {
		fmt.Printf("server CPU          %.2f s, %.1f us per token\n", cpu.Seconds(),
			float64(cpu.Microseconds())/float64(all.tokens))
	}
}

// decoding returns the number of frames that arrived while all clients were receiving answers, and the length of
// that time.
func decoding(tallies []tally) (frames int, long time.Duration) {
	all := tallies[0].answers
	for i := range tallies[1:] {
		all = shared(all, tallies[i+1].answers)
	}
	for _, s := range all {
		long += s.to.Sub(s.from)
		for i := range tallies {
			after := func(at time.Time) int {
				n, _ := slices.BinarySearchFunc(tallies[i].arrived, at, func(a, b time.Time) int { return a.Compare(b.Add(1)) })
				return n
			}
			frames += after(s.to) - after(s.from)
		}
	}
	return frames, long
}

// shared returns the time covered by spans of both a and b, each sorted.
func shared(a, b []span) []span {
	var out []span
	for len(a) > 0 && len(b) > 0 {
		s := span{a[0].from, a[0].to}
		if b[0].from.After(s.from) {
			s.from = b[0].from
		}
		if b[0].to.Before(s.to) {
			s.to = b[0].to
		}
		if s.to.After(s.from) {
			out = append(out, s)
		}
		if a[0].to.Before(b[0].to) {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}

func quantiles(d []time.Duration) string {
	if len(d) == 0 {
		return "none"
	}
	slices.Sort(d)
	at := func(q float64) time.Duration { return d[int(q*float64(len(d)-1))].Round(time.Microsecond) }
	return fmt.Sprintf("median %v, p90 %v, p99 %v, max %v", at(.5), at(.9), at(.99), at(1))
}

// cpuTime returns the CPU time that a process has used, from Linux's /proc; 0 for no process.
func cpuTime(pid int) (time.Duration, error) {
	if pid == 0 {
		return 0, nil
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field, the name, may hold anything; user and system time are the 12th and 13th after it, in
	// hundredths of a second (proc(5)).
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("process %d: /proc/stat has an unknown format", pid)
	}
	ticks := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}
