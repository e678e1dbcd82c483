package keys

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"runner/hint"
	"runner/reasoning"
	"runner/server/ollama"
	_ "runner/server/traces" // declares permissions
	_ "runner/server/web"
	"runner/server/wire"
)

func TestAddedKeysAreFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	full, err := Add(path, Entry{ID: "full", Reasoning: "full"})
	if err != nil {
		t.Fatal(err)
	}
	small, err := Add(path, Entry{ID: "small", Scopes: []wire.Scope{wire.ScopeEmbed}, Models: []string{"demo"},
		RequestsPerMinute: 3, TokensPerMinute: 4})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Add(path, Entry{ID: "small"}); err == nil {
		t.Error("an id was given twice")
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(content, []byte(full)) || bytes.Contains(content, []byte(small)) {
		t.Error("the file holds a key")
	}
	if info, _ := os.Stat(path); runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	s, err := Load(path)
	if err != nil || s.Len() != 2 {
		t.Fatal(s.Len(), err)
	}
	if k := s.Find(full); k == nil || k.ID != "full" || k.Reasoning != reasoning.VisibilityFull ||
		!k.May(wire.ScopeMetrics) || !k.MayUse("x") {
		t.Errorf("%+v", k)
	}
	if k := s.Find(small); k == nil || k.May(wire.ScopeGenerate) || !k.May(wire.ScopeEmbed) || k.MayUse("x") ||
		!k.MayUse("demo") ||
		k.Reasoning != reasoning.VisibilityNone || k.RequestsPerMinute != 3 || k.TokensPerMinute != 4 {
		t.Errorf("%+v", k)
	}
	for _, wrong := range []string{"", "x", full[:len(full)-1], full + "x", strings.ToUpper(full),
		strings.Repeat("x", 1<<16)} {
		if k := s.Find(wrong); k != nil {
			t.Errorf("%.20q is key %s", wrong, k.ID)
		}
	}
}

func TestOneKey(t *testing.T) {
	if _, err := One("short"); err == nil {
		t.Error("a short key was taken")
	}
	for _, granted := range [][]wire.Scope{nil, {ollama.ScopeModelsWrite}} {
		s, err := One("0123456789abcdef", granted...)
		if err != nil {
			t.Fatal(err)
		}
		k := s.Find("0123456789abcdef")
		if k == nil || !k.May(wire.ScopeGenerate) || k.Reasoning != reasoning.VisibilityFull ||
			k.May(ollama.ScopeModelsWrite) != (granted != nil) {
			t.Errorf("%+v", k)
		}
	}
}

const hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestFilesThatAreRefused(t *testing.T) {
	for content, want := range map[string]string{
		``:                                       "the file is not valid",
		`[]`:                                     "the file is not valid",
		`{"keys":[]}`:                            "has none",
		`{"keys":[{"id":"a"}]}`:                  "sha256",
		`{"keys":[{"id":"a","sha256":"zz"}]}`:    "sha256",
		`{"keys":[{"id":"","sha256":"H"}]}`:      "its id",
		`{"keys":[{"id":"a b","sha256":"H"}]}`:   "its id",
		`{"keys":[{"id":"local","sha256":"H"}]}`: "its id",
		`{"keys":[{"id":"a","sha256":"H","rpm":1}]}`:                 "unknown field",
		`{"keys":[{"id":"a","sha256":"H","scopes":["all"]}]}`:        "no scope",
		`{"keys":[{"id":"a","sha256":"H","reasoning":"some"}]}`:      "reasoning cannot be",
		`{"keys":[{"id":"a","sha256":"H","tokens_per_minute":-1}]}`:  "negative",
		`{"keys":[{"id":"a","sha256":"H"},{"id":"a","sha256":"I"}]}`: "twice",
		`{"keys":[{"id":"a","sha256":"H"},{"id":"b","sha256":"H"}]}`: "twice",
		`{"keys":[{"id":"a","sha256":"H"}]} {"keys":[]}`:             "text after",
	} {
		content = strings.ReplaceAll(strings.ReplaceAll(content, `"H"`, `"`+hash+`"`), `"I"`, `"0`+hash[1:]+`"`)
		_, err := parse([]byte(content))
		if hint.Of(err) == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", content, err, want)
		}
	}
}

func TestAFileThatOthersMayWriteIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no Unix permissions")
	}
	path := filepath.Join(t.TempDir(), "keys.json")
	if _, err := Add(path, Entry{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil {
		t.Error("it was read")
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("a folder was read")
	}
	if _, err := Load(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// A changed file is read again. If a file is invalid, nothing changes, and the error is returned once.
func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	a, err := Add(path, Entry{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	reload := func(changed, failed bool, has ...string) {
		t.Helper()
		for i, c := range []bool{changed, false} { // the second time nothing is new
			got, err := s.Reread(false)
			if got != c || (err != nil) != (failed && i == 0) {
				t.Errorf("changed: %v, %v", got, err)
			}
		}
		if s.Len() != len(has) {
			t.Errorf("%d keys", s.Len())
		}
		for _, key := range has {
			if s.Find(key) == nil {
				t.Error("a key is missing")
			}
		}
	}
	reload(false, false, a)
	b, err := Add(path, Entry{ID: "b"})
	if err != nil {
		t.Fatal(err)
	}
	reload(true, false, a, b)
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(`{"keys":[`)
	reload(false, true, a, b)
	write(string(whole))
	reload(true, false, a, b)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	reload(false, true, a, b)
	c, err := Add(path, Entry{ID: "c"})
	if err != nil {
		t.Fatal(err)
	}
	reload(true, false, c)
	if s.Find(a) != nil {
		t.Error("a key that is gone is still taken")
	}
	one, err := One("0123456789abcdef0123")
	if err != nil {
		t.Fatal(err)
	}
	if changed, err := one.Reread(false); changed || err != nil {
		t.Errorf("a set without a file: %v, %v", changed, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"keys":[{"id":"a","sha256":"` + hash + `","scopes":["generate"],"reasoning":"full","models":["m"]}]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		keys, err := parse(content)
		if err != nil {
			return
		}
		for _, k := range keys {
			if !ValidID(k.ID, wire.Local) || k.TokensPerMinute < 0 {
				t.Errorf("%+v", k)
			}
		}
	})
}

// Removing one key leaves the others unchanged. Empty scopes or models do not become all of them.
func TestRemoveKeepsTheOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	for _, e := range []Entry{{ID: "a"}, {ID: "b", Scopes: []wire.Scope{}, Models: []string{}},
		{ID: "c", Models: []string{"m"}, RequestsPerMinute: 3}} {
		if _, err := Add(path, e); err != nil {
			t.Fatal(err)
		}
	}
	before, err := List(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := Remove(path, "a"); err != nil {
		t.Fatal(err)
	}
	after, err := List(path)
	if err != nil || !reflect.DeepEqual(after, before[1:]) || after[0].Scopes == nil || after[0].Models == nil {
		t.Errorf("%+v are left of %+v, %v", after, before, err)
	}
	if err := Remove(path, "a"); hint.Of(err) == "" || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("removed again: %v", err)
	}
	if err := errors.Join(Remove(path, "b"), Remove(path, "c")); err == nil || !strings.Contains(err.Error(), `"c"`) {
		t.Errorf("the last one: %v", err)
	}
}
