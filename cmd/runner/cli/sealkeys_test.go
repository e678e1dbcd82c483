package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	home := seal.Scope{Principal: "local", Model: seal.Model{Digest: "m"}}
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
	source := followSealKeys(path, used)
	reread := func(changed, failed bool) {
		t.Helper()
		for i, c := range []bool{changed, false} { // the second time nothing is new
			got, err := source.Reread(false)
			if got != c || (err != nil) != (failed && i == 0) {
				t.Errorf("changed: %v, %v", got, err)
			}
		}
	}
	reread(false, false)
	old := used.IDs()[0]
	rotate(1)
	reread(true, false)
	if ids := used.IDs(); len(ids) != 2 || ids[1] != old || source.Len() != 2 {
		t.Errorf("the server has %v after a rotation of %s", ids, old)
	}
	if text, err := used.Open(home, before); text != "thoughts" || err != nil {
		t.Errorf("what was sealed before opens as %q, %v", text, err)
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.Split(string(kept), `"`)[5]
	if err := os.WriteFile(path, []byte(`{"`+secret), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := source.Reread(false); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("a broken file: %v", err)
	}
	reread(false, false)
	if len(used.IDs()) != 2 {
		t.Errorf("the server has %v although the file is broken", used.IDs())
	}
	if err := os.WriteFile(path, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	rotate(0)
	reread(true, false)
	if _, err := used.Open(home, before); !errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("what was sealed under a dropped key is answered with %v", err)
	}
}
