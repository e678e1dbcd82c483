package installed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"runner/models/choice"
)

// ollamaDirs returns the folders in which Ollama keeps models: OLLAMA_MODELS, else that of the user and, on Linux,
// that of the service.
func ollamaDirs() []string {
	if dir := strings.Trim(strings.TrimSpace(os.Getenv("OLLAMA_MODELS")), `"'`); dir != "" {
		return []string{dir}
	}
	var dirs []string
	if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, filepath.Join(home, ".ollama", "models"))
	}
	if runtime.GOOS == "linux" {
		dirs = append(dirs, "/usr/share/ollama/.ollama/models")
	}
	return dirs
}

// ollama finds the models that Ollama downloaded. A manifest lies at manifests/HOST/NAMESPACE/MODEL/TAG and names
// blobs, which lie at blobs/sha256-HEX (ollama's packages manifest and types/model).
func ollama() []Model {
	var models []Model
	for _, dir := range ollamaDirs() {
		models = append(models, ollamaIn(dir)...)
	}
	return models
}

// What Ollama allows in the parts of a name. Only a host may have a colon.
var (
	ollamaHost = regexp.MustCompile(`^\w[\w.:-]{0,349}$`)
	ollamaPart = regexp.MustCompile(`^\w[\w.-]{0,79}$`)
	digest     = regexp.MustCompile(`^sha256[:-]([0-9a-f]{64})$`)
)

// The host and the namespace that Ollama does not show.
const (
	ollamaRegistry = "registry.ollama.ai"
	ollamaLibrary  = "library"
)

func ollamaIn(dir string) []Model {
	manifests := filepath.Join(dir, "manifests")
	var models []Model
	_ = filepath.WalkDir(manifests, func(p string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(manifests, p)
		if unreadable := err != nil || relErr != nil; unreadable {
			return nil // it is left out
		}
		parts := strings.Split(filepath.ToSlash(rel), "/")
		for i, part := range parts {
			form := ollamaPart
			if i == 0 {
				form = ollamaHost
			}
			if part != "." && (!form.MatchString(part) || len(parts) > 4) {
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
		}
		if len(parts) != 4 || !d.Type().IsRegular() {
			return nil
		}
		if m, ok := ollamaModel(dir, p); ok {
			m.Name = ollamaName(parts)
			if parts[0] == "hf.co" || parts[0] == "huggingface.co" {
				m.Repo = parts[1] + "/" + parts[2]
			}
			models = append(models, m)
		}
		return nil
	})
	return models
}

// ollamaName returns the name as Ollama shows it.
func ollamaName(parts []string) string {
	shown := parts[2] + ":" + parts[3]
	switch {
	case parts[0] != ollamaRegistry:
		return parts[0] + "/" + parts[1] + "/" + shown
	case parts[1] != ollamaLibrary:
		return parts[1] + "/" + shown
	}
	return shown
}

type ollamaLayer struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

const ollamaMedia = "application/vnd.ollama.image."

// harmless are the layers that a GGUF file does not need.
var harmless = map[string]bool{"template": true, "system": true, "params": true, "license": true, "messages": true,
	"prompt": true}

// ollamaModel reads a manifest. It reports false if that is damaged or has no model, for instance one that runs
// elsewhere. A model that is not one plain GGUF file has a problem.
func ollamaModel(dir, manifest string) (Model, bool) {
	var content struct {
		Config ollamaLayer   `json:"config"`
		Layers []ollamaLayer `json:"layers"`
	}
	if err := readJSON(manifest, &content); err != nil {
		return Model{}, false
	}
	m := Model{Place: Ollama, Format: choice.GGUF}
	others := ""
	for _, l := range content.Layers {
		kind := strings.TrimPrefix(l.MediaType, ollamaMedia)
		switch {
		case kind == "model" && m.Path == "":
			m.Path, m.Bytes = l.Digest, l.Size
		case harmless[kind]:
		case kind == "model":
			others = "a second file of weights"
		default:
			others = "a layer of the kind " + clean(kind)
		}
	}
	if m.Path == "" {
		return Model{}, false
	}
	blob, err := ollamaBlob(dir, m.Path)
	if err != nil {
		return Model{}, false
	}
	expected := m.Bytes
	m.Path, m.Parts, m.Bytes = blob, []string{blob}, 0
	info, err := os.Lstat(blob)
	switch {
	case err != nil:
		m.Problem = "Ollama has no bytes for it"
	case !info.Mode().IsRegular():
		m.Problem = "its blob is not a regular file"
	case info.Size() != expected:
		m.Problem = fmt.Sprintf("its blob has %d of %d bytes", info.Size(), expected)
		m.Bytes = info.Size()
	case others != "":
		m.Problem = "it is more than one GGUF file: there is " + others
		m.Bytes = info.Size()
	default:
		m.Bytes = info.Size()
	}
	if m.Problem == "" {
		var config struct {
			Format string `json:"model_format"`
			Quant  string `json:"file_type"`
		}
		// The name of the quantization is a courtesy. The header has it too.
		if blob, err := ollamaBlob(dir, content.Config.Digest); err == nil && isRegular(blob) &&
			readJSON(blob, &config) == nil {
			if m.Quant = clean(config.Quant); m.Quant == "unknown" {
				m.Quant = ""
			}
			if config.Format != "" && config.Format != "gguf" {
				m.Problem = "its format is " + clean(config.Format) + ", not GGUF"
			}
		}
	}
	return m, true
}

var errDigest = errors.New("not a digest")

// ollamaBlob returns the path of a blob, which is in the folder of the blobs.
func ollamaBlob(dir, name string) (string, error) {
	m := digest.FindStringSubmatch(name)
	if m == nil {
		return "", errDigest
	}
	return filepath.Join(dir, "blobs", "sha256-"+m[1]), nil
}

func isRegular(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// clean makes a word of another program's file fit for a message.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
	return s[:min(len(s), 40)]
}
