package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fairness says how the requests of one key are timed while four connections of another key do their worst. The worst
// may delay them hardly more than four plain chats do.
type fairness struct {
	// turns is how often each of the two situations is measured, one after the other. Medians of the turns count.
	turns int
	// questions is how many requests are timed in a turn. One begins every so often, whether the last was answered or not.
	questions int
	every     time.Duration
	// allowed is how much longer the 95th percentile may be than among plain chats, or times that one if that is more.
	allowed time.Duration
	times   float64
}

// The measures of the short tests and of the long ones. The short tests share the processor with other tests, which
// make plain chats slow too. On an idle machine 20 times a plain chat are about the time that is allowed anyway.
var (
	shortFairness = fairness{turns: 1, questions: 12, every: 500 * time.Millisecond, allowed: 600 * time.Millisecond,
		times: 20}
	longFairness = fairness{turns: 3, questions: 60, every: time.Second, allowed: 250 * time.Millisecond}
)

// fairnessNow returns the measure of the tests that run now.
func fairnessNow() fairness {
	if os.Getenv("RUNNER_LONG") != "" {
		return longFairness
	}
	return shortFairness
}

const (
	// besides is the number of the other key's connections.
	besides = 4
	// mostWait is how long a timed request may take in all, and settles how long the other key's load builds up.
	mostWait = 2 * time.Minute
	settles  = 2 * time.Second
)

// hostility is what a key does to keep others from being answered. send makes one request; a connection sends one after
// the other.
type hostility struct {
	name string
	// key has the flags of the key, and server those of the server.
	key, server []string
	send        func(ctx context.Context, a *attacker) error
}

// check measures hostilities on a server of their own and returns their rows of a table. They have the flags of the
// first.
func (f fairness) check(t *testing.T, list ...hostility) (rows string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys.json")
	normal := newKey(t, file, "normal", "--permission", "generate")
	bad := newKey(t, file, "bad", append([]string{"--permission", "generate", "--reasoning", "full"}, list[0].key...)...)
	s := serve(t, append([]string{"--api-keys", file}, list[0].server...)...)
	return f.compare(t, s, normal, bad, list...)
}

// compare is check on a server that runs, with two of its keys.
func (f fairness) compare(t *testing.T, s *serving, normal, bad string, list ...hostility) (rows string) {
	t.Helper()
	all := append([]hostility{{name: "plain chats", send: long200}}, list...)
	medians, high := make([][]time.Duration, len(all)), make([][]time.Duration, len(all))
	sent, refused := make([]int64, len(all)), make([]int64, len(all))
	for turn := range f.turns {
		for i, h := range all {
			times, n, no := f.timed(t, s, normal, attacker{url: s.url, key: bad, hostile: i > 0}, h.send)
			medians[i], high[i] = append(medians[i], quantile(times, .5)), append(high[i], quantile(times, .95))
			sent[i], refused[i] = sent[i]+n, refused[i]+no
			t.Logf("turn %d: %s beside %s", turn+1, quantiles(times), h.name)
		}
	}
	plain := medianOf(high[0])
	allowed := max(f.allowed, time.Duration(f.times*float64(plain)))
	for i, h := range all {
		more := medianOf(high[i]) - plain
		if more > allowed {
			t.Errorf("%s: the 95th percentile is %v more than the %v beside plain chats, at most %v is allowed", h.name,
				more, plain, allowed)
		}
		rows += fmt.Sprintf("| %s | %d | %d | %s, %s | %s |\n", h.name, sent[i], refused[i],
			milliseconds(medianOf(medians[i])), milliseconds(medianOf(high[i])), milliseconds(more))
	}
	return rows
}

// fairnessTable is the head of a table of compare's rows.
const fairnessTable = "| beside | requests | refused | median and 95th percentile | more than beside plain chats |\n" +
	"|---|---|---|---|---|\n"

// timed returns the sorted times of the questions of a key while the connections of another one send what send does. It
// counts the requests of these connections.
func (f fairness) timed(
	t *testing.T, s *serving, key string, like attacker, send func(context.Context, *attacker) error,
) (times []time.Duration, sent, refused int64) {
	t.Helper()
	load, end := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer end()
	var count, no atomic.Int64
	for i := range besides {
		group.Go(func() {
			a := like
			a.client, a.refused = &http.Client{Transport: &http.Transport{}}, &no
			defer a.client.CloseIdleConnections()
			a.rng = rand.New(rand.NewPCG(11, uint64(i)))
			for load.Err() == nil {
				if err := send(load, &a); err != nil && load.Err() == nil {
					t.Error(err)
					return
				}
				count.Add(1)
			}
		})
	}
	time.Sleep(settles)
	times = make([]time.Duration, f.questions)
	asker := attacker{url: s.url, key: key, client: &http.Client{Transport: &http.Transport{}}, refused: new(atomic.Int64)}
	defer asker.client.CloseIdleConnections()
	var asked sync.WaitGroup
	began := time.Now()
	for i := range times {
		time.Sleep(time.Until(began.Add(time.Duration(i) * f.every)))
		asked.Go(func() {
			ctx, stop := context.WithTimeout(t.Context(), mostWait)
			defer stop()
			from := time.Now()
			if _, err := chat(ctx, &asker, fmt.Sprintf("What is %d + 25?", 17+i), 20); err != nil {
				t.Errorf("question %d of %d: %v", i+1, len(times), err)
			}
			times[i] = time.Since(from)
		})
	}
	asked.Wait()
	end()
	group.Wait()
	slices.Sort(times)
	return times, count.Load(), no.Load()
}

// long200 has 200 tokens generated, as a long answer of a chat has. Only a raw prompt goes on after the model's end, so
// the key must have reasoning:full.
func long200(ctx context.Context, a *attacker) error {
	_, err := a.post(ctx, "/v1/completions", map[string]any{
		"prompt": fmt.Sprintf("What is %d + %d?", a.rng.IntN(1000), a.rng.IntN(1000)), "max_tokens": 200, "ignore_eos": true,
	})
	return err
}

// medianOf returns the median of times.
func medianOf(times []time.Duration) time.Duration {
	return quantile(slices.Sorted(slices.Values(times)), .5)
}
