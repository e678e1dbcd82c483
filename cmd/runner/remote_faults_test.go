package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runner/backend/remote/llamaserver/llamaservertest"
	"runner/backend/remote/standin"
	"runner/models/demo"
	"runner/runner"
)

// The engine is killed and started again and again. No run is lost, because each is resumed from its tokens.
func TestRemoteEngineIsKilled(t *testing.T) {
	engineIsKilled(t, func(engine string) patient {
		r, err := runner.New(openRemoteModel(t, engine), runner.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
		return patient{
			ask: func(text string) (string, error) { return answerOf(t.Context(), r, text) },
			faults: func() (faults, gaveUp float64) {
				s := r.Stats().Remote
				return float64(s.Faults), float64(s.GaveUp)
			},
		}
	})
}

// No client of a server loses a request while the engine is killed again and again.
func TestServedEngineIsKilled(t *testing.T) {
	engineIsKilled(t, func(engine string) patient {
		s := serve(t, "demo=llama-server+"+engine)
		s.healthy()
		return patient{
			ask: func(text string) (string, error) {
				a := s.ask(context.Background(), http.DefaultClient, text, 0)
				return a.text + " " + a.finish, a.err
			},
			faults: func() (faults, gaveUp float64) {
				return s.metric(`runner_remote_faults_total{model="demo"}`),
					s.metric(`runner_remote_given_up_total{model="demo"}`)
			},
		}
	})
}

// patient asks an engine that is killed.
type patient struct {
	// ask returns the most likely answer. Many may ask at a time.
	ask func(text string) (string, error)
	// faults returns how many streams failed, and how many sequences were given up.
	faults func() (faults, gaveUp float64)
}

// engineIsKilled starts an engine, kills it and starts it again while four clients ask.
func engineIsKilled(t *testing.T, start func(engine string) patient) {
	t.Helper()
	kills := 2
	if long() {
		kills = 100
	}
	python := llamaservertest.Python(t)
	path, err := demo.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	engine, err := llamaservertest.Launch(python, llamaservertest.Options{Model: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Kill() })
	port := portOf(t, engine.URL)
	p := start(engine.URL)
	texts := plainSums(20)
	want := make([]string, len(texts))
	for i, text := range texts {
		if want[i], err = p.ask(text); err != nil {
			t.Fatal(err)
		}
	}
	var stop atomic.Bool
	var runs, lost, other atomic.Int64
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Go(func() {
			for i := k; !stop.Load(); i++ {
				got, err := p.ask(texts[i%len(texts)])
				if runs.Add(1); err != nil {
					lost.Add(1)
					t.Errorf("a run was lost: %v", err)
				} else if got != want[i%len(texts)] {
					other.Add(1)
				}
			}
		})
	}
	for range kills {
		before := runs.Load()
		for begin := time.Now(); runs.Load() < before+4 && time.Since(begin) < 20*time.Second; {
			time.Sleep(5 * time.Millisecond)
		}
		engine.Kill()
		if engine, err = llamaservertest.Launch(python, llamaservertest.Options{Model: path, Port: port}); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	wg.Wait()
	faults, gaveUp := p.faults()
	t.Logf("%d kills, %d runs, %d lost, %d with another answer, %v faults, %v given up", kills, runs.Load(), lost.Load(),
		other.Load(), faults, gaveUp)
	if faults == 0 || gaveUp > 0 || other.Load() > 1+runs.Load()/50 {
		t.Error("too many answers differ, or nothing failed")
	}
}

// portOf returns the port of an address.
func portOf(t *testing.T, address string) int {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// The only slot of a llama-server is free again soon after the client that it computes for has left.
func TestRequestsAreAbortedAtTheEngine(t *testing.T) {
	path, err := demo.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	engine := llamaservertest.Start(t, llamaservertest.Options{Model: path, Parallel: 1, Context: 8192})
	s := serve(t, "demo=llama-server+"+engine.URL)
	s.healthy()
	const most = 7000
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		// The bias makes an answer that ends at its limit only.
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(
			`{"stream": true, "max_tokens": `+strconv.Itoa(most)+`, "reasoning_effort": "none", "logit_bias": {"100": 100},
			"messages": [{"role": "user", "content": "Hello"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		tokens, began := 0, time.Now()
		for buffer := make([]byte, 64<<10); tokens < 50; {
			n, err := res.Body.Read(buffer)
			if err != nil {
				t.Fatalf("the answer ends after %d tokens: %v", tokens, err)
			}
			tokens += strings.Count(string(buffer[:n]), `"content":"`)
		}
		// What the answer would still take, if nobody ended it.
		left := time.Since(began) * (most - 2000) / time.Duration(tokens)
		done := make(chan error, 1)
		go func() { done <- completeOne(engine.URL) }()
		select {
		case err := <-done:
			t.Fatalf("the slot is not busy while the client reads: %v", err)
		case <-time.After(200 * time.Millisecond):
		}
		cancel()
		res.Body.Close()
		gone := time.Now()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		free := time.Since(gone)
		t.Logf("the slot was free %v after the client left; the answer would have taken %v more", free, left)
		if free > 2*time.Second && free > left/8 {
			t.Errorf("the slot was free only %v after the client left", free)
		}
	}
}

// completeOne asks a llama-server for one token. It waits until a slot is free.
func completeOne(engine string) error {
	res, err := http.Post(engine+"/completion", "application/json",
		strings.NewReader(`{"prompt": [100, 101, 102], "n_predict": 1}`))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var reply struct {
		Predicted int `json:"tokens_predicted"`
	}
	if err := json.NewDecoder(res.Body).Decode(&reply); err != nil {
		return err
	}
	if reply.Predicted != 1 {
		return fmt.Errorf("status %d, %d tokens", res.StatusCode, reply.Predicted)
	}
	return nil
}

// --engine-wait says how long a request waits for an engine that fails.
func TestRequestsWaitForTheEngine(t *testing.T) {
	dir := byteModel(t)
	engine := byteEngine(t, dir, standin.Config{Kind: "vllm", Name: "big"})
	s := serve(t, "--tokenizer", dir, "--engine-wait", "2s", "big=vllm+"+listening(t, engine))
	s.healthy()
	for _, fails := range []bool{true, false} {
		began := time.Now()
		engine.Fail(func(int) standin.Fault {
			if fails || time.Since(began) < time.Second {
				return standin.Fault{Status: http.StatusServiceUnavailable}
			}
			return standin.Fault{}
		})
		status, text := send(t, http.MethodPost, s.url+"/v1/chat/completions", "",
			`{"messages": [{"role": "user", "content": "Hi"}]}`)
		took := time.Since(began)
		if fails && (status != http.StatusServiceUnavailable || took > 15*time.Second) ||
			!fails && (status != http.StatusOK || !strings.Contains(text, "It is 42.")) {
			t.Errorf("fails for long %v: status %d after %v: %s", fails, status, took, text)
		}
	}
	out, err := exec.Command("runner", "run", "http://127.0.0.1:9", "--engine-wait", "2h", "Hi").CombinedOutput()
	if err == nil || !strings.Contains(unwrapped(string(out)), `--engine-wait cannot be "2h"; use 1s to 1h`) {
		t.Errorf("with a wait of two hours: %v: %s", err, out)
	}
}
