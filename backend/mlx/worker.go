package mlx

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"runner/backend/child"
)

// worker has the files of the Python package worker.
//
//go:embed worker/*.py
var worker embed.FS

// Options are the settings of a worker that backend.Config does not have.
type Options struct {
	// Cache is this program's folder for files that can be made again. The worker's are in its folder mlx.
	Cache string
	// Memory is how many bytes MLX may use. 0 leaves the choice to the worker.
	Memory int64
}

// Start returns the program that runs a model's engine. It writes the worker's files if they are not there.
func Start(p *Python, f *Folder, o Options) (child.Program, error) {
	path, err := writeWorker(o.Cache)
	if err != nil {
		return child.Program{}, err
	}
	model, err := json.Marshal(map[string]any{"name": f.Name, "architecture": f.Architecture, "model_type": f.Type,
		"digest": f.Digest, "trained_context": f.TrainedContext, "width": f.Width, "bytes": f.Bytes})
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

// writeWorker writes the worker's package to a folder that only this user can write, and returns the package's path.
// The folder's name has the digest of the contents, so that programs with different workers do not overwrite each
// other's. The folder appears with all of its files at once. It stays as long as this process runs, which may start the
// worker again. When it is written, the folders that no process uses are removed.
func writeWorker(cache string) (string, error) {
	files, digest, err := workerFiles()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "mlx")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := checkOwn(dir); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "worker-"+digest)
	if err := hold(path + lockSuffix); err != nil {
		return "", err
	}
	if !isWhole(path, files) {
		if err := place(dir, path, files); err != nil {
			return "", err
		}
		removeUnused(dir)
	}
	return filepath.Join(path, "worker"), nil
}

// place writes a worker's files to path in the folder dir.
func place(dir, path string, files map[string][]byte) error {
	fresh, err := os.MkdirTemp(dir, "worker-*"+freshSuffix) // mode 0700
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh) // nothing is left of it after a success
	err = os.Mkdir(filepath.Join(fresh, "worker"), 0o700)
	for name, data := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(fresh, name), data, 0o600)
		}
	}
	if err != nil {
		return err
	}
	// The first try fails if there is a damaged folder, or a whole one of a program that was faster.
	if os.Rename(fresh, path) != nil && !isWhole(path, files) {
		if err := errors.Join(os.RemoveAll(path), os.Rename(fresh, path)); err != nil && !isWhole(path, files) {
			return err
		}
	}
	return nil
}

// workerFiles returns the worker's files by path, and a digest of all of them.
func workerFiles() (files map[string][]byte, digest string, err error) {
	names, err := fs.Glob(worker, "worker/*")
	if err != nil {
		return nil, "", err
	}
	files, sum := map[string][]byte{}, sha256.New()
	for _, name := range names { // in the order of their names
		b, err := worker.ReadFile(name)
		if err != nil {
			return nil, "", err
		}
		files[name] = b
		fmt.Fprintf(sum, "%s %d\n%s", name, len(b), b)
	}
	return files, hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// isWhole reports whether a folder has all files as they should be and others cannot write them.
func isWhole(path string, files map[string][]byte) bool {
	if checkOwn(path) != nil || checkOwn(filepath.Join(path, "worker")) != nil {
		return false
	}
	for name, data := range files {
		file := filepath.Join(path, name)
		if have, err := os.ReadFile(file); err != nil || !bytes.Equal(have, data) || checkOwn(file) != nil {
			return false
		}
	}
	return true
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
