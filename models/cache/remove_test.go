package cache_test

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"runner/models/cache"
	"runner/models/catalog"
	"runner/testenv"
)

// blob writes a blob and returns its name: a SHA-256, or what git calls it.
func blob(t *testing.T, r cache.Repo, text string, git bool) string {
	t.Helper()
	sum := sha256.Sum256([]byte(text))
	name := hex.EncodeToString(sum[:])
	if git {
		sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text))
		name = hex.EncodeToString(sum[:])
	}
	write(t, filepath.Join(r.Blobs(), name), text)
	return name
}

// randomRepo fills a repository with commits that share blobs, with references, and with what other tools leave there.
func randomRepo(t *testing.T, random *rand.Rand, r cache.Repo) (commits []string) {
	t.Helper()
	var blobs []string
	for i := range 2 + random.IntN(5) {
		blobs = append(blobs, blob(t, r, strings.Repeat("x", i*100+random.IntN(100)), random.IntN(2) == 0))
	}
	for i := range 1 + random.IntN(4) {
		commit := fmt.Sprintf("%040x", i+1)
		commits = append(commits, commit)
		for j := range 1 + random.IntN(4) {
			file, up := fmt.Sprintf("f%d.gguf", j), "../../"
			if random.IntN(3) == 0 {
				file, up = fmt.Sprintf("sub/f%d.gguf", j), "../../../"
			}
			link(t, up+"blobs/"+blobs[random.IntN(len(blobs))], filepath.Join(r.Snapshots(), commit, file))
		}
		if random.IntN(2) == 0 {
			write(t, filepath.Join(r.Dir(), ".no_exist", commit, "absent.json"), "")
		}
		for _, ref := range []string{"main", "v1", "refs/pr/1"} {
			if random.IntN(3) == 0 {
				write(t, filepath.Join(r.Refs(), ref), commit)
			}
		}
	}
	return commits
}

// tree lists the files and links below a folder with their contents.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		text := ""
		if d.Type()&fs.ModeSymlink != 0 {
			text, err = os.Readlink(p)
		} else {
			var data []byte
			data, err = os.ReadFile(p)
			text = string(data)
		}
		lines = append(lines, rel+" "+text)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return lines
}

// TestRemovingKeepsWhatIsUsed removes random commits and files and checks that every entry that stays has its bytes,
// that every blob and reference that stays is used, and that the bytes are counted.
func TestRemovingKeepsWhatIsUsed(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 150 {
		c := cache.At(t.TempDir())
		r, _ := c.Repo("org/repo")
		other, _ := c.Repo("org/other")
		randomRepo(t, random, r)
		randomRepo(t, random, other)
		others := tree(t, other.Dir())
		gone := func(commit string, f catalog.File) bool {
			return (int(commit[39])+len(f.Path)+int(f.Path[len(f.Path)-6])+round)%(2+round%3) == 0
		}
		before := blobBytes(t, r)
		done, err := r.Remove(gone)
		if err != nil {
			t.Fatal(err)
		}
		if freed := before - blobBytes(t, r); freed != done.Bytes {
			t.Fatalf("round %d: %d bytes are said to be freed, %d were", round, done.Bytes, freed)
		}
		if !slices.Equal(tree(t, other.Dir()), others) {
			t.Fatalf("round %d: another repository changed", round)
		}
		commits, err := r.Commits()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, commit := range commits {
			files, err := r.Files(commit)
			if err != nil || len(files) == 0 {
				t.Fatalf("round %d: %s has %v, %v", round, commit, files, err)
			}
			for _, f := range files {
				if f.Missing || gone(commit, f) {
					t.Fatalf("round %d: %s/%s: %+v", round, commit, f.Path, f)
				}
			}
		}
		for _, ref := range []string{"main", "v1", "refs/pr/1"} {
			if commit, err := r.Commit(ref); err == nil && !slices.Contains(commits, commit) {
				t.Fatalf("round %d: %s names %s, which is gone", round, ref, commit)
			}
		}
		if done, err := r.Remove(all); err != nil && !errors.Is(err, fs.ErrNotExist) || done.All == exists(r) && err == nil {
			t.Fatalf("round %d: removing all: %+v, %v", round, done, err)
		}
		if commits, _ := r.Commits(); len(commits) > 0 {
			t.Fatalf("round %d: %v are left", round, commits)
		}
	}
}

// all has everything removed.
func all(string, catalog.File) bool { return true }

// exists reports whether a repository has a folder in the cache.
func exists(r cache.Repo) bool {
	_, err := os.Stat(r.Dir())
	return err == nil
}

func blobBytes(t *testing.T, r cache.Repo) (n int64) {
	t.Helper()
	entries, err := os.ReadDir(r.Blobs())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		n += info.Size()
	}
	return n
}

