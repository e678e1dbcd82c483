package cache_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"runner/models/cache"
	"runner/models/catalog"
)

func TestDir(t *testing.T) {
	for _, v := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"} {
		t.Setenv(v, "")
	}
	t.Setenv("HOME", "/home/someone")
	t.Setenv("PLACE", "/place")
	for _, c := range []struct{ variable, value, want string }{
		{"HOME", "/home/someone", "/home/someone/.cache/huggingface/hub"},
		{"XDG_CACHE_HOME", "/xdg", "/xdg/huggingface/hub"},
		{"HF_HOME", "/hf", "/hf/hub"},
		{"HF_HOME", "~/hf", "/home/someone/hf/hub"},
		{"HF_HUB_CACHE", "/hub", "/hub"},
		{"HF_HUB_CACHE", "${PLACE}/~", "/place/~"},
		{"HF_HUB_CACHE", "~other", "~other"},
	} {
		t.Setenv(c.variable, c.value)
		if got := cache.Dir(); got != filepath.FromSlash(c.want) {
			t.Errorf("with %s=%s: %s, want %s", c.variable, c.value, got, c.want)
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

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func TestReadingACache(t *testing.T) {
	root := t.TempDir()
	c := cache.At(root)
	for _, id := range []string{"Org/Repo", "a/b", "A/B"} {
		write(t, filepath.Join(root, "models--"+strings.ReplaceAll(id, "/", "--"), "refs", "main"), "c1\n")
	}
	for _, other := range []string{"datasets--a--b", "models--noorg", "models--..--x", "models--a--b--c", ".locks"} {
		write(t, filepath.Join(root, other, "refs", "main"), "c1")
	}
	write(t, filepath.Join(root, "models--a--file"), "")
	repos, err := c.Repos()
	var ids []string
	for _, r := range repos {
		ids = append(ids, r.ID())
	}
	if want := []string{"A/B", "Org/Repo", "a/b"}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("repositories %q, %v, want %q", ids, err, want)
	}
	for id, want := range map[string]string{"org/repo": "Org/Repo", "A/B": "A/B", "a/b": "a/b", "a/c": "", "a/file": "",
		"../b": ""} {
		if r, ok := c.Find(id); ok != (want != "") || ok && r.ID() != want {
			t.Errorf("Find(%q) = %q, %v, want %q", id, r.ID(), ok, want)
		}
	}

	r, _ := c.Find("org/repo")
	if _, err := r.Main(); !errors.Is(err, cache.ErrNoSnapshot) {
		t.Errorf("main without snapshots: %v", err)
	}
	write(t, filepath.Join(r.Blobs(), "e1"), "12345")
	snapshot := filepath.Join(r.Snapshots(), "c1")
	link(t, "../../blobs/e1", filepath.Join(snapshot, "a.txt"))
	link(t, filepath.Join(r.Blobs(), "e1"), filepath.Join(snapshot, "absolute.txt"))
	link(t, "../../../blobs/gone", filepath.Join(snapshot, "sub", "gone.txt"))
	link(t, "../../../models--a--b/refs/main", filepath.Join(snapshot, "outside.txt"))
	link(t, "..", filepath.Join(snapshot, "folder"))
	write(t, filepath.Join(snapshot, "plain.txt"), "1")
	got, err := r.Files("c1")
	want := []catalog.File{{Path: "a.txt", Size: 5, Etag: "e1"}, {Path: "absolute.txt", Size: 5, Etag: "e1"},
		{Path: "outside.txt", Size: 3}, {Path: "plain.txt", Size: 1}, {Path: "sub/gone.txt", Etag: "gone", Missing: true}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("files %+v, %v, want %+v", got, err, want)
	}
	if commit, err := r.Main(); err != nil || commit != "c1" {
		t.Errorf("main is at %q, %v", commit, err)
	}
	write(t, filepath.Join(r.Snapshots(), "c2", "x"), "")
	for ref, want := range map[string]string{"c2": "c2", "c1": "c1", "c3": "", "../../a": "", "": "",
		strings.Repeat("c", 300): ""} {
		write(t, filepath.Join(r.Refs(), "main"), ref)
		if commit, err := r.Main(); (err == nil) != (want != "") || commit != want {
			t.Errorf("with refs/main %q: %q, %v, want %q", ref, commit, err, want)
		}
	}
	if repos, err := cache.At(filepath.Join(root, "absent")).Repos(); repos != nil || err != nil {
		t.Errorf("a cache that does not exist: %v, %v", repos, err)
	}
}

// FuzzNames checks that no name of a repository, commit, reference, blob or file leads out of its folder, and that
// different repositories have different folders.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"org/repo", "../x", "a/b/../..", "", "/", "a//b", "a--b/c", "refs/pr/1",
		"a\x00b/c", "C:/x", `..\x/y`, "a/b.", "_a/b_"} {
		f.Add(name)
	}
	c := cache.At("/cache")
	r, err := c.Repo("org/repo")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if r, err := c.Repo(name); err == nil {
			if filepath.Dir(r.Dir()) != "/cache" || r.ID() != name {
				t.Errorf("repository %q is at %s", name, r.Dir())
			}
			org, repo, _ := strings.Cut(strings.TrimPrefix(filepath.Base(r.Dir()), "models--"), "--")
			if org+"/"+repo != name {
				t.Errorf("the folder %s of %q is that of another name too", r.Dir(), name)
			}
		} else if !errors.Is(err, cache.ErrName) {
			t.Errorf("%q: %v", name, err)
		}
		for dir, path := range map[string]func(string) (string, error){r.Blobs(): r.Blob, r.Snapshots(): r.Snapshot,
			r.Refs(): r.Ref, r.Locks(): r.Lock,
			filepath.Join(r.Snapshots(), "c"): func(file string) (string, error) { return r.Entry("c", file) }} {
			if p, err := path(name); err == nil && !strings.HasPrefix(p, dir+"/") {
				t.Errorf("%q leads to %s, out of %s", name, p, dir)
			}
		}
	})
}
