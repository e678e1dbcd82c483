package pull_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runner/hint"
	"runner/models/cache"
	"runner/models/catalog"
	"runner/models/hub"
	"runner/models/hub/download"
	"runner/models/hub/hubtest"
	"runner/models/pull"
	"runner/testenv"
)

func content(seed byte, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

func model() hubtest.Repo {
	return hubtest.Repo{ID: "Org/Model-GGUF", License: "mit", Files: []hubtest.File{
		{Path: ".gitattributes", Content: []byte("*.gguf filter=lfs\n")},
		{Path: "README.md", Content: []byte("# A model\n")},
		{Path: "Q4/model-00001-of-00002.gguf", Content: content(1, 3_000_000), LFS: true},
		{Path: "Q4/model-00002-of-00002.gguf", Content: content(2, 2_000_000), LFS: true},
		{Path: "empty.txt", Content: []byte{}},
		{Path: "copy.md", Content: []byte("# A model\n")},
	}}
}

func client(t *testing.T, h *hubtest.Hub) *hub.Client {
	t.Helper()
	c, err := hub.New(hub.Config{Endpoint: h.URL,
		Retry: hub.Retry{Tries: 3, First: time.Millisecond, Most: 2 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// gguf chooses the model's parts.
func gguf(files []catalog.File) (e catalog.Entry, err error) {
	for _, f := range files {
		if strings.HasSuffix(f.Path, ".gguf") {
			e.Files = append(e.Files, f)
		}
	}
	return e, nil
}

// all chooses all files.
func all(files []catalog.File) (catalog.Entry, error) { return catalog.Entry{Files: files}, nil }

// right checks the files of a snapshot.
func right(t *testing.T, dir string, m hubtest.Repo, want int) {
	t.Helper()
	n := 0
	for _, f := range m.Files {
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.Path)))
		if err == nil {
			n++
		}
		if err == nil && !bytes.Equal(b, f.Content) {
			t.Errorf("%s is wrong", f.Path)
		}
	}
	if n != want {
		t.Errorf("%d files are in %s", n, dir)
	}
}

// TestUnusableCacheIsNamed: an error of the disk has the folder and the variable that moves it.
func TestUnusableCacheIsNamed(t *testing.T) {
	h := hubtest.Start(t)
	h.Add(model())
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, set := range []string{"HF_HOME", "HUGGINGFACE_HUB_CACHE", "HF_HUB_CACHE"} {
		t.Setenv(set, file)
		dir := file
		if set == "HF_HOME" {
			t.Setenv("HUGGINGFACE_HUB_CACHE", "")
			t.Setenv("HF_HUB_CACHE", "")
			dir = filepath.Join(file, "hub")
		}
		p, err := pull.NewFilesPlan(t.Context(), client(t, h), cache.Default(), "org/MODEL-gguf", "main", gguf)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Run(t.Context(), nil)
		if err == nil || err.Error() != "the Hugging Face cache "+dir+" cannot be used (not a directory)" ||
			hint.Of(err) != "make the folder writable, or set "+set+" to another one" {
			t.Errorf("%s: %v; %s", set, err, hint.Of(err))
		}
	}
}

func TestPull(t *testing.T) {
	h := hubtest.Start(t)
	m := h.Add(model())
	c := cache.At(filepath.Join(t.TempDir(), "hub"))
	p, err := pull.NewFilesPlan(t.Context(), client(t, h), c, "org/MODEL-gguf", "main", gguf)
	if err != nil {
		t.Fatal(err)
	}
	if p.ID != m.ID || p.License != "mit" || p.Model.Bytes() != 5_000_000 || p.Missing() != 5_000_000 ||
		len(p.Items) != 2 || p.Revision != "main" {
		t.Errorf("the plan is %+v", p)
	}
	if _, err := os.Stat(c.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Error("the plan wrote something")
	}
	last := map[string]download.Progress{}
	report := func(r download.Progress) { last[r.File] = r }
	linked, err := p.Run(t.Context(), report)
	if err != nil || !linked {
		t.Fatalf("linked: %v, %v", linked, err)
	}
	right(t, p.Model.Dir, m, 2)
	for _, i := range p.Items {
		if r := last[i.Path]; r.State != download.Done || r.Done != i.Size || r.Total != i.Size {
			t.Errorf("the last report is %+v", r)
		}
	}
	repo, _ := c.Repo(m.ID)
	if commit, err := repo.Commit("main"); err != nil || commit != m.Commit {
		t.Errorf("main is %q, %v", commit, err)
	}
	// Now all files: those that are there are not fetched again.
	sent := h.Sent()
	if p, err = pull.NewFilesPlan(t.Context(), client(t, h), c, m.ID, "main", all); err != nil {
		t.Fatal(err)
	}
	rest := int64(len(m.Files[0].Content) + len(m.Files[1].Content))
	if p.Missing() != rest || p.Items[2].Have != p.Items[2].Size {
		t.Errorf("%d bytes are missing: %+v", p.Missing(), p.Items)
	}
	if _, err = p.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	right(t, p.Model.Dir, m, 6)
	if n := h.Sent() - sent; n != rest {
		t.Errorf("%d bytes were sent", n)
	}
}

// TestSnapshotAppearsWhole fails at the second file. Nothing of the model is to be seen, and what came is kept.
func TestSnapshotAppearsWhole(t *testing.T) {
	defer pull.OneFileAtOnce()()
	h := hubtest.Start(t)
	m := h.Add(model())
	h.Fail(func(r hubtest.Request) hubtest.Fault {
		return hubtest.Fault{Status: map[bool]int{true: 500}[r.Storage && strings.Contains(r.Path, "00002-of")]}
	})
	c := cache.At(filepath.Join(t.TempDir(), "hub"))
	run := func(ctx context.Context) (*pull.Plan, error) {
		p, err := pull.NewFilesPlan(t.Context(), client(t, h), c, m.ID, "main", gguf)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Run(ctx, nil)
		return p, err
	}
	_, err := run(t.Context())
	if e := (*hub.Error)(nil); !errors.As(err, &e) || e.Kind != hub.Unreachable {
		t.Errorf("got %v", err)
	}
	repo, _ := c.Repo(m.ID)
	if commits, _ := repo.Commits(); len(commits) > 0 {
		t.Errorf("snapshots: %v", commits)
	}
	if _, err := repo.Commit("main"); err == nil {
		t.Error("there is a reference")
	}
	h.Fail(nil)
	cancelled, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	if _, err := run(cancelled); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	p, err := run(t.Context())
	if err != nil || p.Missing() != 2_000_000 {
		t.Errorf("%d bytes were missing, %v", p.Missing(), err)
	}
}

func TestRefusedPlans(t *testing.T) {
	h := hubtest.Start(t)
	m := model()
	m.Files = append(m.Files, hubtest.File{Path: "readme.MD"}, hubtest.File{Path: "../evil"},
		hubtest.File{Path: "huge.gguf", LFS: true, Size: hub.MaxHTTP + 1, At: bytes.NewReader(nil),
			SHA256: strings.Repeat("0", 64)})
	m = h.Add(m)
	c := cache.At(t.TempDir())
	no := errors.New("no")
	type choose = func([]catalog.File) (catalog.Entry, error)
	for name, r := range map[string]struct {
		repo, revision string
		choose         choose
	}{
		"upper and lower case": {m.ID, "main", func(files []catalog.File) (e catalog.Entry, err error) {
			for _, f := range files {
				if f.Size <= hub.MaxHTTP {
					e.Files = append(e.Files, f)
				}
			}
			return e, nil
		}},
		"choice":  {m.ID, "main", func([]catalog.File) (e catalog.Entry, err error) { return e, no }},
		"large":   {m.ID, "main", gguf},
		"missing": {"org/none", "main", all},
		"branch":  {m.ID, "../x", all},
	} {
		p, err := pull.NewFilesPlan(t.Context(), client(t, h), c, r.repo, r.revision, r.choose)
		if e := (*hub.Error)(nil); err == nil || !errors.As(err, &e) && !errors.Is(err, no) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

type found struct {
	Folder     string
	Warnings   []string
	Incomplete int
	Files      map[string]int64
	Refs       []string
}

func peer(t *testing.T, env []string, args ...string) (f found) {
	t.Helper()
	script := exec.Command(testenv.HuggingFaceHub(t), append([]string{"testdata/peer.py"}, args...)...)
	env = append(env, "HF_HUB_DISABLE_TELEMETRY=1", "HF_TOKEN=hf_test", "NO_PROXY=127.0.0.1")
	script.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	script.Stderr = &stderr
	out, err := script.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	if err := json.Unmarshal(out, &f); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(f.Warnings) > 0 || f.Incomplete > 0 || strings.Contains(strings.ToLower(stderr.String()), "warning") {
		t.Errorf("Python warns: %v, %d incomplete\n%s", f.Warnings, f.Incomplete, stderr.String())
	}
	return f
}

func TestPythonFindsWhatWePulled(t *testing.T) {
	h := hubtest.Start(t)
	m := h.Add(model())
	home := t.TempDir()
	testenv.HuggingFaceHub(t)
	p, err := pull.NewFilesPlan(t.Context(), client(t, h), cache.At(filepath.Join(home, "hub")), m.ID, "main", all)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	asked := len(h.Asked())
	args := []string{"find", m.ID}
	for _, f := range m.Files {
		args = append(args, f.Path)
	}
	f := peer(t, []string{"HF_HOME=" + home, "HF_ENDPOINT=" + h.URL, "HF_HUB_OFFLINE=1"}, args...)
	if f.Folder != p.Model.Dir || len(f.Files) != len(m.Files) || strings.Join(f.Refs, " ") != "main" {
		t.Errorf("Python finds %+v", f)
	}
	if len(h.Asked()) != asked {
		t.Error("Python asked the hub")
	}
}

func TestWeFindWhatPythonPulled(t *testing.T) {
	h := hubtest.Start(t)
	m := h.Add(model())
	home := t.TempDir()
	f := peer(t, []string{"HF_HOME=" + home, "HF_ENDPOINT=" + h.URL, "HF_HUB_DISABLE_XET=1"}, "pull", m.ID)
	sent := h.Sent()
	p, err := pull.NewFilesPlan(t.Context(), client(t, h), cache.At(filepath.Join(home, "hub")), m.ID, "main", all)
	if err != nil {
		t.Fatal(err)
	}
	linked, err := p.Run(t.Context(), nil)
	if err != nil || p.Missing() != 0 || h.Sent() != sent || p.Model.Dir != f.Folder || !linked {
		t.Errorf("%d bytes were missing and %d sent, linked: %v, %v", p.Missing(), h.Sent()-sent, linked, err)
	}
	right(t, p.Model.Dir, m, len(m.Files))
	if leaks := h.Leaks(); len(leaks) > 0 {
		t.Errorf("the storage host got %v", leaks)
	}
}
