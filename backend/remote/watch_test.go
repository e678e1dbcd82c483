package remote_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/backend/remote"
	"runner/backend/remote/remotetest"
	"runner/backend/remote/web"
)

// slow is an engine that takes a tenth of a second for each token.
func slow(cfg fake.Config) *remotetest.Engine {
	e := remotetest.New(cfg)
	e.Fault = func(ctx context.Context, _, _ int) error {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
		return nil
	}
	return e
}

// lines collects the warnings of a model.
type lines struct {
	mu   sync.Mutex
	list []string
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, line)
}

func (l *lines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.list)
}

// A vocabulary of another size is another model. One whose size the engine does not say any more is not.
func TestAnotherSizeIsAnotherModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &altered{Engine: remotetest.New(fake.Config{})}
		size := a.Vocab().Len()
		a.describe = func(_ context.Context, d remote.Description) (remote.Description, error) {
			d.Vocabulary = size
			return d, nil
		}
		m, err := openAltered(t.Context(), a, remote.Patience{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			size  int
			other bool
		}{{size, false}, {0, false}, {size + 1, true}} {
			size = c.size
			time.Sleep(2 * time.Second) // until what came last is no proof any more
			_, err := write(t.Context(), m, prompt, 1, backend.Sampling{}, nil)
			if errors.Is(err, backend.ErrOtherModel) != c.other || !c.other && err != nil {
				t.Errorf("with %d tokens: %v", c.size, err)
			}
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// Another model that no stream breaks over is noticed while requests run, and ends all of them.
func TestAnotherModelWhileStreamsRun(t *testing.T) {
	for _, what := range []string{"its name", "its vocabulary"} {
		synctest.Test(t, func(t *testing.T) {
			a := &altered{Engine: slow(fake.Config{Script: func(t []backend.Token) backend.Token {
				return backend.Token(1 + len(t)*7%200) // never an end
			}})}
			var changed atomic.Bool
			a.encode = func(_ string, _ bool, tokens []backend.Token) []backend.Token {
				if changed.Load() {
					tokens = append(tokens, 5)
				}
				return tokens
			}
			var warned lines
			m, err := remote.Open(t.Context(), remote.Config{Engine: a, Vocab: a.Vocab(), Tokenize: a.Tokenize,
				Load: backend.Config{Sequences: 4}, Warn: warned.add})
			if err != nil {
				t.Fatal(err)
			}
			turn := func() {
				if what == "its name" {
					a.Rename("another")
				} else {
					changed.Store(true)
				}
			}
			const n = 3000 // five minutes
			began := time.Now()
			time.AfterFunc(61*time.Second, turn)
			tokens, err := write(t.Context(), m, prompt, n, backend.Sampling{}, nil)
			took := time.Since(began)
			if !errors.Is(err, backend.ErrOtherModel) || took < 61*time.Second || took > 72*time.Second {
				t.Errorf("%s: %d tokens in %v, then %v", what, len(tokens), took, err)
			}
			if asked := a.Asked(); asked < 8 || asked > 16 {
				t.Errorf("%s: the engine was asked %d times in %v", what, asked, took)
			}
			if warned.count() != 1 {
				t.Errorf("%s: warnings %q", what, warned.list)
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A stream whose messages name another model ends at once, and so do the others. Other names of the same model do not
// matter.
func TestMessagesNameAnotherModel(t *testing.T) {
	e := remotetest.New(fake.Config{})
	e.Named = true
	e.Fault = func(_ context.Context, _, token int) error {
		switch token {
		case 3:
			e.Rename("alias")
		case 6:
			e.Rename("another")
		}
		return nil
	}
	m := open(t, e, remote.Config{Patience: quick})
	tokens, err := write(t.Context(), m, prompt, 40, backend.Sampling{}, nil)
	if !errors.Is(err, backend.ErrOtherModel) || len(tokens) > 6 {
		t.Errorf("%d tokens, then %v", len(tokens), err)
	}
}

// Behind a router, a right answer may be luck. The more often the model was back, the more right answers it takes.
func TestModelsThatComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := remotetest.New(fake.Config{})
		m := open(t, e, remote.Config{})
		refused := func() bool {
			_, err := write(t.Context(), m, prompt, 1, backend.Sampling{}, nil)
			if err != nil && !errors.Is(err, backend.ErrOtherModel) {
				t.Fatal(err)
			}
			return err != nil
		}
		for round, want := range []int{0, 1, 3, 7, 15, 31, 63, 63} {
			e.Rename("another")
			time.Sleep(3 * time.Second)
			if !refused() {
				t.Fatalf("round %d: another model is not noticed", round)
			}
			e.Rename("fake")
			n := 0
			for time.Sleep(3 * time.Second); refused(); time.Sleep(3 * time.Second) {
				n++
			}
			if n != want {
				t.Errorf("round %d: %d requests were refused with the old model back, want %d", round, n, want)
			}
		}
		time.Sleep(time.Hour)
		e.Rename("another")
		if !refused() {
			t.Fatal("another model is not noticed")
		}
		e.Rename("fake")
		if time.Sleep(3 * time.Second); refused() {
			t.Error("an hour later the model is still doubted")
		}
	})
}

// A model that was loaded once is not loaded as another one, until the program starts again.
func TestKnownModels(t *testing.T) {
	e := remotetest.New(fake.Config{})
	var known remote.Known
	load := func() error {
		m, err := remote.Open(t.Context(), remote.Config{Engine: e, Vocab: e.Vocab(), Tokenize: e.Tokenize, Known: &known})
		if err == nil {
			err = m.Close()
		}
		return err
	}
	for _, c := range []struct {
		name string
		want error
	}{{"fake", nil}, {"fake", nil}, {"another", backend.ErrOtherModel}, {"fake", nil}} {
		e.Rename(c.name)
		if err := load(); !errors.Is(err, c.want) {
			t.Errorf("with %s: %v", c.name, err)
		}
	}
}

// An engine that comes back with shorter sequences has to be loaded again, and clients may try again.
func TestSmallerContext(t *testing.T) {
	a := &altered{Engine: remotetest.New(fake.Config{})}
	var smaller atomic.Bool
	a.describe = func(_ context.Context, d remote.Description) (remote.Description, error) {
		if smaller.Load() {
			d.ContextSize /= 2
		}
		return d, nil
	}
	a.Fault = func(_ context.Context, request, token int) error {
		if request == 0 && token == 3 {
			smaller.Store(true)
			return &web.Error{Kind: web.Broken}
		}
		return nil
	}
	m, err := openAltered(t.Context(), a, quick)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	_, err = write(t.Context(), m, prompt, 40, backend.Sampling{}, nil)
	if !errors.Is(err, backend.ErrBroken) || !errors.Is(err, backend.ErrUnavailable) ||
		errors.Is(err, backend.ErrOtherModel) {
		t.Errorf("the error is %v", err)
	}
}

// What an engine says about itself reaches terminals and logs as one short line.
func TestDescriptionsAreTidy(t *testing.T) {
	a := &altered{Engine: remotetest.New(fake.Config{})}
	a.describe = func(_ context.Context, d remote.Description) (remote.Description, error) {
		d.Version, d.Model = "1\n2\x1b[2J", strings.Repeat("é", 1000)
		d.Quantization, d.Path = "q\xff\u202e", "/models/name with spaces"
		d.Notes = []string{"a\tb"}
		return d, nil
	}
	m, err := openAltered(t.Context(), a, quick)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	d := m.About()
	got := fmt.Sprintf("%s|%s|%s|%s|%d", d.Version, d.Quantization, d.Path, d.Notes[0], len(d.Model))
	if got != `1\n2\x1b[2J|q\xff\u202e|/models/name with spaces|a\tb|203` || !strings.HasPrefix(d.Model, "éé") {
		t.Errorf("%s, %q", got, d.Model)
	}
	if info := m.Info(); strings.ContainsAny(info.Backend+info.Name+info.Quantization, "\n\x1b\u202e") {
		t.Errorf("%+v", info)
	}
}

// A form that the engine crashes at is left away at the second try. After two crashes it is not sent again. A form that
// was only there when the engine crashed is sent again.
func TestFormsThatCrashTheEngine(t *testing.T) {
	for _, guilty := range []bool{true, false} {
		e := remotetest.New(fake.Config{})
		e.Forms = []remote.FormKind{remote.FormGBNF}
		e.Fault = func(_ context.Context, request, _ int) error {
			if e.Requests()[request].Form != nil && (guilty || request == 0) {
				return &web.Error{Kind: web.Unreachable, Cut: true}
			}
			return nil
		}
		var warned lines
		m := open(t, e, remote.Config{Warn: warned.add})
		for i, want := range map[bool][]int{true: {2, 2, 1, 1}, false: {2, 1, 1, 1}}[guilty] {
			before := len(e.Requests())
			var followed []bool
			began := time.Now()
			if _, err := write(t.Context(), m, prompt, 5, backend.Sampling{},
				func(int) backend.Constraint { return formed{&followed} }); err != nil {
				t.Fatal(err)
			}
			if n := len(e.Requests()) - before; n != want || time.Since(began) > 10*time.Second {
				t.Errorf("guilty %v: %d requests for sequence %d, want %d", guilty, n, i, want)
			}
			last := e.Requests()[len(e.Requests())-1]
			if sent := last.Form != nil; sent != (!guilty && i > 0) || followed[len(followed)-1] != sent {
				t.Errorf("guilty %v: sequence %d has a form %v, and the constraint was told %v", guilty, i, sent, followed)
			}
		}
		refused := int64(0)
		if guilty {
			refused = 1
		}
		if n := m.FormsRefused(); n != refused || warned.count() != 1 {
			t.Errorf("guilty %v: %d forms refused, warnings %q", guilty, n, warned.list)
		}
	}
}
