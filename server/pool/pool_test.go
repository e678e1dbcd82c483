package pool

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"runner/generation"
	"runner/server/wire"
	"runner/server/wiretest"
)

// opener opens fake models and counts them.
type opener struct {
	mu sync.Mutex
	// opened lists the names in order, and models the models.
	opened []string
	models []*wiretest.Fake
	fail   error
	// slow delays opening.
	slow time.Duration
	// breaks is what breaks every opened model at its first probe; nil for nothing.
	breaks error
}

func (o *opener) Open(ctx context.Context, name string) (wire.Loaded, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case <-time.After(o.slow):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if o.fail != nil {
		return nil, o.fail
	}
	m := wiretest.Broken(o.breaks)
	o.opened, o.models = append(o.opened, name), append(o.models, m)
	return m, nil
}

func newPool(t *testing.T, cfg Config, names ...string) (*Pool, *opener) {
	o := &opener{}
	cfg.Open = o.Open
	for _, n := range names {
		cfg.Models = append(cfg.Models, Entry{Name: n, Size: 10})
	}
	p := New(cfg)
	t.Cleanup(func() { p.Close() })
	return p, o
}

func use(t *testing.T, p *Pool, name string) func() {
	t.Helper()
	r, release, err := p.Use(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	return release
}

func loaded(p *Pool) (names []string) {
	for _, n := range p.Names() {
		if p.Loaded(n) != nil {
			names = append(names, n)
		}
	}
	return names
}

func TestModelIsLoadedOnceForAll(t *testing.T) {
	p, o := newPool(t, Config{}, "a", "b")
	o.slow = 20 * time.Millisecond
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { use(t, p, "a")() })
	}
	wg.Wait()
	if !slices.Equal(o.opened, []string{"a"}) {
		t.Errorf("opened %v", o.opened)
	}
	if _, _, err := p.Use(t.Context(), "c"); !errors.Is(err, ErrUnknown) {
		t.Errorf("unknown: %v", err)
	}
}

func TestMemoryGoesToTheCallerThatNeedsIt(t *testing.T) {
	p, _ := newPool(t, Config{Memory: 20}, "a", "b", "c")
	use(t, p, "a")()
	use(t, p, "b")()
	use(t, p, "a")()
	use(t, p, "c")() // b was used least recently
	if got := loaded(p); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("loaded %v", got)
	}
}

func TestModelInUseIsNeverUnloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newPool(t, Config{Memory: 10, KeepAlive: time.Minute}, "a", "b")
		release := use(t, p, "a")
		if _, _, err := p.Use(t.Context(), "b"); !errors.Is(err, ErrNoMemory) {
			t.Fatalf("no room: %v", err)
		}
		time.Sleep(time.Hour)
		if got := loaded(p); !slices.Equal(got, []string{"a"}) {
			t.Fatalf("loaded %v", got)
		}
		go func() {
			time.Sleep(patience / 2)
			release()
			release() // twice is harmless
		}()
		use(t, p, "b")()
		if got := loaded(p); !slices.Equal(got, []string{"b"}) {
			t.Errorf("loaded %v", got)
		}
		p.Close()
	})
}

// A caller that waits for room delays no others, and is not delayed by other waiters.
func TestManyWaitForRoomAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newPool(t, Config{Memory: 20, KeepAlive: -1}, "a", "b", "c")
		release := use(t, p, "a")
		releaseC := use(t, p, "c")
		defer release()
		began := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if _, _, err := p.Use(t.Context(), "b"); !errors.Is(err, ErrNoMemory) || time.Since(began) != patience {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		}
		wg.Wait()
		wg.Go(func() { use(t, p, "b")() })
		time.Sleep(time.Second)
		releaseC()
		wg.Wait()
		if waited := time.Since(began) - patience; waited != time.Second {
			t.Errorf("the room was taken after %v", waited)
		}
	})
}

