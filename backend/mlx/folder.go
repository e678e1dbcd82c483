package mlx

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"runner/backend"
	"runner/backend/safetensors"
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
		h, err := safetensors.Read(filepath.Join(string(at), file))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, file)
			continue
		case errors.As(err, new(*fs.PathError)):
			return err
		case errors.Is(err, io.ErrUnexpectedEOF):
			return at.Fail(backend.LoadTruncated, "%s %v", file, err)
		case err != nil:
			return at.Fail(backend.LoadCorrupt, "%s %v", file, err)
		}
		f.Bytes += h.Size
		sum.Write(h.Text)
		sum.Write(binary.LittleEndian.AppendUint64(nil, uint64(h.Size)))
	}
	if len(missing) > 0 {
		return at.Fail(backend.LoadMissing, "%d of %d files with weights are missing: %.200s", len(missing), len(files),
			strings.Join(missing, ", "))
	}
	f.Digest = hex.EncodeToString(sum.Sum(nil))
	return nil
}
