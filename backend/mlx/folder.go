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
	"runner/backend/gguf"
	"runner/backend/tokenizer"
)

// Folder is what the files of a model say, without its weights.
type Folder struct {
	Path string
	// Name is the folder's name. Type is the model type of config.json, Architecture the same as GGUF names it.
	Name, Type, Architecture string
	// ChatTemplate is empty if the model has none.
	ChatTemplate string
	// TrainedContext and Width are 0 if config.json does not have them. Bytes is the size of the weights' files.
	TrainedContext, Width int
	Bytes                 int64
	// Digest identifies the weights: hexadecimal SHA-256 of config.json and the headers and sizes of the weights' files.
	Digest string
	Vocab  *backend.Vocab
	// Tokenizer has a shorter vocabulary than Vocab if the model's is padded.
	Tokenizer *tokenizer.Tokenizer
}

// Tokenize appends the tokens of plain text to dst.
func (f *Folder) Tokenize(dst []backend.Token, text string) ([]backend.Token, error) {
	return f.Tokenizer.Encode(dst, text)
}

// IsFolder reports whether a path looks like a model for MLX: a folder with config.json and weights as safetensors.
func IsFolder(path string) bool {
	if _, err := os.Stat(filepath.Join(path, "config.json")); err != nil {
		return false
	}
	if _, err := os.Stat(filepath.Join(path, indexName)); err == nil {
		return true
	}
	found, _ := fs.Glob(os.DirFS(path), "*.safetensors") // the pattern is valid
	return len(found) > 0
}

const (
	indexName = "model.safetensors.index.json"
	// maxJSON is the largest size of a JSON file and of a safetensors header, in bytes.
	maxJSON = 256 << 20
)

// settings are the parts of config.json that the runner needs. Models with vision have them in text_config.
type settings struct {
	Type           string    `json:"model_type"`
	Vocabulary     int       `json:"vocab_size"`
	Width          int       `json:"hidden_size"`
	TrainedContext int       `json:"max_position_embeddings"`
	EOS            ids       `json:"eos_token_id"`
	BOS            ids       `json:"bos_token_id"`
	Text           *settings `json:"text_config"`
	// ModelFile is a Python file in the folder that builds the model.
	ModelFile string `json:"model_file"`
}

// ids is a number, a list of numbers or null.
type ids []backend.Token

// UnmarshalJSON implements json.Unmarshaler.
func (l *ids) UnmarshalJSON(b []byte) error {
	var one *backend.Token
	if json.Unmarshal(b, &one) == nil {
		if *l = nil; one != nil {
			*l = ids{*one}
		}
		return nil
	}
	return json.Unmarshal(b, (*[]backend.Token)(l))
}

// name is a token's text, alone or in an object.
type name string

// UnmarshalJSON implements json.Unmarshaler.
func (n *name) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, (*string)(n)) == nil {
		return nil
	}
	var o struct{ Content string }
	if json.Unmarshal(b, &o) == nil { // else the token has no name
		*n = name(o.Content)
	}
	return nil
}

// textSettings are the parts of tokenizer_config.json that the runner needs.
type textSettings struct {
	BOS      name            `json:"bos_token"`
	EOS      name            `json:"eos_token"`
	AddBOS   bool            `json:"add_bos_token"`
	Template json.RawMessage `json:"chat_template"`
}

// ReadFolder reads the description, the vocabulary and the headers of a model's weights. The error is a
// *backend.LoadError.
func ReadFolder(path string) (*Folder, error) { return readFolder(path, true) }

// ReadText reads the vocabulary and the chat template of a folder that need not have weights. The error is a
// *backend.LoadError.
func ReadText(path string) (*Folder, error) { return readFolder(path, false) }

