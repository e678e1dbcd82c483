// Package folder reads how the model in a folder writes: its vocabulary, tokenizer and chat template. The folder is as
// on the Hugging Face hub, with tokenizer.json and often config.json. It need not have weights.
package folder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"runner/backend"
	"runner/backend/gguf"
	"runner/backend/tokenizer"
)

// Folder is what the files of a model say, without its weights.
type Folder struct {
	Path string
	// Name is the folder's name. Type is the model type of config.json, Architecture the same as GGUF names it. Both are
	// empty if config.json does not have it.
	Name, Type, Architecture string
	// ChatTemplate is empty if the model has none.
	ChatTemplate string
	// TrainedContext and Width are 0 if config.json does not have them.
	TrainedContext, Width int
	Vocab                 *backend.Vocab
	// Tokenizer has a shorter vocabulary than Vocab if the model's is padded.
	Tokenizer *tokenizer.Tokenizer
}

// Tokenize appends the tokens of plain text to dst.
func (f *Folder) Tokenize(dst []backend.Token, text string) ([]backend.Token, error) {
	return f.Tokenizer.Encode(dst, text)
}

// Files is the path of a folder whose files are read. The errors of its methods are *backend.LoadErrors.
type Files string

// MaxJSON is the largest size of a file that is read, in bytes.
const MaxJSON = 256 << 20

// settings are the parts of config.json that the runner needs. Models with vision have them in text_config.
type settings struct {
	Type           string    `json:"model_type"`
	Vocabulary     int       `json:"vocab_size"`
	Width          int       `json:"hidden_size"`
	TrainedContext int       `json:"max_position_embeddings"`
	EOS            ids       `json:"eos_token_id"`
	BOS            ids       `json:"bos_token_id"`
	Text           *settings `json:"text_config"`
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

// Read reads a folder. Only tokenizer.json must be there. The error is a *backend.LoadError.
func Read(path string) (*Folder, error) {
	files, f := Files(path), &Folder{Path: path, Name: filepath.Base(filepath.Clean(path))}
	if abs, err := filepath.Abs(path); err == nil {
		f.Name = filepath.Base(abs)
	}
	var c settings
	if err := files.JSON("config.json", &c, false); err != nil {
		return nil, err
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
		return nil, files.Fail(backend.LoadCorrupt, "config.json has sizes that are not possible")
	}
	f.Width, f.TrainedContext = c.Width, min(c.TrainedContext, backend.MaxContextSize)
	var g settings
	if err := files.JSON("generation_config.json", &g, false); err != nil {
		return nil, err
	}
	if len(g.EOS) > 0 {
		c.EOS = g.EOS
	}
	return f, f.text(files, &c)
}

// architecture returns GGUF's name for a model type.
func architecture(kind string) string {
	if a, ok := map[string]string{"gpt_oss": "gpt-oss", "qwen3_5": "qwen35", "qwen3_5_moe": "qwen35moe"}[kind]; ok {
		return a
	}
	return strings.ReplaceAll(kind, "_", "")
}

// Fail returns an error about the folder.
func (l Files) Fail(reason backend.LoadFailure, format string, args ...any) error {
	return &backend.LoadError{Path: string(l), Reason: reason, Detail: fmt.Sprintf(format, args...),
		Advice: "download or convert the model again"}
}

// Read returns a file's contents. They are nil if the file is missing and is not required.
func (l Files) Read(name string, required bool) (b []byte, err error) {
	file, err := os.Open(filepath.Join(string(l), name))
	if err == nil {
		defer file.Close()
		b, err = io.ReadAll(io.LimitReader(file, MaxJSON+1))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && !required:
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, l.Fail(backend.LoadMissing, "%s is missing", name)
	case err != nil:
		return nil, l.Fail(backend.LoadMissing, "%s cannot be read: %v", name, err)
	case len(b) > MaxJSON:
		return nil, l.Fail(backend.LoadMissing, "%s cannot be read: more than %d bytes", name, MaxJSON)
	}
	return b, nil
}

// JSON reads a JSON file. One that is not required may be missing.
func (l Files) JSON(name string, into any, required bool) error {
	b, err := l.Read(name, required)
	if b == nil || err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return l.Fail(backend.LoadCorrupt, "%s is damaged: %v", name, err)
	}
	return nil
}

// text reads the vocabulary, the tokenizer and the template.
func (f *Folder) text(files Files, c *settings) error {
	var t textSettings
	if err := files.JSON("tokenizer_config.json", &t, false); err != nil {
		return err
	}
	data, err := files.Read("tokenizer.json", true)
	if err != nil {
		return err
	}
	f.Tokenizer, err = tokenizer.FromJSON(data, tokenizer.Ends{BOS: string(t.BOS), EOS: string(t.EOS), AddBOS: t.AddBOS})
	var unknown *tokenizer.Error
	if errors.As(err, &unknown) && unknown.Kind != tokenizer.ErrVocabulary {
		return &backend.LoadError{Path: string(files), Reason: backend.LoadFailed, Err: err,
			Detail: "its tokenizer is not supported: " + err.Error(), Advice: "use a GGUF file of this model"}
	} else if err != nil {
		return files.Fail(backend.LoadCorrupt, "tokenizer.json is damaged: %v", err)
	}
	if f.Vocab, err = padded(f.Tokenizer.Vocab(), c, t.AddBOS); err != nil {
		return files.Fail(backend.LoadCorrupt, "%v", err)
	}
	return f.template(files, t.Template)
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
func (f *Folder) template(files Files, inConfig json.RawMessage) error {
	b, err := files.Read("chat_template.jinja", false)
	if err != nil {
		return err
	}
	if b != nil {
		f.ChatTemplate = string(b)
	} else if len(inConfig) > 0 && json.Unmarshal(inConfig, &f.ChatTemplate) != nil {
		var named []struct{ Name, Template string }
		if err := json.Unmarshal(inConfig, &named); err != nil {
			return files.Fail(backend.LoadCorrupt, "the chat template of tokenizer_config.json is damaged: %v", err)
		}
		for _, t := range named {
			if f.ChatTemplate == "" || t.Name == "default" {
				f.ChatTemplate = t.Template
			}
		}
	}
	if len(f.ChatTemplate) > gguf.MaxString { // as in a GGUF file; what reads templates has limits of its own
		return files.Fail(backend.LoadFailed, "the chat template has %d bytes, more than %d", len(f.ChatTemplate),
			gguf.MaxString)
	}
	return nil
}
