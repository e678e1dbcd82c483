package cli

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"runner/reasoning/seal"
)

// A server follows the keys of its file: reasoning that was sealed before a rotation can be opened as long as its key
// is kept, and not afterwards.
func TestServersFollowTheirSealKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seal.keys")
	used, err := sealKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	home := seal.Scope{Principal: seal.Local, Model: seal.Model{Digest: "m"}}
	before, err := used.Seal(home, "thoughts")
	if err != nil {
		t.Fatal(err)
	}
	rotate := func(keep int) {
		t.Helper()
		ring, err := seal.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		ring.Rotate(keep)
		if err := ring.Save(path); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		ctx, stop := context.WithCancel(t.Context())
		var following sync.WaitGroup
		following.Go(func() { followSealKeys(ctx, path, used, time.Second, slog.New(slog.NewTextHandler(&log, nil))) })
		settle := func() {
			time.Sleep(3 * time.Second)
			synctest.Wait()
		}
		old := used.IDs()[0]
		rotate(1)
		settle()
		if ids := used.IDs(); len(ids) != 2 || ids[1] != old {
			t.Errorf("the server has %v after a rotation of %s", ids, old)
		}
		if text, err := used.Open(home, before); text != "thoughts" || err != nil {
			t.Errorf("what was sealed before opens as %q, %v", text, err)
		}
		kept, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		settle()
		if len(used.IDs()) != 2 || strings.Count(log.String(), "cannot reload the keys") != 1 {
			t.Errorf("the server has %v although the file is broken, and logs %s", used.IDs(), log.String())
		}
		if err := os.WriteFile(path, kept, 0o600); err != nil {
			t.Fatal(err)
		}
		rotate(0)
		settle()
		if _, err := used.Open(home, before); !errors.Is(err, seal.ErrUnknownKey) {
			t.Errorf("what was sealed under a dropped key is answered with %v", err)
		}
		stop()
		following.Wait()
		if text := string(kept); strings.Contains(log.String(), strings.Split(text, `"`)[5]) {
			t.Error("the log contains a key")
		}
	})
}
