//go:build unix

package store

import "testing"

// A forged entry that is not the newest must not make the next writer sign an end for it.
func TestForgedBeginningIsNotEnded(t *testing.T) {
	v := newVictim(t)
	id, _ := v.forge()
	db := v.open(v.dir)
	if _, err := db.Exec(`INSERT INTO chain SELECT -1, 4, ?, at, began, size, digest, principal, model, previous, hash,
		signature FROM chain WHERE number = 1`, id[:]); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(v.dir, v.config())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := s.Get(background, id)
	if err != nil || got.State != StateOpen || !got.Unattested {
		t.Errorf("the forged trace is %v, unattested %v, %v", got.State, got.Unattested, err)
	}
}
