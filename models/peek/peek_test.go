package peek_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runner/models/peek"
)

var contents = []struct{ text, want string }{
	{"", "is empty"},
	{"GGUF\x03\x00\x00\x00", ""},
	{"\x00\x00\x00\x00\x00\x00\x00\x00\x00", "zeros"},
	{"<!DOCTYPE html>\n<html>", "page of a web site"},
	{"\xef\xbb\xbf \n<HTML lang=en>", "page of a web site"},
	{"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "Git LFS"},
	{`{"error":"Repository not found"}`, "error message"},
	{"Entry not found", "error message"},
	{"Invalid username or password.", "error message"},
	{"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "error message"},
	{"\x02\x00\x00\x00\x00\x00\x00\x00{}", "safetensors"},
	{"PK\x03\x04\x00\x00", "PyTorch"},
	{"lmgg\x01\x00\x00\x00", "before GGUF"},
	{"x", ""},
	{"not found in any list: this is a longer text " + strings.Repeat("x", 600), ""},
	{"\xff\xff\xff\xff\xff\xff\xff\xff{}", ""},
}

func TestKinds(t *testing.T) {
	for _, c := range contents {
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		e := peek.Check(path)
		switch {
		case c.want == "" && e != nil:
			t.Errorf("%.20q: %v", c.text, e)
		case c.want != "" && (e == nil || !strings.Contains(e.Error(), c.want) || e.Hint() == ""):
			t.Errorf("%.20q: %v, want %q", c.text, e, c.want)
		}
	}
	weights, pointer := filepath.Join(t.TempDir(), "m.safetensors"), filepath.Join(t.TempDir(), "m.safetensors")
	for path, text := range map[string]string{weights: "\x02\x00\x00\x00\x00\x00\x00\x00{}",
		pointer: "version https://git-lfs.github.com/spec/v1\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := peek.CheckSafetensors(path); (err != nil) != (path == pointer) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := peek.Check(filepath.Join(t.TempDir(), "absent")); err != nil {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := peek.Check(t.TempDir()); err != nil {
		t.Errorf("a folder: %v", err)
	}
}

// FuzzKind checks that nothing that begins as GGUF is refused, and that what is refused comes with advice.
func FuzzKind(f *testing.F) {
	for _, c := range contents {
		f.Add([]byte(c.text), int64(len(c.text)))
	}
	f.Fuzz(func(t *testing.T, start []byte, size int64) {
		detail, advice := peek.Kind(start, size)
		if (detail == "") != (advice == "") || strings.HasPrefix(string(start), "GGUF") && size != 0 && detail != "" {
			t.Errorf("%q of %d bytes: %q, %q", start, size, detail, advice)
		}
	})
}
