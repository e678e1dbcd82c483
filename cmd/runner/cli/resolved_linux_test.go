package cli

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"runner/models/random"
	"runner/models/random/randomtest"
)

// opens counts how often something in a folder, or the folder itself, is opened. Call it again for those since then.
func opens(t *testing.T, folder string) func() (n int) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if _, err := unix.InotifyAddWatch(fd, folder, unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	return func() (n int) {
		buf := make([]byte, 1<<16)
		got, err := unix.Read(fd, buf)
		if err == unix.EAGAIN {
			return 0
		}
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < got; n++ {
			at += unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(buf[at+12:]))
		}
		return n
	}
}

// The folders of LM Studio and of Ollama are read once to find what the argument of run means.
func TestANameIsResolvedOnce(t *testing.T) {
	home := filepath.Dir(filepath.Dir(filepath.Dir(inEmptyHome(t))))
	t.Setenv("OLLAMA_MODELS", filepath.Join(home, "ollama"))
	t.Chdir(home)
	blob := strings.Repeat("a", 64)
	const manifests, blobs, repo = "ollama/manifests/registry.ollama.ai/library/tune", "ollama/blobs",
		".lmstudio/models/org/Studio-7B-GGUF"
	for _, folder := range []string{manifests, blobs, repo} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{filepath.Join(blobs, "sha256-"+blob), filepath.Join(repo, "m.gguf")} {
		if err := randomtest.WriteFile(path, random.Config{Layers: 1}); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(repo, "m.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	manifest := fmt.Sprintf(
		`{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:%s","size":%d}]}`, blob, info.Size())
	if err := os.WriteFile(filepath.Join(manifests, "v2"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	// Opened are the folder and the model's file, for its first bytes, or the folder and the manifest.
	for name, at := range map[string]string{"org/studio-7b": repo, "studio-7b": repo, "tune:v2": manifests} {
		count := opens(t, at)
		q, err := new(App).wanted(t.Context(), new(runOptions), []string{name})
		if err != nil || q.given || q.model.Name != name {
			t.Errorf("%s: %v, %+v", name, err, q)
		}
		if n := count(); n != 2 {
			t.Errorf("%s: files and folders were opened %d times, want 2", name, n)
		}
	}
}