func readFolder(path string, weights bool) (*Folder, error) {
	f := &Folder{Path: path, Name: filepath.Base(filepath.Clean(path))}
	if abs, err := filepath.Abs(path); err == nil {
		f.Name = filepath.Base(abs)
	}
	var c settings
	if err := f.json("config.json", &c, weights); err != nil {
		return nil, err
	}
	if c.ModelFile != "" {
		return nil, &backend.LoadError{Path: path, Reason: backend.LoadFailed,
			Detail: fmt.Sprintf("config.json names a program, %q, that builds the model; a model's programs are not run",
				c.ModelFile),
			Advice: "choose a model whose type MLX knows"}
	}
	if c.Type == "" && weights {
		return nil, f.fail(backend.LoadCorrupt, "config.json has no model_type")
	}
	f.Type, f.Architecture = c.Type, architecture(c.Type)
	if c.Text != nil {
		t := *c.Text
		if len(t.EOS) == 0 {
			t.EOS = c.EOS
		}
		c = t
	}
	if c.Vocabulary < 0 || c.Vocabulary > 1<<24 || c.Width < 0 || c.TrainedContext < 0 {
		return nil, f.fail(backend.LoadCorrupt, "config.json has sizes that are not possible")
	}
	f.Width, f.TrainedContext = c.Width, min(c.TrainedContext, backend.MaxContextSize)
	if weights {
		if err := f.weights(); err != nil {
			return nil, err
		}
	}
	var g settings
	if err := f.json("generation_config.json", &g, false); err != nil {
		return nil, err
	}
	if len(g.EOS) > 0 {
		c.EOS = g.EOS
	}
	return f, f.text(&c)
}

// architecture returns GGUF's name for a model type.
func architecture(kind string) string {
	if a, ok := map[string]string{"gpt_oss": "gpt-oss", "qwen3_5": "qwen35", "qwen3_5_moe": "qwen35moe"}[kind]; ok {
		return a
	}
	return strings.ReplaceAll(kind, "_", "")
}

func (f *Folder) fail(reason backend.LoadFailure, format string, args ...any) error {
	return &backend.LoadError{Path: f.Path, Reason: reason, Detail: fmt.Sprintf(format, args...),
		Advice: "download or convert the model again"}
}

// read returns a file's contents. They are nil if the file is missing and is not required.
func (f *Folder) read(name string, required bool) (b []byte, err error) {
	file, err := os.Open(filepath.Join(f.Path, name))
	if err == nil {
		defer file.Close()
		b, err = io.ReadAll(io.LimitReader(file, maxJSON+1))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && !required:
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, f.fail(backend.LoadMissing, "%s is missing", name)
	case err != nil:
		return nil, f.fail(backend.LoadMissing, "%s cannot be read: %v", name, err)
	case len(b) > maxJSON:
		return nil, f.fail(backend.LoadMissing, "%s cannot be read: more than %d bytes", name, maxJSON)
	}
	return b, nil
}

// json reads a JSON file. One that is not required may be missing.
func (f *Folder) json(name string, into any, required bool) error {
	b, err := f.read(name, required)
	if b == nil || err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return f.fail(backend.LoadCorrupt, "%s is damaged: %v", name, err)
	}
	return nil
}

// text reads the vocabulary, the tokenizer and the template.
func (f *Folder) text(c *settings) error {
	var t textSettings
	if err := f.json("tokenizer_config.json", &t, false); err != nil {
		return err
	}
	data, err := f.read("tokenizer.json", true)
	if err != nil {
		return err
	}
	f.Tokenizer, err = tokenizer.FromJSON(data, tokenizer.Ends{BOS: string(t.BOS), EOS: string(t.EOS), AddBOS: t.AddBOS})
	var unknown *tokenizer.Error
	if errors.As(err, &unknown) && unknown.Kind != tokenizer.ErrVocabulary {
		return &backend.LoadError{Path: f.Path, Reason: backend.LoadFailed, Err: err,
			Detail: "its tokenizer is not supported: " + err.Error(), Advice: "use a GGUF file of this model"}
	} else if err != nil {
		return f.fail(backend.LoadCorrupt, "tokenizer.json is damaged: %v", err)
	}
	if f.Vocab, err = padded(f.Tokenizer.Vocab(), c, t.AddBOS); err != nil {
		return f.fail(backend.LoadCorrupt, "%v", err)
	}
	return f.template(t.Template)
}

// padded returns the vocabulary with as many tokens as the model has logits, and with the ends that config.json names.
func padded(v *backend.Vocab, c *settings, addBOS bool) (*backend.Vocab, error) {
	p := v.Config(max(v.Len(), c.Vocabulary))
	p.EOG, p.AddBOS = append(p.EOG, c.EOS...), addBOS
	if p.EOS == backend.NoToken && len(c.EOS) > 0 {
		p.EOS = c.EOS[0]
	}
	return backend.NewVocab(p)
}

