package models_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runner/models"
)

// cache builds a Hugging Face cache in a temporary folder, with blobs and links like a real one, and returns it.
func cache(t *testing.T, repo, rev string, files ...string) string {
	t.Helper()
	root := t.TempDir()
	t.Setenv("HF_HUB_CACHE", root)
	addRepo(t, root, repo, rev, files...)
	return root
}

func addRepo(t *testing.T, root, repo, rev string, files ...string) {
	t.Helper()
	dir := filepath.Join(root, "models--"+strings.ReplaceAll(repo, "/", "--"))
	write(t, filepath.Join(dir, "refs", "main"), rev)
	for _, f := range files {
		blob := filepath.Join(dir, "blobs", strings.ReplaceAll(f, "/", "_"))
		write(t, blob, f)
		link := filepath.Join(dir, "snapshots", rev, f)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(blob, link); err != nil {
			t.Fatal(err)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestResolveInCache(t *testing.T) {
	root := cache(t, "org/several", "abc123",
		"model-Q4_K.gguf", "model-Q4_K_M.gguf", "UD/model-Q8_0-00001-of-00002.gguf", "UD/model-Q8_0-00002-of-00002.gguf",
		"mmproj-model-f16.gguf", "README.md")
	addRepo(t, root, "org/one", "def", "only.gguf", "imatrix.gguf")
	addRepo(t, root, "org/none", "fff", "config.json")
	addRepo(t, root, "org/broken", "eee", "big-00001-of-00002.gguf")

	good := []struct{ name, file string }{
		{"org/one", "only.gguf"},
		{"org/one:only.gguf", "only.gguf"},
		{"org/several", "model-Q4_K_M.gguf"},
		{"org/several:Q4_K", "model-Q4_K.gguf"},
		{"org/several:q4_k_m", "model-Q4_K_M.gguf"},
		{"org/several:model-Q4_K_M.gguf", "model-Q4_K_M.gguf"},
		{"org/several:Q8_0", "UD/model-Q8_0-00001-of-00002.gguf"},
		{"org/several:UD/model-Q8_0-00001-of-00002.gguf", "UD/model-Q8_0-00001-of-00002.gguf"},
	}
	for _, c := range good {
		m, err := models.Resolve(c.name, 0)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got, err := os.ReadFile(m.Path); err != nil || string(got) != c.file {
			t.Errorf("%s resolves to %s (%q, %v), want %s", c.name, m.Path, got, err, c.file)
		}
		if m.Name != c.name || m.Files.Parts()[0] != m.Path {
			t.Errorf("%s: %+v", c.name, m)
		}
		if !models.IsName(c.name) {
			t.Errorf("IsName(%q) is false", c.name)
		}
	}
	if m, err := models.Resolve("Demo", 0); err != nil || m.Source != models.Demo || !models.IsName("DEMO") {
		t.Errorf("Demo: %+v, %v", m, err)
	}
	if m, _ := models.Resolve("org/several:Q8_0", 0); len(m.Files.Files) != 2 || m.Selector != "" || m.Among != nil {
		t.Errorf("%+v", m)
	}
	// With enough memory the best of several is taken. The name of one of other models must say which.
	if m, err := models.Resolve("org/several", 1<<40); err != nil || m.Selector != "Q8_0" || len(m.Files.Files) != 2 ||
		strings.Join(m.Among, " ") != "Q8_0 Q4_K Q4_K_M" {
		t.Errorf("%+v, %v", m, err)
	}
	addRepo(t, root, "org/two", "def", "small-Q8_0.gguf", "large-Q8_0.gguf")

	bad := []struct{ name, want string }{
		{"org/several:Q2", `no GGUF file matches "Q2"`},
		{"org/several:mmproj-model-f16.gguf", "no GGUF file matches"},
		{"org/two", "2 GGUF files match: large-Q8_0.gguf, small-Q8_0.gguf"},
		{"org/none", "no GGUF file of it"},
		{"org/broken", "part 2 of 2 is missing"},
		{"org/absent", "not in the Hugging Face cache at " + root},
		{"org/../one", "no such file"},
		{"../one", "no such file"},
	}
	for _, c := range bad {
		_, err := models.Resolve(c.name, 0)
		var e *models.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || e.Hint() == "" ||
			strings.ContainsRune(err.Error(), '\n') {
			t.Errorf("%s: %v, want an error with %q and a hint", c.name, err, c.want)
		}
	}
	if models.IsName("org/absent") || !models.LooksLikeName("org/absent") {
		t.Error("org/absent looks like a name and is none")
	}
}

func TestSnapshotOfTheMainRevision(t *testing.T) {
	root := cache(t, "a/b", "new", "m.gguf")
	dir := filepath.Join(root, "models--a--b")
	write(t, filepath.Join(dir, "snapshots", "old", "m.gguf"), "old")
	if m, err := models.Resolve("a/b", 0); err != nil || !strings.Contains(m.Path, "new") {
		t.Errorf("with refs/main: %v, %v", m, err)
	}
	for _, ref := range []string{"gone", "../../../..", ""} {
		write(t, filepath.Join(dir, "refs", "main"), ref)
		if m, err := models.Resolve("a/b", 0); err == nil {
			t.Errorf("refs/main %q with two snapshots resolves to %v", ref, m)
		}
	}
	if err := os.RemoveAll(filepath.Join(dir, "snapshots", "new")); err != nil {
		t.Fatal(err)
	}
	if m, err := models.Resolve("a/b", 0); err != nil || !strings.Contains(m.Path, "old") {
		t.Errorf("with one snapshot only: %v, %v", m, err)
	}
}

func TestResolveFile(t *testing.T) {
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	dir := t.TempDir()
	single, first, second := filepath.Join(dir, "m.gguf"), filepath.Join(dir, "s-00001-of-00002.gguf"),
		filepath.Join(dir, "s-00002-of-00002.gguf")
	odd := filepath.Join(dir, "weights.bin")
	for _, f := range []string{single, first, second, odd} {
		write(t, f, "x")
	}
	for _, f := range []string{single, first, odd} {
		if m, err := models.Resolve(f, 0); err != nil || m.Path != f {
			t.Errorf("%s: %v, %v", f, m, err)
		}
		if !models.IsName(f) {
			t.Errorf("IsName(%q) is false", f)
		}
	}
	fails := func(name, want string) {
		t.Helper()
		if _, err := models.Resolve(name, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	fails(second, "is part 2 of 2")
	fails(dir, "has 2 models: m.gguf, s-00001-of-00002.gguf")
	fails(t.TempDir(), "is a directory without a model")
	t.Chdir(dir)
	if err := os.MkdirAll("org/repo", 0o755); err != nil {
		t.Fatal(err)
	}
	fails("org/repo", "is a directory without a model")
	fails("org/other", "not in the Hugging Face cache")
	fails(os.DevNull, "is not a regular file")
	fails(filepath.Join(dir, "absent.gguf"), "no such file")
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	fails(first, "part 2 of 2 is missing")
}

func TestPromptsAreNotNames(t *testing.T) {
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	for _, prompt := range []string{"What is 17 + 25?", "hello", "either/or, which is it?", "km/h", "", ".", "a\nb.gguf",
		"What is in model.gguf"} {
		if models.IsName(prompt) {
			t.Errorf("IsName(%q)", prompt)
		}
	}
	if models.LooksLikeName("either/or, which is it?") || models.LooksLikeName("hello") || models.LooksLikeName("100/7") ||
		!models.LooksLikeName("org/repo:Q4") {
		t.Error("LooksLikeName")
	}
	if !models.IsName("absent.gguf") {
		t.Error("absent.gguf is not taken for a name")
	}
}
