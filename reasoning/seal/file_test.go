package seal

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"runner/reasoning/internal/private"
)

func needPermissions(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" || runtime.GOOS == "plan9" {
		t.Skip("the system has no Unix permissions, which files of keys need")
	}
}

func TestFile(t *testing.T) {
	needPermissions(t)
	path := filepath.Join(t.TempDir(), "keys.json")
	r := NewKeyring()
	old := mustSeal(t, r, home, "old")
	r.Rotate(1)
	value := mustSeal(t, r, home, "text")
	if err := r.Save(path); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.IDs(), r.IDs()) {
		t.Errorf("loaded %v, saved %v", got, r)
	}
	mustOpen(t, got, home, old, "old")
	mustOpen(t, got, home, value, "text")

	// The old file, private or not, is replaced by a private one, and nothing else is left in the folder.
	if err := os.WriteFile(path, []byte(strings.Repeat("x", 10000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	got.Rotate(2)
	if err := got.Save(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if again, err := Load(path); err != nil || !slices.Equal(again.IDs(), got.IDs()) {
		t.Errorf("%v, %v; saved %v", again, err, got)
	}
	if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != 1 {
		t.Errorf("left behind: %v", files)
	}
}

func TestReplacingKeysInUse(t *testing.T) {
	needPermissions(t)
	path := filepath.Join(t.TempDir(), "keys.json")
	inUse, err := LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	before := mustSeal(t, inUse, home, "before")
	next, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	next.Rotate(3)
	if err := next.Save(path); err != nil {
		t.Fatal(err)
	}
	inUse.Replace(next)
	after := mustSeal(t, inUse, home, "after")
	restarted, err := LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	mustOpen(t, restarted, home, before, "before")
	mustOpen(t, restarted, home, after, "after")
}

func TestExposedFilesAreRefused(t *testing.T) {
	needPermissions(t)
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := NewKeyring().Save(path); err != nil {
		t.Fatal(err)
	}
	for mode := range fs.FileMode(0o1000) {
		if mode&0o400 == 0 {
			continue // its owner cannot read it
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path)
		if own := mode&0o077 == 0; own && err != nil || !own && !errors.Is(err, private.ErrExposed) {
			t.Errorf("mode %v: %v", mode, err)
		}
		if _, err := LoadOrCreate(path); mode&0o077 != 0 && !errors.Is(err, private.ErrExposed) {
			t.Errorf("mode %v: created again: %v", mode, err)
		}
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(link); err != nil {
		t.Errorf("a link to a private file: %v", err)
	}
	if _, err := Load(t.TempDir()); !errors.Is(err, private.ErrExposed) {
		t.Errorf("a folder: %v", err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(path, 65534, -1); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); !errors.Is(err, private.ErrExposed) {
			t.Errorf("another's file: %v", err)
		}
	}
}

func TestFailedSaveLeavesTheOldKeys(t *testing.T) {
	needPermissions(t)
	folder := t.TempDir()
	if err := NewKeyring().Save(filepath.Join(folder, "missing", "keys.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("into a missing folder: %v", err)
	}
	if err := os.Mkdir(filepath.Join(folder, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if NewKeyring().Save(filepath.Join(folder, "taken")) == nil {
		t.Error("a folder is replaced")
	}
	path := filepath.Join(folder, "keys.json")
	r, err := LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	var empty Keyring
	if err := empty.Save(path); !errors.Is(err, ErrNoKey) {
		t.Errorf("no keys: %v", err)
	}
	if again, err := Load(path); err != nil || !slices.Equal(again.IDs(), r.IDs()) {
		t.Errorf("%v, %v", again, err)
	}
	if files, _ := os.ReadDir(folder); len(files) != 2 {
		t.Errorf("left behind: %v", files)
	}
}

func TestAllCreatorsGetOneKey(t *testing.T) {
	needPermissions(t)
	path := filepath.Join(t.TempDir(), "keys.json")
	ids := make([]string, 16)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			r, err := LoadOrCreate(path)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = r.IDs()[0]
		})
	}
	wg.Wait()
	if len(slices.Compact(ids)) != 1 {
		t.Errorf("keys %v", ids)
	}
	if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != 1 {
		t.Errorf("left behind: %v", files)
	}
}

func TestMalformedFiles(t *testing.T) {
	needPermissions(t)
	spell := func(b byte, n int) string {
		return base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(string(b), n)))
	}
	good := spell('k', keySize)
	file := func(keys ...string) string { return `{"version":1,"keys":["` + strings.Join(keys, `","`) + `"]}` }
	var many []string
	for i := range MaxKeys + 1 {
		many = append(many, spell(byte('!'+i), keySize))
	}
	if _, err := parse([]byte(file(many[:MaxKeys]...))); err != nil {
		t.Fatalf("a full file: %v", err)
	}
	path := filepath.Join(t.TempDir(), "keys.json")
	for name, text := range map[string]string{
		"empty":             "",
		"cut":               file(good)[:40],
		"not JSON":          good,
		"more after it":     file(good) + file(good),
		"null":              "null",
		"version 2":         strings.Replace(file(good), ":1", ":2", 1),
		"no version":        `{"keys":["` + good + `"]}`,
		"no keys":           `{"version":1,"keys":[]}`,
		"unknown field":     `{"version":1,"keys":["` + good + `"],"secret":"` + good + `"}`,
		"key is a number":   `{"version":1,"keys":[123456789]}`,
		"short key":         file(spell('k', keySize-1)),
		"long key":          file(spell('k', keySize+1)),
		"empty key":         file(""),
		"padded key":        file(good + "="),
		"other spelling":    file(good[:len(good)-1] + string(good[len(good)-1]+1)),
		"second key is bad": file(good, good[1:]),
		"zeros":             file(spell(0, keySize)),
		"twice":             file(good, good),
		"too many":          file(many...),
		"too large":         file(good) + strings.Repeat(" ", maxFile),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path)
		if err == nil {
			t.Errorf("%s: loaded", name)
			continue
		}
		if !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), good[:10]) ||
			strings.Contains(err.Error(), "123456789") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := LoadOrCreate(path); err == nil {
			t.Errorf("%s: created again", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	good := base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("k", keySize)))
	f.Add([]byte(`{"version":1,"keys":["` + good + `"]}`))
	f.Add([]byte(`{"version":1,"keys":["` + good + `","` + good + `"]}`))
	f.Add([]byte(`{"version":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := parse(data)
		if (err == nil) != (len(keys) > 0) || len(keys) > MaxKeys {
			t.Fatalf("%d keys, %v", len(keys), err)
		}
	})
}
