package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runner/backend/fake"
)

func TestClientThatLeavesEndsItsRun(t *testing.T) {
	s := host(t, Config{}, slowly(time.Millisecond, said("q", strings.Repeat("a b ", 2000))))
	ctx, leave := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/say", strings.NewReader(`{"text":"q"}`))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	leave()
	res.Body.Close()
	deadline := time.Now().Add(10 * time.Second)
	for !strings.Contains(s.do(t, http.MethodGet, "/metrics", "").body,
		`runner_runs_total{finish="cancelled",model="a"} 1`) ||
		!regexp.MustCompile(`route="POST /say".* code=client_cancelled`).MatchString(s.log.String()) {
		if time.Now().After(deadline) {
			t.Fatal("the run goes on")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestSlowReadersDelayNobody checks that clients that do not read their answers delay no others, and that their runs
// still end.
func TestSlowReadersDelayNobody(t *testing.T) {
	c := scripted(said("slow", strings.Repeat("a b ", 500)), said("q", "four"))
	c.Sequences = 4
	s := host(t, Config{}, c)
	for range 3 {
		// About 200 MB each, which no buffer on the way can hold.
		res, err := http.Post(s.url+"/say", "application/json", strings.NewReader(`{"text":"slow","pad":100000}`))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
	}
	for range 20 {
		if r := s.do(t, http.MethodPost, "/say", `{"text":"q"}`); !strings.Contains(r.body, "four") {
			t.Fatalf("%d %s", r.StatusCode, r.body)
		}
	}
	deadline := time.Now().Add(20 * time.Second)
	for !strings.Contains(s.do(t, http.MethodGet, "/metrics", "").body, `runner_runs_active{model="a"} 0`) {
		if time.Now().After(deadline) {
			t.Fatal("the slow readers hold their sequences")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestManyAtOnce has 64 clients ask at once. Some leave early. Each gets the answer to its own question, and nothing
// is leaked.
func TestManyAtOnce(t *testing.T) {
	soak := 4 * time.Second
	if os.Getenv("RUNNER_LONG") != "" {
		soak = 2 * time.Minute
	}
	var replies []fake.Reply
	for i := range 50 {
		replies = append(replies, said(fmt.Sprintf("question %d.", i),
			fmt.Sprintf("answer %d of many words that take a while", i)))
	}
	c := scripted(replies...)
	c.Sequences = 16
	s := host(t, Config{}, c)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	ask := func(i int, leave time.Duration) (string, error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if leave > 0 {
			defer time.AfterFunc(leave, cancel).Stop()
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/say",
			strings.NewReader(fmt.Sprintf(`{"text":"question %d."}`, i)))
		if err != nil {
			return "", err
		}
		res, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		content, err := io.ReadAll(res.Body)
		return frameEnds.ReplaceAllString(string(content), ""), err
	}
	idle := func() int {
		client.CloseIdleConnections()
		deadline := time.Now().Add(20 * time.Second)
		for {
			r, ok := s.cfg.Pool.Loaded("a"), false
			if r != nil {
				stats := r.Stats()
				ok = stats.Active == 0 && stats.Waiting == 0
			}
			if ok {
				time.Sleep(50 * time.Millisecond) // connections take a moment to close
				return runtime.NumGoroutine()
			}
			if time.Now().After(deadline) {
				t.Fatal("runs are left behind")
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	if _, err := ask(0, 0); err != nil {
		t.Fatal(err)
	}
	before := idle()
	var whole, left atomic.Int64
	end := time.Now().Add(soak)
	var wg sync.WaitGroup
	for n := range 64 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(5, uint64(n)))
			for time.Now().Before(end) {
				i, leave := rng.IntN(50), time.Duration(0)
				if rng.IntN(3) == 0 {
					leave = time.Duration(1+rng.IntN(3000)) * time.Microsecond
				}
				got, err := ask(i, leave)
				want := fmt.Sprintf("data: \"answer %d of many words that take a while\"\n\n", i)
				switch {
				case errors.Is(err, context.Canceled):
					left.Add(1)
				case err != nil:
					t.Error(err)
				case got != want:
					t.Errorf("%q, want %q", got, want)
				default:
					whole.Add(1)
				}
			}
		})
	}
	wg.Wait()
	after := idle()
	t.Logf("%d answers, %d clients left early; %d goroutines, then %d", whole.Load(), left.Load(), before, after)
	if whole.Load() == 0 || left.Load() == 0 {
		t.Error("the test tests nothing")
	}
	if after > before+5 {
		t.Errorf("%d goroutines are left behind", after-before)
	}
}