// TestRemovingFollowsNoLinks checks that nothing outside of the repository is removed.
func TestRemovingFollowsNoLinks(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	c := cache.At(root)
	write(t, filepath.Join(outside, "precious"), "x")
	write(t, filepath.Join(outside, "blobs", "b1"), "x")
	write(t, filepath.Join(outside, "snapshots", "c9", "f"), "x")
	before := tree(t, outside)

	linked, _ := c.Repo("org/linked")
	link(t, outside, linked.Dir())
	if _, err := linked.Remove(all); !errors.Is(err, cache.ErrLinked) {
		t.Errorf("a folder that is a link: %v", err)
	}
	inside, _ := c.Repo("org/inside")
	link(t, outside, filepath.Join(inside.Snapshots(), "c1", "folder"))
	link(t, filepath.Join(outside, "precious"), filepath.Join(inside.Snapshots(), "c1", "absolute"))
	link(t, "../../../models--org--other/blobs/b1", filepath.Join(inside.Snapshots(), "c1", "neighbour"))
	write(t, filepath.Join(inside.Snapshots(), "c2", "f"), "copy")
	link(t, filepath.Join(outside, "blobs"), inside.Blobs())
	link(t, "../../blobs/b1", filepath.Join(inside.Snapshots(), "c1", "f"))
	other, _ := c.Repo("org/other")
	write(t, filepath.Join(other.Blobs(), "b1"), "y")
	done, err := inside.Remove(func(commit string, _ catalog.File) bool { return commit == "c1" })
	if err == nil {
		t.Errorf("blobs outside of the cache are removed: %+v", done)
	}
	if _, err := inside.Remove(all); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(inside.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the repository is still there: %v", err)
	}
	if !slices.Equal(tree(t, outside), before) || len(tree(t, other.Dir())) != 1 {
		t.Error("files outside of the repository are gone")
	}
	if _, err := other.Remove(func(string, catalog.File) bool { return true }); err != nil || !exists(other) {
		t.Errorf("a repository without snapshots, whose download may be under way, is gone: %v", err)
	}
	absent, _ := c.Repo("org/absent")
	if _, err := absent.Remove(all); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a repository that is not there: %v", err)
	}
}

// peer removes the same commits as the test with huggingface_hub, and then scans both caches.
const peer = `
import json, sys
from huggingface_hub import scan_cache_dir
for case in json.load(sys.stdin):
    scan_cache_dir(case["theirs"]).delete_revisions(*case["commits"]).execute()
    for cache in case["ours"], case["theirs"]:
        warnings = [str(w) for w in scan_cache_dir(cache).warnings]
        if warnings: sys.exit(f"{cache}: {warnings}")
`

