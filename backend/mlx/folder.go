package mlx

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"runner/backend"
	"runner/backend/tokenizer/folder"
)

// Folder is what the files of a model say, without its weights.
type Folder struct {
	*folder.Folder
	// Bytes is the size of the weights' files.
	Bytes int64
	// Digest identifies the weights: hexadecimal SHA-256 of config.json and the headers and sizes of the weights' files.
	Digest string
}

const indexName = "model.safetensors.index.json"

// ReadFolder reads the description, the vocabulary and the headers of a model's weights. The error is a
// *backend.LoadError.
func ReadFolder(path string) (*Folder, error) {
	files, f := folder.Files(path), &Folder{}
	var c struct {
		Type string `json:"model_type"`
		// Program is a Python file in the folder that builds the model.
		Program string `json:"model_file"`
	}
	if err := files.JSON("config.json", &c, true); err != nil {
		return nil, err
	}
	if c.Program != "" {
		return nil, &backend.LoadError{Path: path, Reason: backend.LoadFailed,
			Detail: fmt.Sprintf("config.json names a program, %q, that builds the model; a model's programs are not run",
				c.Program),
			Advice: "choose a model whose type MLX knows"}
	}
	if c.Type == "" {
		return nil, files.Fail(backend.LoadCorrupt, "config.json has no model_type")
	}
	err := f.weights(files)
	if err == nil {
		f.Folder, err = folder.Read(path)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// weights checks that the files of the weights are there and whole, and sets Bytes and Digest.
func (f *Folder) weights(at folder.Files) error {
	var index struct {
		Files map[string]string `json:"weight_map"`
	}
	if err := at.JSON(indexName, &index, false); err != nil {
		return err
	}
	var files []string
	for _, file := range index.Files {
		if filepath.Base(file) != file {
			return at.Fail(backend.LoadCorrupt, "%s names a file in another folder", indexName)
		}
		files = append(files, file)
	}
	if len(files) == 0 { // as mlx-lm looks for them
		files, _ = fs.Glob(os.DirFS(string(at)), "model*.safetensors") // the pattern is valid
	}
	slices.Sort(files)
	files = slices.Compact(files)
	if len(files) == 0 {
		return at.Fail(backend.LoadMissing, "there is no model*.safetensors")
	}
	sum := sha256.New()
	b, err := at.Read("config.json", true)
	if err != nil {
		return err
	}
	sum.Write(b)
	var missing []string
	for _, file := range files {
		header, size, err := header(at, file)
		if errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, file)
			continue
		} else if err != nil {
			return err
		}
		f.Bytes += size
		sum.Write(header)
		sum.Write(binary.LittleEndian.AppendUint64(nil, uint64(size)))
	}
	if len(missing) > 0 {
		return at.Fail(backend.LoadMissing, "%d of %d files with weights are missing: %.200s", len(missing), len(files),
			strings.Join(missing, ", "))
	}
	f.Digest = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// header returns the header of a safetensors file and the size of the file. It checks that all tensors are in the file.
func header(at folder.Files, name string) (header []byte, size int64, err error) {
	file, err := os.Open(filepath.Join(string(at), name))
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	stat, err := file.Stat()
	if err != nil {
		return nil, 0, err
	}
	var first [8]byte
	if _, err := io.ReadFull(file, first[:]); err != nil {
		return nil, 0, at.Fail(backend.LoadTruncated, "%s ends in its first bytes", name)
	}
	n := binary.LittleEndian.Uint64(first[:])
	if n > folder.MaxJSON {
		return nil, 0, at.Fail(backend.LoadCorrupt, "%s is not a safetensors file", name)
	}
	if int64(n) > stat.Size()-8 {
		return nil, 0, at.Fail(backend.LoadTruncated, "%s ends in its header", name)
	}
	header = make([]byte, n)
	if _, err := io.ReadFull(file, header); err != nil {
		return nil, 0, at.Fail(backend.LoadTruncated, "%s ends in its header", name)
	}
	var tensors map[string]struct {
		Offsets [2]int64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(bytes.TrimRight(header, " "), &tensors); err != nil {
		return nil, 0, at.Fail(backend.LoadCorrupt, "the header of %s is damaged: %v", name, err)
	}
	end := int64(0)
	for tensor, t := range tensors {
		if t.Offsets[0] < 0 || t.Offsets[1] < t.Offsets[0] {
			return nil, 0, at.Fail(backend.LoadCorrupt, "%s has no possible place for %.80q", name, tensor)
		}
		end = max(end, t.Offsets[1])
	}
	if whole := 8 + int64(n) + end; stat.Size() < whole {
		return nil, 0, at.Fail(backend.LoadTruncated, "%s ends after %d of %d bytes", name, stat.Size(), whole)
	}
	return header, stat.Size(), nil
}
