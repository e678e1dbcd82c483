package cli

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/runner"
)

// choosing returns a program that counts how often it chooses an engine for a file, and the paths of models.
func choosing(t *testing.T) (a *App, chosen map[string]int, one, two string) {
	t.Helper()
	dir := t.TempDir()
	one, two = filepath.Join(dir, "one.gguf"), filepath.Join(dir, "two.gguf")
	for _, path := range []string{one, two} {
		if err := os.WriteFile(path, []byte("GGUF"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	chosen = map[string]int{}
	a = newApp(Engine{
		Choose: func(_ context.Context, path, _ string, _ func(string)) (string, error) {
			chosen[filepath.Base(path)]++
			return "", nil
		},
		Open: func(_ context.Context, _ string, cfg backend.Config) (backend.Model, error) {
			return fake.New(fake.Config{Sequences: cfg.Sequences}), nil
		},
	}, Build{})
	var err error
	if a.out, err = os.Create(filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.out.Close() })
	a.inTerminal, a.outTerminal, a.errTerminal = false, false, false
	return a, chosen, one, two
}

// wantChosen fails unless engines were chosen so often since the program began.
func wantChosen(t *testing.T, when string, chosen map[string]int, one, two int) {
	t.Helper()
	if chosen["one.gguf"] != one || chosen["two.gguf"] != two {
		t.Errorf("%s: engines were chosen %v times, want %d and %d", when, chosen, one, two)
	}
}

// A server chooses an engine for each model when it starts. The choice is used for the model that is loaded then. Other
// models may have changed when they are loaded, and so may a model that is loaded again.
func TestAServerChoosesOncePerOpening(t *testing.T) {
	a, chosen, one, two := choosing(t)
	list, err := a.resolveServed(t.Context(), []string{one, two})
	if err != nil {
		t.Fatal(err)
	}
	wantChosen(t, "at the start", chosen, 1, 1)
	silent := slog.New(slog.NewTextHandler(io.Discard, nil))
	p, _, err := a.newPool(t.Context(), &serveOptions{}, list, runner.Config{Logger: silent},
		func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	use := func(name string) {
		t.Helper()
		_, done, err := p.Use(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		done()
	}
	use("one")
	wantChosen(t, "the first model is loaded", chosen, 1, 1)
	use("two")
	wantChosen(t, "another one is loaded", chosen, 1, 2)
	use("two")
	wantChosen(t, "it is used again", chosen, 1, 2)
	for _, name := range []string{"one", "two"} {
		if err := p.Unload(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		use(name)
	}
	wantChosen(t, "both were unloaded and are loaded again", chosen, 2, 3)
}

// A command with one model chooses its engine once.
func TestARunChoosesOnce(t *testing.T) {
	a, chosen, one, _ := choosing(t)
	at, err := a.wanted(t.Context(), new(runOptions), []string{one})
	if err != nil {
		t.Fatal(err)
	}
	p, err := a.place(t.Context(), at.model)
	if err != nil {
		t.Fatal(err)
	}
	gen, _, err := a.open(t.Context(), p, backend.Config{}, runner.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer gen.Close()
	wantChosen(t, "run", chosen, 1, 0)
}

// A chat that changes its model chooses the engine before it closes the old model, and opens with that choice. The old
// model gets a new choice if it must be opened again.
func TestAChatChoosesOncePerOpening(t *testing.T) {
	a, chosen, one, two := choosing(t)
	c := &chat{app: a, options: new(runOptions)}
	broken := false
	c.open = func(ctx context.Context, m placed) (generator, time.Duration, error) {
		if broken && m.Path == two {
			return nil, 0, errNoModel
		}
		return a.open(ctx, m, backend.Config{}, runner.Config{}, nil)
	}
	for _, name := range []string{one, two, one} {
		if err := c.setModel(t.Context(), name); err != nil || c.model.Name != name {
			t.Fatalf("%s: %v; the model is %s", name, err, c.model.Name)
		}
	}
	defer func() { _ = c.close() }()
	wantChosen(t, "/model three times", chosen, 2, 1)
	broken = true
	a.err = a.out // has the error
	if err := c.setModel(t.Context(), two); err != nil || c.model.Name != one || c.gen == nil {
		t.Fatalf("a model that does not open: %v; the model is %s", err, c.model.Name)
	}
	wantChosen(t, "a model does not open", chosen, 3, 2)
}