// TestNamesAsHuggingFaceHasThem compares which names of repositories are valid, and their folders, with
// huggingface_hub.
func TestNamesAsHuggingFaceHasThem(t *testing.T) {
	python := testenv.HuggingFaceHub(t)
	random := rand.New(rand.NewPCG(8, 9))
	ids := []string{"org/repo", "a/b.git", "a/.b", "a/b-", "a/b--c", "a/b..c", "_/_", "a/b/c", "/b", "a/", "a b/c",
		strings.Repeat("a", 96) + "/b", strings.Repeat("a", 97) + "/b", "a/" + strings.Repeat("b", 97), "a/é"}
	for range 2000 {
		id := []byte("a/b")
		for range random.IntN(5) {
			at := random.IntN(len(id) + 1)
			id = slices.Insert(id, at, "aZ9-_./"[random.IntN(7)])
		}
		ids = append(ids, string(id))
	}
	input, err := json.Marshal(ids)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", `
import json, sys
from huggingface_hub.file_download import repo_folder_name
from huggingface_hub.utils import validate_repo_id, HFValidationError
def folder(id):
    try: validate_repo_id(id)
    except HFValidationError: return ""
    return repo_folder_name(repo_id=id, repo_type="model")
json.dump([folder(id) for id in json.load(sys.stdin)], sys.stdout)
`)
	cmd.Stdin = strings.NewReader(string(input))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	if err := json.Unmarshal(out, &folders); err != nil {
		t.Fatal(err)
	}
	valid := 0
	for i, id := range ids {
		if !strings.Contains(id, "/") {
			continue // the hub has old repositories without an owner, and this program does not
		}
		ours := ""
		if r, err := cache.At("").Repo(id); err == nil {
			ours = r.Dir()
			valid++
		}
		if ours != folders[i] {
			t.Errorf("%q has the folder %q, with huggingface_hub %q", id, ours, folders[i])
		}
	}
	if valid < 200 {
		t.Errorf("only %d names were valid", valid)
	}
}

// TestRemovingAsHuggingFaceDoes compares what is left with what huggingface_hub leaves of the same cache.
func TestRemovingAsHuggingFaceDoes(t *testing.T) {
	python := testenv.HuggingFaceHub(t)
	random := rand.New(rand.NewPCG(5, 6))
	type pair struct {
		Ours    string   `json:"ours"`
		Theirs  string   `json:"theirs"`
		Commits []string `json:"commits"`
	}
	var cases []pair
	for i := range 40 {
		p := pair{Ours: t.TempDir(), Theirs: t.TempDir()}
		seed := rand.NewPCG(uint64(i), 7)
		state, err := seed.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{p.Ours, p.Theirs} {
			if err := seed.UnmarshalBinary(state); err != nil {
				t.Fatal(err)
			}
			r, _ := cache.At(dir).Repo("org/repo")
			commits := randomRepo(t, rand.New(seed), r)
			p.Commits = commits[:min(len(commits), 1+i%2)]
		}
		if random.IntN(8) == 0 {
			r, _ := cache.At(p.Ours).Repo("org/repo")
			all, err := r.Commits()
			if err != nil {
				t.Fatal(err)
			}
			p.Commits = all
		}
		r, _ := cache.At(p.Ours).Repo("org/repo")
		gone := func(commit string, _ catalog.File) bool { return slices.Contains(p.Commits, commit) }
		if _, err := r.Remove(gone); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, p)
	}
	input, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", peer)
	cmd.Stdin = strings.NewReader(string(input))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, p := range cases {
		// huggingface_hub keeps what it noted about files that do not exist. Without the commit nobody reads it.
		noted := func(line string) bool { return strings.Contains(line, ".no_exist/") }
		ours := slices.DeleteFunc(tree(t, p.Ours), noted)
		theirs := slices.DeleteFunc(tree(t, p.Theirs), noted)
		r, _ := cache.At(p.Theirs).Repo("org/repo")
		used := usedBlobs(t, r)
		// A blob that no snapshot used before may be a download under way. Only huggingface_hub removes it, with the
		// last commit.
		orphan := func(line string) bool {
			name, ok := strings.CutPrefix(line, "models--org--repo/blobs/")
			return ok && !used[strings.Fields(name)[0]]
		}
		ours, theirs = slices.DeleteFunc(ours, orphan), slices.DeleteFunc(theirs, orphan)
		if !slices.Equal(ours, theirs) {
			t.Errorf("case %d, without %v:\n%s\nhuggingface_hub leaves\n%s", i, p.Commits, strings.Join(ours, "\n"),
				strings.Join(theirs, "\n"))
		}
	}
}

func usedBlobs(t *testing.T, r cache.Repo) map[string]bool {
	t.Helper()
	used := map[string]bool{}
	commits, _ := r.Commits()
	for _, c := range commits {
		files, err := r.Files(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			used[f.Etag] = true
		}
	}
	return used
}

// TestVerify damages every blob in turn and checks that the file is named, and no other.
func TestVerify(t *testing.T) {
	c := cache.At(t.TempDir())
	r, _ := c.Repo("org/repo")
	big := strings.Repeat("weights ", 1<<18)
	names := map[string]string{"model.gguf": blob(t, r, big, false), "README.md": blob(t, r, "read me", true),
		"empty": blob(t, r, "", true), "odd": "notahash"}
	write(t, filepath.Join(r.Blobs(), "notahash"), "x")
	for file, etag := range names {
		link(t, "../../blobs/"+etag, filepath.Join(r.Snapshots(), "c1", file))
	}
	link(t, "../../blobs/"+names["model.gguf"], filepath.Join(r.Snapshots(), "c2", "again.gguf"))
	write(t, filepath.Join(r.Snapshots(), "c2", "copy.json"), "{}")

	var last, total int64
	v, err := r.Verify(t.Context(), func(done, all int64) {
		if done < last {
			t.Errorf("progress goes back from %d to %d", last, done)
		}
		last, total = done, all
	})
	if err != nil || len(v.Damaged) != 0 || v.Files != 3 || !slices.Equal(v.Unknown, []string{"odd", "copy.json"}) ||
		last != total || v.Bytes != total || total != int64(len(big)+len("read me")) {
		t.Fatalf("a whole repository: %+v, %v, progress %d of %d", v, err, last, total)
	}
	for file, etag := range names {
		path := filepath.Join(r.Blobs(), etag)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for kind, bad := range map[string][]byte{"longer": append(slices.Clone(good), 'x'),
			"flipped": append([]byte{'~'}, good[min(1, len(good)):]...), "missing": nil} {
			if bad == nil {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, bad, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			v, err := r.Verify(t.Context(), nil)
			found := 0
			for _, d := range v.Damaged {
				if d.File == file && d.Etag == etag && (d.Got == "") == (kind == "missing") && d.String() != "" {
					found++
				}
			}
			want := 1
			if etag == "notahash" && kind != "missing" {
				want = 0 // nothing says what the bytes should be
			}
			if err != nil || found != want || len(v.Damaged) != want {
				t.Errorf("%s %s: %+v, %v", file, kind, v.Damaged, err)
			}
			if err := os.WriteFile(path, good, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stopped")
	if _, err := r.Verify(ctx, func(int64, int64) { cancel(stop) }); !errors.Is(err, stop) {
		t.Errorf("a check that is stopped: %v", err)
	}
}
