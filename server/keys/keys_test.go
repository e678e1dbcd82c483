package keys

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"runner/reasoning"
	"runner/server/wire"
)

func TestAddedKeysAreFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	full, err := Add(path, Entry{ID: "full", Reasoning: "full"})
	if err != nil {
		t.Fatal(err)
	}
	small, err := Add(path, Entry{ID: "small", Scopes: []wire.Scope{wire.ScopeEmbed}, Models: []string{"demo"}, RequestsPerMinute: 3, TokensPerMinute: 4})
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
	if k := s.Find(full); k == nil || k.ID != "full" || k.Reasoning != reasoning.VisibilityFull || !k.May(wire.ScopeMetrics) || !k.MayUse("x") {
		t.Errorf("%+v", k)
	}
	if k := s.Find(small); k == nil || k.May(wire.ScopeGenerate) || !k.May(wire.ScopeEmbed) || k.MayUse("x") || !k.MayUse("demo") ||
		k.Reasoning != reasoning.VisibilityNone || k.RequestsPerMinute != 3 || k.TokensPerMinute != 4 {
		t.Errorf("%+v", k)
	}
	for _, wrong := range []string{"", "x", full[:len(full)-1], full + "x", strings.ToUpper(full), strings.Repeat("x", 1<<16)} {
		if k := s.Find(wrong); k != nil {
			t.Errorf("%.20q is key %s", wrong, k.ID)
		}
	}
}

func TestOneKey(t *testing.T) {
	if _, err := One("short"); err == nil {
		t.Error("a short key was taken")
	}
	s, err := One("0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	if k := s.Find("0123456789abcdef"); k == nil || !k.May(wire.ScopeGenerate) || k.Reasoning != reasoning.VisibilityFull {
		t.Errorf("%+v", k)
	}
}

const hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestFilesThatAreRefused(t *testing.T) {
	for content, want := range map[string]string{
		``:                                       "not as it should be",
		`[]`:                                     "not as it should be",
		`{"keys":[]}`:                            "holds none",
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
		`{"keys":[{"id":"a","sha256":"H"}]} {"keys":[]}`:             "something after",
	} {
		content = strings.ReplaceAll(strings.ReplaceAll(content, `"H"`, `"`+hash+`"`), `"I"`, `"0`+hash[1:]+`"`)
		_, err := parse([]byte(content))
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) || e.Hint() == "" {
			t.Errorf("%s: %v, want %q", content, err, want)
		}
	}
}

func TestAFileThatOthersMayWriteIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no Unix permissions")
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

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"keys":[{"id":"a","sha256":"` + hash + `","scopes":["generate"],"reasoning":"full","models":["m"]}]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		s, err := parse(content)
		if err != nil {
			return
		}
		for _, k := range s.keys {
			if !validID(k.ID) || k.TokensPerMinute < 0 {
				t.Errorf("%+v", k)
			}
		}
	})
}