// Requests for one model that follow each other without a pause do not keep another one out of memory. A single request
// that takes long does, but new requests for its model wait at most once a minute for that.
func TestRequestsWithoutPauseLetOthersIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, o := newPool(t, Config{Memory: 10, KeepAlive: -1}, "a", "b")
		ctx, end := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var used atomic.Int64
		for i := range 4 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 300 * time.Millisecond)
				for ctx.Err() == nil {
					release := use(t, p, "a")
					used.Add(1)
					time.Sleep(time.Second)
					release()
				}
			})
		}
		time.Sleep(time.Minute)
		for range 10 {
			began := time.Now()
			release := use(t, p, "b")
			if waited := time.Since(began); waited > 3*time.Second {
				t.Errorf("b was loaded after %v", waited)
			}
			time.Sleep(time.Second / 2)
			release()
			time.Sleep(3 * time.Second)
		}
		if end(); used.Load() < 4*60+10*4 {
			t.Errorf("%d requests for a", used.Load())
		}
		wg.Wait()
		if n := len(o.opened); n > 22 {
			t.Errorf("models were loaded %d times", n)
		}

		release := use(t, p, "a") // it takes long
		defer release()
		wg.Go(func() {
			for range 5 {
				if _, _, err := p.Use(t.Context(), "b"); !errors.Is(err, ErrNoMemory) {
					t.Errorf("no room: %v", err)
				}
			}
		})
		held := 0
		for range 40 {
			began := time.Now()
			use(t, p, "a")()
			if time.Since(began) > 0 {
				held++
			}
			time.Sleep(time.Second)
		}
		if held != 1 {
			t.Errorf("requests for the model in use waited %d times", held)
		}
		wg.Wait()
	})
}

// A model that waited for memory is loaded for as long as it takes. Requests for other models do not wait for that.
func TestLoadingDelaysNoOtherModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, o := newPool(t, Config{Memory: 20, KeepAlive: -1}, "a", "b", "c")
		use(t, p, "a")()
		release := use(t, p, "c")
		hold := use(t, p, "a")
		go func() {
			time.Sleep(2 * time.Second)
			o.mu.Lock()
			o.slow = time.Minute
			o.mu.Unlock()
			release()
		}()
		go func() { _, _, _ = p.Use(t.Context(), "b") }()
		time.Sleep(3 * time.Second) // b has its memory and is being loaded
		began := time.Now()
		use(t, p, "a")()
		if waited := time.Since(began); waited > 0 {
			t.Errorf("a request for a loaded model waited for %v", waited)
		}
		hold()
		time.Sleep(2 * time.Minute)
	})
}

func TestIdleModelsAreUnloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, o := newPool(t, Config{KeepAlive: time.Minute}, "a", "b")
		release := use(t, p, "a")
		use(t, p, "b")()
		time.Sleep(59 * time.Second)
		if got := loaded(p); len(got) != 2 {
			t.Errorf("loaded %v", got)
		}
		for name, want := range map[string]time.Duration{"a": time.Minute, "b": time.Second} {
			if got := time.Until(p.Expires(name)); got != want {
				t.Errorf("%s expires in %v", name, got)
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := loaded(p); !slices.Equal(got, []string{"a"}) {
			t.Errorf("loaded %v", got)
		}
		release()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := p.Expires("a"); !got.IsZero() {
			t.Errorf("a model that is not loaded expires at %v", got)
		}
		if got := loaded(p); len(got) != 0 {
			t.Errorf("loaded %v", got)
		}
		for i, m := range o.models {
			if !m.Closed() {
				t.Errorf("%s is not closed", o.opened[i])
			}
		}
		p.Close()
	})
}

func TestFailedLoadIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, o := newPool(t, Config{}, "a")
		cannot := errors.New("broken file")
		o.fail = cannot
		if _, _, err := p.Use(t.Context(), "a"); !errors.Is(err, cannot) {
			t.Fatal(err)
		}
		o.fail = nil
		if _, _, err := p.Use(t.Context(), "a"); !errors.Is(err, cannot) {
			t.Fatalf("it is tried again at once: %v", err)
		}
		time.Sleep(retryAfter)
		use(t, p, "a")()
		p.Close()
	})
}

// A model whose engine failed is loaded again, pinned or not, but not repeatedly at once. Callers that still hold it
// do not delay that.
func TestBrokenModelIsReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, o := newPool(t, Config{}, "a")
		fault := errors.New("the engine failed")
		p.models["a"].entry.Pinned, o.breaks = true, fault
		r, release, err := p.Use(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Probe(t.Context()); !errors.Is(err, fault) || r.Failure() == nil {
			t.Fatalf("%v, failure %v", err, r.Failure())
		}
		if _, _, err := p.Use(t.Context(), "a"); !errors.Is(err, ErrBroken) {
			t.Errorf("it is loaded again at once: %v", err)
		}
		o.breaks = nil
		time.Sleep(retryAfter)
		use(t, p, "a")()
		release()
		if len(o.opened) != 2 || p.Loaded("a") == r {
			t.Errorf("opened %v", o.opened)
		}
		if err := r.Probe(t.Context()); !errors.Is(err, generation.ErrClosed) {
			t.Errorf("the broken one is not closed: %v", err)
		}
		p.Close()
	})
}

