package room

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"runner/cmd/runner/cli"
	"runner/cmd/runner/flags"
	"runner/reasoning/trace"
	"runner/reasoning/trace/store"
)

// serving returns the recorder of a server that keeps traces in a folder.
func serving(t *testing.T, dir string, more ...string) *recorder {
	t.Helper()
	r, table := newRecorder(nil, cli.Recorded{Asked: true})
	cmd := &cobra.Command{}
	flags.Add(cmd, table)
	to := trace.NewIdentity().Recipient().String()
	if err := cmd.ParseFlags(append(more, "--traces", "--trace-to", to, "--trace-store", dir)); err != nil {
		t.Fatal(err)
	}
	return r.(*recorder)
}

// TestServerErasesOldTraces: a server erases them when it starts and while it runs.
func TestServerErasesOldTraces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := serving(t, dir, "--trace-age", "1s")
		if err := r.Open(slog.New(slog.DiscardHandler), false); err != nil {
			t.Fatal(err)
		}
		w, err := r.store.Create(t.Context(), store.Info{Principal: "local"})
		if err != nil {
			t.Fatal(err)
		}
		id, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		for range 500 {
			e, err := r.store.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if e.State == store.StateErased {
				if err := r.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Error("it is not erased")
	})
}

// TestServerStartsWithoutAStore: a file is in the place of the store. When it is removed, the store is opened.
func TestServerStartsWithoutAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "traces")
		if err := os.WriteFile(dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r := serving(t, dir)
		var log strings.Builder
		if err := r.Open(slog.New(slog.NewTextHandler(&log, nil)), false); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), "no trace can be stored now") {
			t.Errorf("the log says %s", log.String())
		}
		if _, err := r.store.Create(t.Context(), store.Info{}); err == nil {
			t.Error("a trace began in a file")
		}
		if _, _, err := r.store.Page(t.Context(), store.Query{All: true, Limit: 1}); err == nil {
			t.Error("a file was listed")
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(retryEvery)
		w, err := r.store.Create(t.Context(), store.Info{Principal: "local"})
		if err != nil {
			t.Fatal(err)
		}
		id, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		list, _, err := r.store.Page(t.Context(), store.Query{All: true, Limit: 1})
		if err != nil || len(list) != 1 || list[0].ID != id {
			t.Errorf("%v, %v", list, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}
