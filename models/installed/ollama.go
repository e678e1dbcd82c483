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

	"runner/models/catalog"
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
func ollama() []catalog.Entry {
	var models []catalog.Entry
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

func ollamaIn(dir string) []catalog.Entry {
	manifests := filepath.Join(dir, "manifests")
	var models []catalog.Entry
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
func ollamaModel(dir, manifest string) (catalog.Entry, bool) {
	var content struct {
		Config ollamaLayer   `json:"config"`
		Layers []ollamaLayer `json:"layers"`
	}
	if err := readJSON(manifest, &content); err != nil {
		return catalog.Entry{}, false
	}
	m := catalog.Entry{Place: catalog.Ollama, Format: catalog.GGUF, Dir: filepath.Join(dir, "blobs")}
	var weights ollamaLayer
	others := ""
	for _, l := range content.Layers {
		kind := strings.TrimPrefix(l.MediaType, ollamaMedia)
		switch {
		case kind == "model" && weights.Digest == "":
			weights = l
		case harmless[kind]:
		case kind == "model":
			others = "a second file of weights"
		default:
			others = "a layer of the kind " + clean(kind)
		}
	}
	var err error
	if m.Path, err = ollamaBlob(weights.Digest); err != nil {
		return catalog.Entry{}, false
	}
	file := catalog.File{Path: m.Path}
	info, err := os.Lstat(m.At())
	if err == nil && info.Mode().IsRegular() {
		file.Size = info.Size()
	}
	switch {
	case err != nil:
		m.Problem = "Ollama has no bytes for it"
	case !info.Mode().IsRegular():
		m.Problem = "its blob is not a regular file"
	case info.Size() != weights.Size:
		m.Problem = fmt.Sprintf("its blob has %d of %d bytes", info.Size(), weights.Size)
	case others != "":
		m.Problem = "it is more than one GGUF file: there is " + others
	}
	m.Files = []catalog.File{file}
	if m.Problem == "" {
		var config struct {
			Format string `json:"model_format"`
			Quant  string `json:"file_type"`
		}
		// The name of the quantization is a courtesy. The header has it too.
		blob, err := ollamaBlob(content.Config.Digest)
		blob = filepath.Join(m.Dir, blob)
		if err == nil && isRegular(blob) && readJSON(blob, &config) == nil {
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

// ollamaBlob returns the name of a blob in the folder of the blobs.
func ollamaBlob(name string) (string, error) {
	m := digest.FindStringSubmatch(name)
	if m == nil {
		return "", errDigest
	}
	return "sha256-" + m[1], nil
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
