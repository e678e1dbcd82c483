package download

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/models/cache"
	"runner/models/catalog"
	"runner/models/hub"
	"runner/models/hub/hubtest"
	"runner/testenv"
)

// TestSpeed compares a download of 1 GB over loopback with curl, sync and sha256sum, in turns. It takes a minute.
func TestSpeed(t *testing.T) {
	testenv.NeedLong(t, "it takes a minute and 3 GB of disk")
	for _, tool := range []string{"curl", "sha256sum", "sync"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not on the PATH: %v", tool, err)
		}
	}
	const size = 1_000_000_000
	dir := t.TempDir()
	in, err := os.Create(filepath.Join(dir, "in"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	sum := sha256.New()
	block := content(15, 8<<20)
	for n := 0; n < size; {
		part := block[:min(len(block), size-n)]
		block[n%len(block)]++
		if _, err := io.MultiWriter(in, sum).Write(part); err != nil {
			t.Fatal(err)
		}
		n += len(part)
	}
	h := hubtest.Start(t)
	f := hubtest.File{Path: "large.gguf", LFS: true, At: in, Size: size, SHA256: fmt.Sprintf("%x", sum.Sum(nil))}
	m := h.Add(hubtest.Repo{ID: "org/model", Files: []hubtest.File{f}})
	client, err := hub.New(hub.Config{Endpoint: h.URL})
	if err != nil {
		t.Fatal(err)
	}
	var ours, theirs []time.Duration
	for range 5 {
		out := filepath.Join(dir, "out")
		address := h.URL + "/org/model/resolve/" + m.Commit + "/large.gguf"
		began := time.Now()
		const script = `curl -sfL -o "$1" "$2" && sync "$1" && sha256sum "$1"`
		b, err := exec.Command("sh", "-c", script, "sh", out, address).Output()
		theirs = append(theirs, time.Since(began))
		if err != nil || !strings.HasPrefix(string(b), f.SHA256) {
			t.Fatalf("curl: %v, %s", err, b)
		}
		if err := os.Remove(out); err != nil {
			t.Fatal(err)
		}
		root := filepath.Join(dir, "hub")
		repo, err := cache.At(root).Repo(m.ID)
		if err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		err = Get(t.Context(), client, repo, m.Commit, catalog.File{Path: f.Path, Size: size, Etag: f.SHA256}, Options{})
		ours = append(ours, time.Since(began))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(root); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	ratio := ours[2].Seconds() / theirs[2].Seconds()
	t.Logf("ours %v, theirs %v, ratio of the medians %.2f", ours, theirs, ratio)
	if ratio > 2 {
		t.Error("a download takes more than twice as long as curl, sync and sha256sum")
	}
}
