package installed

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"runner/backend/gguf"
	"runner/models/choice"
	"runner/models/peek"
	"runner/models/roofline"
)

// maxSmall limits the files of other programs that are read whole, in bytes.
const maxSmall = 4 << 20

// ollamaArchitecture is the architecture in Ollama's own files of gpt-oss. Everybody else writes gpt-oss.
const ollamaArchitecture = "gptoss"

// Describe reads the header of a GGUF model or the configuration of a folder, and fills in the architecture, the
// number of parameters, the bytes that a token reads, the quantization if the name did not say it, and what is wrong.
// It reads no weights.
func (m *Model) Describe() {
	if m.Problem != "" {
		return
	}
	if m.Format == choice.Safetensors {
		m.describeFolder()
		return
	}
	var headers []*gguf.File
	for _, p := range m.Parts {
		if m.Problem = notWeights(p, peek.Check(p)); m.Problem != "" {
			return
		}
		f, err := gguf.Open(p)
		if err != nil {
			m.Problem = filepath.Base(p) + " cannot be used: " + reason(err)
			return
		}
		headers = append(headers, f)
		m.Parameters += f.Parameters()
		if p != m.Path {
			continue
		}
		if m.Architecture = f.Architecture(); m.Architecture == ollamaArchitecture {
			m.Problem = "it is in a layout of Ollama's own, which llama.cpp does not read"
			return
		}
		if m.Quant == "" {
			m.Quant = f.FileType()
		}
	}
	m.PerToken = roofline.GGUF(headers)
}

// notWeights returns what is wrong with a file by an error of package peek.
func notWeights(path string, err error) string {
	if e := (*peek.Error)(nil); errors.As(err, &e) {
		return filepath.Base(path) + " " + e.Detail
	}
	return ""
}

// reason returns the system's or the reader's reason without the path.
func reason(err error) string {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return e.Err.Error()
	}
	return err.Error()
}

func (m *Model) describeFolder() {
	var config struct {
		ModelType    string          `json:"model_type"`
		Quantization json.RawMessage `json:"quantization"`
	}
	if err := readJSON(filepath.Join(m.Path, "config.json"), &config); err != nil {
		m.Problem = "config.json cannot be read: " + reason(err)
		return
	}
	var weights []string
	for _, p := range m.Parts {
		if filepath.Ext(p) != ".safetensors" {
			continue
		}
		if m.Problem = notWeights(p, peek.CheckSafetensors(p)); m.Problem != "" {
			return
		}
		weights = append(weights, p)
	}
	m.PerToken, _ = roofline.Safetensors(weights, expertsOf(m.Path)) // the engine reports what is damaged
	m.Architecture = config.ModelType
	var quant struct {
		Bits int    `json:"bits"`
		Mode string `json:"mode"`
	}
	if json.Unmarshal(config.Quantization, &quant) == nil && quant.Bits > 0 {
		m.Quant = fmt.Sprintf("%d-bit", quant.Bits)
		if quant.Mode != "" && quant.Mode != "affine" {
			m.Quant = quant.Mode
		}
	}
}

// expertsOf returns how many experts the configuration in a folder says work on a token. A configuration that says it
// in another form says nothing.
func expertsOf(folder string) roofline.Share {
	type experts struct {
		Local   int64 `json:"num_local_experts"`
		Number  int64 `json:"num_experts"`
		Routed  int64 `json:"n_routed_experts"`
		Used    int64 `json:"num_experts_per_tok"`
		UsedToo int64 `json:"experts_per_token"`
	}
	var config struct {
		experts
		Text experts `json:"text_config"` // of a model that also sees or hears
	}
	if err := readJSON(filepath.Join(folder, "config.json"), &config); err != nil {
		return roofline.Share{}
	}
	e := config.experts
	if e == (experts{}) {
		e = config.Text
	}
	return roofline.Share{Used: cmp.Or(e.Used, e.UsedToo), All: cmp.Or(e.Local, e.Number, e.Routed)}
}

// readJSON reads a small regular file. It follows links.
func readJSON(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, errors.New("not a regular file"))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if err != nil {
		return err
	}
	if len(text) > maxSmall {
		return fmt.Errorf("longer than %d bytes", maxSmall)
	}
	return json.Unmarshal(text, v)
}

// partMissing is the problem of a split model that lacks a part.
func partMissing(part, count int, file string) string {
	return fmt.Sprintf("part %d of %d is missing (%s)", part, count, path.Base(file))
}