// A caller that waits for a model that cannot be loaded is answered when that is known. It does not start another
// attempt.
func TestFailedLoadAnswersAllWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, o := newPool(t, Config{}, "a")
		o.fail, o.slow = errors.New("broken file"), time.Minute
		began := time.Now()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, _, err := p.Use(t.Context(), "a"); !errors.Is(err, o.fail) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it took %s", took)
		}
		p.Close()
	})
}

// Unload closes an unused model, pinned or not. A model in use is closed when it is released, unless another caller
// requests it before.
func TestUnload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, o := newPool(t, Config{KeepAlive: -1, Models: []Entry{{Name: "p", Pinned: true}}}, "a")
		unload := func(name string) {
			t.Helper()
			if err := p.Unload(t.Context(), name); err != nil {
				t.Error(err)
			}
		}
		unload("a") // is not loaded
		for _, name := range []string{"p", "a"} {
			use(t, p, name)()
			if unload(name); p.Loaded(name) != nil {
				t.Errorf("%s is still there", name)
			}
		}
		release := use(t, p, "a")
		if unload("a"); p.Loaded("a") == nil {
			t.Error("it was unloaded in use")
		}
		release()
		synctest.Wait()
		if p.Loaded("a") != nil {
			t.Error("it is not unloaded once it is given back")
		}
		release = use(t, p, "a")
		unload("a")
		use(t, p, "a")()
		release()
		synctest.Wait()
		if p.Loaded("a") == nil {
			t.Error("it is unloaded although somebody has asked for it")
		}
		if err := p.Unload(t.Context(), "x"); !errors.Is(err, ErrUnknown) {
			t.Error(err)
		}
		if len(o.opened) != 4 {
			t.Errorf("opened %v", o.opened)
		}
		p.Close()
		if err := p.Unload(t.Context(), "a"); !errors.Is(err, generation.ErrClosed) {
			t.Error(err)
		}
	})
}

func TestLoadingOutlivesTheFirstCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, o := newPool(t, Config{}, "a")
		o.slow = time.Minute
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := p.Use(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		use(t, p, "a")()
		if len(o.opened) != 1 {
			t.Errorf("opened %v", o.opened)
		}
		p.Close()
	})
}

func TestCloseEndsLoadsAndRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, o := newPool(t, Config{}, "a", "b")
		r, release, err := p.Use(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		o.slow = time.Hour
		go func() {
			if _, _, err := p.Use(t.Context(), "b"); err == nil {
				t.Error("b was loaded after Close")
			}
		}()
		synctest.Wait()
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if err := r.Probe(t.Context()); !errors.Is(err, generation.ErrClosed) {
			t.Errorf("probe: %v", err)
		}
		release()
		if _, _, err := p.Use(t.Context(), "a"); !errors.Is(err, generation.ErrClosed) {
			t.Errorf("use: %v", err)
		}
		if err := p.Close(); err != nil {
			t.Errorf("twice: %v", err)
		}
	})
}

func TestManyUsersOfFewPlaces(t *testing.T) {
	p, o := newPool(t, Config{Memory: 20, KeepAlive: 5 * time.Millisecond}, "a", "b", "c", "d")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for range 30 {
				use(t, p, p.Names()[rng.IntN(4)])()
			}
		})
	}
	wg.Wait()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for i, m := range o.models {
		if !m.Closed() {
			t.Errorf("%s is not closed", o.opened[i])
		}
	}
}

// TestFailureSaysWhatUseWouldSay checks the reason why a model cannot be had: there is no memory for it while the last
// request for it found none, and it cannot be loaded until an attempt succeeds.
func TestFailureSaysWhatUseWouldSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, o := newPool(t, Config{Memory: 15, KeepAlive: -1}, "a", "b")
		says := func(name string, want error) {
			t.Helper()
			if got := p.Failure(name); !errors.Is(got, want) {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
		}
		release := use(t, p, "a")
		says("b", nil)
		if _, _, err := p.Use(t.Context(), "b"); !errors.Is(err, ErrNoMemory) {
			t.Fatal(err)
		}
		says("b", ErrNoMemory)
		says("a", nil)
		release()
		says("b", nil)

		cannot := errors.New("it ends early")
		o.fail = cannot
		if _, _, err := p.Use(t.Context(), "b"); !errors.Is(err, cannot) {
			t.Fatal(err)
		}
		says("b", cannot)
		time.Sleep(time.Hour)
		says("b", cannot)
		o.fail = nil
		use(t, p, "b")()
		says("b", nil)
	})
}
