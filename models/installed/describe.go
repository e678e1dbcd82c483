package installed

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"runner/backend/gguf"
	"runner/hint"
	"runner/models/catalog"
	"runner/models/peek"
	"runner/models/roofline"
)

// maxSmall limits the files of other programs that are read whole, in bytes.
const maxSmall = 4 << 20

// ollamaArchitecture is the architecture in Ollama's own files of gpt-oss. Everybody else writes gpt-oss.
const ollamaArchitecture = "gptoss"

// Check returns an error if one of a model's files is something that is taken for weights by mistake, and nil if not.
func Check(m *catalog.Entry) *peek.Error {
	for _, p := range m.Parts() {
		bad := (*peek.Error)(nil)
		switch {
		case m.Format == catalog.GGUF:
			bad = peek.Check(p)
		case filepath.Ext(p) == ".safetensors":
			bad = peek.CheckSafetensors(p)
		}
		if bad != nil {
			return bad
		}
	}
	return nil
}

// Describe reads the header of a GGUF model or the configuration of a folder, and fills in the architecture, the
// number of parameters, the bytes that a token reads, the context, the quantization if the name did not say it, and
// what is wrong.
// It reads no weights.
func Describe(m *catalog.Entry) {
	if m.Problem != "" {
		return
	}
	if bad := Check(m); bad != nil {
		m.Problem = filepath.Base(bad.Path) + " " + bad.Detail
		return
	}
	if m.Format == catalog.Safetensors {
		describeFolder(m)
		return
	}
	var headers []*gguf.File
	for i, p := range m.Parts() {
		f, err := gguf.Open(p)
		if err != nil {
			m.Problem = filepath.Base(p) + " cannot be used: " + hint.Reason(err).Error()
			return
		}
		headers = append(headers, f)
		m.Parameters += f.Parameters()
		if i > 0 {
			continue
		}
		if m.Architecture = f.Architecture(); m.Architecture == ollamaArchitecture {
			m.Problem = "it is in a layout of Ollama's own, which llama.cpp does not read"
			return
		}
		m.Quant = cmp.Or(m.Quant, f.FileType())
		m.Context, _ = f.Int(m.Architecture + ".context_length")
	}
	m.PerToken = roofline.GGUF(headers)
}

func describeFolder(m *catalog.Entry) {
	type context struct {
		Trained int64 `json:"max_position_embeddings"`
	}
	var config struct {
		context
		Text         context         `json:"text_config"` // of a model that also sees or hears
		ModelType    string          `json:"model_type"`
		Quantization json.RawMessage `json:"quantization"`
	}
	if err := readJSON(filepath.Join(m.Dir, "config.json"), &config); err != nil {
		m.Problem = "config.json cannot be read: " + hint.Reason(err).Error()
		return
	}
	weights := slices.DeleteFunc(m.Parts(), func(p string) bool { return filepath.Ext(p) != ".safetensors" })
	m.PerToken, _ = roofline.Safetensors(weights, expertsOf(m.Dir)) // the engine reports what is damaged
	m.Architecture, m.Context = config.ModelType, cmp.Or(config.Trained, config.Text.Trained)
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
