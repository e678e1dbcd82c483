//go:build unix

package store

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"runner/reasoning/trace"
)

// testdata/v1 is a store of version 1 with four traces: one complete, one erased, one cut, and one that a crash
// left open. They are sealed to the identity of SHA-256("version 1").
const version1Head = "rthead1-AAAAAAAAAAQoWzKJ0tlSF4m9pBUfcjENq8el5SS-AucW47sAqmSsoTtroqafUfE1lxsm1tIwUoJHhKsW3SBM5" +
	"uZiNl0hfaj_XFY35sOmJg1633Ydkg2MBa76QyfSdUOsTcgso1MSDG7954PeGB7lhj829jpamfBz4X0F-ExVpxHwpPGK_8jPDQ"

func version1(t *testing.T) (dir string, reader *trace.Identity) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "traces")
	copyFolder(t, "testdata/v1", dir)
	secret := sha256.Sum256([]byte("version 1"))
	reader, err := trace.IdentityOf(secret[:])
	if err != nil {
		t.Fatal(err)
	}
	return dir, reader
}

// states are the lines of a list, one for each trace.
func states(t *testing.T, s *Reader) string {
	t.Helper()
	list, err := s.List(background)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range list {
		line := e.State.String()
		if e.Unattested {
			line += " unattested"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}

func TestVersion1(t *testing.T) {
	dir, reader := version1(t)
	kept, err := ParseHead(version1Head)
	if err != nil {
		t.Fatal(err)
	}
	was := files(t, dir)
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	// What was cut or left open under version 1 may have been planted, because nothing authenticated it.
	if got, want := states(t, r), "complete, erased, cut unattested, open unattested"; got != want {
		t.Errorf("it lists %s, want %s", got, want)
	}
	report, err := r.Verify(background, &kept)
	if err != nil || len(report.Problems) > 0 || report.Unattested != 2 || report.Open != 1 || report.Traces != 2 {
		t.Errorf("%+v, %v", report, err)
	}
	page, more, err := r.Page(background, Query{All: true, Limit: 3})
	if err != nil || !more || len(page) != 3 || page[0].State != StateOpen {
		t.Errorf("%v, %v, %v", page, more, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if !equalFiles(was, files(t, dir)) {
		t.Error("reading has changed the folder")
	}
	s := open(t, dir, Config{Recipients: []trace.Recipient{reader.Recipient()}})
	id := stored(t, s, "new")
	if got, want := states(t, s.Reader), "complete, erased, cut unattested, cut unattested, complete"; got != want {
		t.Errorf("it lists %s, want %s", got, want)
	}
	if report, err = s.Verify(background, &kept); err != nil || len(report.Problems) > 0 || report.Unattested != 2 {
		t.Errorf("%+v, %v", report, err)
	}
	list, err := s.List(background)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{`{"text":"one"}`, "", `{"text":"cut"}`, `{"text":"left open"}`, "new"} {
		got, err := read(t, s.Reader, list[i].ID, reader)
		switch {
		case want == "" && !errors.Is(err, ErrErased):
			t.Errorf("%v, want ErrErased", err)
		case want != "" && !slices.Equal(got, []string{want}):
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	if list[4].ID != id {
		t.Error("the new trace is not the newest")
	}
}

// TestVersion1Altered reads a trace of version 1, whose pieces have no signatures, after a byte was changed.
func TestVersion1Altered(t *testing.T) {
	dir, reader := version1(t)
	v := &victim{T: t, dir: dir}
	v.exec("UPDATE pieces SET data = substr(data, 1, length(data) - 1) || x'00' WHERE piece = 2")
	s, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list, err := s.List(background)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := read(t, s, list[0].ID, reader); !errors.Is(err, trace.ErrTampered) || len(got) > 0 {
		t.Errorf("%q, %v, want ErrTampered", got, err)
	}
}

// TestVersion1InPlaceOfVersion2 combines a database of version 1 with the signing key of version 2. Nothing of the
// database is taken over.
func TestVersion1InPlaceOfVersion2(t *testing.T) {
	dir, reader := version1(t)
	old, err := os.ReadFile(filepath.Join(dir, databaseName))
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Recipients: []trace.Recipient{reader.Recipient()}}
	s, err := Open(dir, cfg)
	if err == nil {
		err = s.Close()
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, databaseName), old, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, cfg); !errors.Is(err, ErrAltered) {
		t.Errorf("%v, want ErrAltered", err)
	}
}

// TestVersion1UnderWriter: the tables are not changed while a program of version 1 writes to the store.
func TestVersion1UnderWriter(t *testing.T) {
	dir, reader := version1(t)
	other, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = lock(other)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	was, err := os.ReadFile(filepath.Join(dir, databaseName))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Config{Recipients: []trace.Recipient{reader.Recipient()}}); !errors.Is(err, ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	if now, err := os.ReadFile(filepath.Join(dir, databaseName)); err != nil || !bytes.Equal(was, now) {
		t.Errorf("it was changed, %v", err)
	}
}
