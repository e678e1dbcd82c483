package mlx

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"runner/backend/child"
)

//go:embed worker.py
var worker []byte

// Options are the settings of a worker that backend.Config does not have.
type Options struct {
	// Cache is the folder in which the worker's file is kept.
	Cache string
	// Memory is how many bytes MLX may use. 0 leaves the choice to the worker.
	Memory int64
}

// Start returns the program that runs a model's engine. It writes the worker's file if it is not there.
func Start(p *Python, f *Folder, o Options) (child.Program, error) {
	path, err := writeWorker(o.Cache)
	if err != nil {
		return child.Program{}, err
	}
	model, err := json.Marshal(map[string]any{"name": f.Name, "architecture": f.Architecture, "model_type": f.Type,
		"digest": f.Digest, "chat_template": f.ChatTemplate, "trained_context": f.TrainedContext, "width": f.Width,
		"bytes": f.Bytes})
	if err != nil {
		return child.Program{}, err
	}
	require, err := json.Marshal(map[string]string{"mlx": versionMLX, "mlx-lm": versionMLXLM})
	if err != nil {
		return child.Program{}, err
	}
	// -I keeps Python from the working folder, the user's packages and PYTHON variables.
	return child.Program{Path: p.Path, Args: []string{"-I", path, "--vocabulary", strconv.Itoa(f.Vocab.Len()), "--memory",
		strconv.FormatInt(o.Memory, 10), "--require", string(require), "--model", string(model)}}, nil
}

// writeWorker writes the worker's file to a folder that only this user can write, and returns its path. The name
// has the digest of the contents, so that programs with different workers do not overwrite each other's.
func writeWorker(cache string) (string, error) {
	sum := sha256.Sum256(worker)
	dir := filepath.Join(cache, "mlx")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := checkOwn(dir); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "worker-"+hex.EncodeToString(sum[:8])+".py")
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, worker) && checkOwn(path) == nil {
		return path, nil
	}
	tmp, err := os.CreateTemp(dir, "worker-*.tmp") // mode 0600
	if err != nil {
		return "", err
	}
	_, err = tmp.Write(worker)
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
		return "", err
	}
	return path, nil
}

// checkOwn returns an error if others can write a file or folder.
func checkOwn(path string) error {
	s, err := os.Lstat(path)
	if err != nil {
		return err
	}
	owner, ok := s.Sys().(*syscall.Stat_t)
	if s.Mode()&os.ModeSymlink != 0 || s.Mode().Perm()&0o022 != 0 || ok && int(owner.Uid) != os.Getuid() {
		return fmt.Errorf("%s can be written by others, so no program is run from it", path)
	}
	return nil
}
