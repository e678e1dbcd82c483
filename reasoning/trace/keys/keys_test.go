//go:build unix

package keys

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runner/reasoning/internal/base64url"
	"runner/reasoning/internal/private"
)

var (
	// cheap is a kdf that is fast enough for tests.
	cheap      = kdf{Name: "argon2id", Time: 1, MemoryKiB: 64, Threads: 1}
	passphrase = []byte("correct horse")
	now        = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
)

func fresh(t testing.TB) *Keyring {
	t.Helper()
	r, err := newKeyring(passphrase, now, cheap)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func saved(t testing.TB, r *Keyring) (path string, data []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "keys")
	if err := r.Create(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, data
}

func TestRotateAndLoad(t *testing.T) {
	r := fresh(t)
	first := r.Current()
	if err := r.Rotate([]byte("wrong horse"), now); !errors.Is(err, ErrPassphrase) || len(r.Keys()) != 1 {
		t.Errorf("%v with %d keys, want ErrPassphrase and 1", err, len(r.Keys()))
	}
	if err := r.Rotate(passphrase, now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	path, data := saved(t, r)
	if err := r.Create(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v, want fs.ErrExist", err)
	}
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	keys := got.Keys()
	if len(keys) != 2 || keys[1].Recipient != first || keys[0].Recipient != r.Current() ||
		!keys[1].Created.Equal(now.Truncate(time.Second)) {
		t.Errorf("%v", keys)
	}
	identities, err := got.Unlock(passphrase)
	if err != nil || len(identities) != 2 || identities[0].Recipient() != r.Current() ||
		identities[1].Recipient() != first {
		t.Fatalf("%v, %v", identities, err)
	}
	if _, err := got.Unlock([]byte("wrong horse")); !errors.Is(err, ErrPassphrase) {
		t.Errorf("%v, want ErrPassphrase", err)
	}
	for _, i := range identities {
		for _, s := range []string{string(i.Secret()), base64url.Encoding.EncodeToString(i.Secret())} {
			if bytes.Contains(data, []byte(s)) {
				t.Error("the file holds a private key in the clear")
			}
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); !errors.Is(err, private.ErrExposed) {
		t.Errorf("%v, want ErrExposed", err)
	}
}

func TestDefaults(t *testing.T) {
	r, err := New(passphrase, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Unlock(passphrase); err != nil {
		t.Error(err)
	}
	_, data := saved(t, r)
	if _, err := parse(data); err != nil {
		t.Error(err)
	}
	for _, p := range []string{"", "7 bytes", strings.Repeat("x", 1025)} {
		if _, err := New([]byte(p), now); !errors.Is(err, ErrWeak) {
			t.Errorf("%d bytes: %v, want ErrWeak", len(p), err)
		}
	}
}

func TestFull(t *testing.T) {
	r := fresh(t)
	for len(r.keys) < MaxKeys {
		if err := r.Rotate(passphrase, now); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Rotate(passphrase, now); !errors.Is(err, ErrFull) {
		t.Errorf("%v, want ErrFull", err)
	}
	_, data := saved(t, r)
	if len(data) > maxFile {
		t.Errorf("%d bytes do not fit", len(data))
	}
	if _, err := parse(data); err != nil {
		t.Error(err)
	}
}

// TestExchangedKeys combines one key's private part with another's public part, as somebody who can write the file
// may do.
func TestExchangedKeys(t *testing.T) {
	r := fresh(t)
	if err := r.Rotate(passphrase, now); err != nil {
		t.Fatal(err)
	}
	r.keys[0].private, r.keys[1].private = r.keys[1].private, r.keys[0].private
	if _, err := r.Unlock(passphrase); !errors.Is(err, ErrPassphrase) {
		t.Errorf("%v, want ErrPassphrase", err)
	}
}

func TestBadFiles(t *testing.T) {
	_, data := saved(t, fresh(t))
	if _, err := parse(data); err != nil {
		t.Fatal(err)
	}
	bad := map[string]func(f *keyFile){
		"version":     func(f *keyFile) { f.Version = 2 },
		"kdf":         func(f *keyFile) { f.KDF.Name = "scrypt" },
		"no passes":   func(f *keyFile) { f.KDF.Time = 0 },
		"many passes": func(f *keyFile) { f.KDF.Time = 17 },
		"memory":      func(f *keyFile) { f.KDF.MemoryKiB = 1<<20 + 1 },
		"no threads":  func(f *keyFile) { f.KDF.Threads = 0 },
		"threads":     func(f *keyFile) { f.KDF.Threads = 17 },
		"salt":        func(f *keyFile) { f.KDF.Salt = f.KDF.Salt[1:] },
		"no keys":     func(f *keyFile) { f.Keys = nil },
		"many keys":   func(f *keyFile) { f.Keys = make([]fileKey, 65) },
		"twice":       func(f *keyFile) { f.Keys = append(f.Keys, f.Keys[0]) },
		"public":      func(f *keyFile) { f.Keys[0].Public = "rtrace1-" },
		"private":     func(f *keyFile) { f.Keys[0].Private = f.Keys[0].Private[4:] },
	}
	for name, alter := range bad {
		var file keyFile
		if err := json.Unmarshal(data, &file); err != nil {
			t.Fatal(err)
		}
		alter(&file)
		altered, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parse(altered); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
	for _, s := range []string{"", "null", "[]", string(data) + "{}", `{"version":1,"other":1}`,
		string(data[:len(data)/2])} {
		if _, err := parse([]byte(s)); err == nil {
			t.Errorf("%.40q was taken", s)
		}
	}
}

func FuzzParse(f *testing.F) {
	_, data := saved(f, fresh(f))
	f.Add(data)
	f.Add([]byte(`{"version":1,"kdf":{},"keys":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parse(data)
		if err != nil {
			return
		}
		if n := len(r.Keys()); n < 1 || n > MaxKeys || r.kdf.MemoryKiB > maxMemory {
			t.Errorf("%d keys, %+v", n, r.kdf)
		}
	})
}