// template reads the chat template, which has a file of its own or is in tokenizer_config.json: as a text, or as a
// list of templates with names.
func (f *Folder) template(inConfig json.RawMessage) error {
	b, err := f.read("chat_template.jinja", false)
	if err != nil {
		return err
	}
	if b != nil {
		f.ChatTemplate = string(b)
	} else if len(inConfig) > 0 && json.Unmarshal(inConfig, &f.ChatTemplate) != nil {
		var named []struct{ Name, Template string }
		if err := json.Unmarshal(inConfig, &named); err != nil {
			return f.fail(backend.LoadCorrupt, "the chat template of tokenizer_config.json is damaged: %v", err)
		}
		for _, t := range named {
			if f.ChatTemplate == "" || t.Name == "default" {
				f.ChatTemplate = t.Template
			}
		}
	}
	if len(f.ChatTemplate) > gguf.MaxString { // as in a GGUF file; what reads templates has limits of its own
		return f.fail(backend.LoadFailed, "the chat template has %d bytes, more than %d", len(f.ChatTemplate),
			gguf.MaxString)
	}
	return nil
}

// weights checks that the files of the weights are there and whole, and sets Bytes and Digest.
func (f *Folder) weights() error {
	var index struct {
		Files map[string]string `json:"weight_map"`
	}
	if err := f.json(indexName, &index, false); err != nil {
		return err
	}
	var files []string
	for _, file := range index.Files {
		if filepath.Base(file) != file {
			return f.fail(backend.LoadCorrupt, "%s names a file in another folder", indexName)
		}
		files = append(files, file)
	}
	if len(files) == 0 { // as mlx-lm looks for them
		files, _ = fs.Glob(os.DirFS(f.Path), "model*.safetensors") // the pattern is valid
	}
	slices.Sort(files)
	files = slices.Compact(files)
	if len(files) == 0 {
		return f.fail(backend.LoadMissing, "there is no model*.safetensors")
	}
	sum := sha256.New()
	b, err := f.read("config.json", true)
	if err != nil {
		return err
	}
	sum.Write(b)
	var missing []string
	for _, file := range files {
		header, size, err := f.header(file)
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
		return f.fail(backend.LoadMissing, "%d of %d files with weights are missing: %.200s", len(missing), len(files),
			strings.Join(missing, ", "))
	}
	f.Digest = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// header returns the header of a safetensors file and the size of the file. It checks that all tensors are in the file.
func (f *Folder) header(name string) (header []byte, size int64, err error) {
	file, err := os.Open(filepath.Join(f.Path, name))
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
		return nil, 0, f.fail(backend.LoadTruncated, "%s ends in its first bytes", name)
	}
	n := binary.LittleEndian.Uint64(first[:])
	if n > maxJSON {
		return nil, 0, f.fail(backend.LoadCorrupt, "%s is not a safetensors file", name)
	}
	if int64(n) > stat.Size()-8 {
		return nil, 0, f.fail(backend.LoadTruncated, "%s ends in its header", name)
	}
	header = make([]byte, n)
	if _, err := io.ReadFull(file, header); err != nil {
		return nil, 0, f.fail(backend.LoadTruncated, "%s ends in its header", name)
	}
	var tensors map[string]struct {
		Offsets [2]int64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(bytes.TrimRight(header, " "), &tensors); err != nil {
		return nil, 0, f.fail(backend.LoadCorrupt, "the header of %s is damaged: %v", name, err)
	}
	end := int64(0)
	for tensor, t := range tensors {
		if t.Offsets[0] < 0 || t.Offsets[1] < t.Offsets[0] {
			return nil, 0, f.fail(backend.LoadCorrupt, "%s has no possible place for %.80q", name, tensor)
		}
		end = max(end, t.Offsets[1])
	}
	if whole := 8 + int64(n) + end; stat.Size() < whole {
		return nil, 0, f.fail(backend.LoadTruncated, "%s ends after %d of %d bytes", name, stat.Size(), whole)
	}
	return header, stat.Size(), nil
}
