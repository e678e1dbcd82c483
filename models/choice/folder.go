package choice

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// folder chooses the files of a folder of safetensors at the root of the repository.
func folder(files []File, wanted string, memory int64) (Choice, error) {
	c := Choice{Format: Safetensors}
	var config, weights bool
	sharded := slices.ContainsFunc(files, func(f File) bool {
		return strings.HasPrefix(f.Path, "model") && strings.HasSuffix(f.Path, ".safetensors")
	})
	for _, f := range files {
		why := notOfFolder(f.Path, sharded)
		if why != "" {
			c.LeftOut = append(c.LeftOut, LeftOut{f, why})
			continue
		}
		c.Files = append(c.Files, f)
		c.Bytes += max(0, f.Size)
		config = config || f.Path == "config.json"
		weights = weights || strings.HasSuffix(f.Path, ".safetensors")
	}
	switch {
	case wanted != "" && !slices.ContainsFunc(c.Files, func(f File) bool { return f.Path == wanted }):
		return Choice{}, &Error{Detail: fmt.Sprintf("there is no GGUF file, so none matches %q", wanted),
			Advice: "leave out what follows the colon, or name a repository with GGUF files"}
	case !weights && slices.ContainsFunc(files, isOldWeights):
		return Choice{}, &Error{Detail: "the weights are in a format for training, neither GGUF nor safetensors",
			Advice: "look for a repository whose name ends in -GGUF"}
	case !weights:
		return Choice{}, &Error{Detail: "there is neither a GGUF file nor safetensors",
			Advice: "look for a repository whose name ends in -GGUF"}
	case !config:
		return Choice{}, &Error{Detail: "there are safetensors but no config.json, so it is not a whole model",
			Advice: "name the repository of the whole model; adapters and single tensors do not run"}
	}
	c.TooBig = memory > 0 && Need(c.Bytes) > memory
	return c, nil
}

func isOldWeights(f File) bool {
	switch path.Ext(f.Path) {
	case ".bin", ".pt", ".pth", ".h5", ".msgpack", ".ckpt", ".onnx":
		return true
	}
	return false
}

// notOfFolder says why a file is not part of a folder of safetensors. sharded reports that files called
// model*.safetensors hold the weights, so that others are copies or additions.
func notOfFolder(file string, sharded bool) string {
	ext := path.Ext(file)
	switch {
	case strings.Contains(file, "/"):
		return "in a folder of its own"
	case strings.HasPrefix(file, "."):
		return "hidden"
	case isOldWeights(File{Path: file}):
		return "weights in another format"
	case ext == ".safetensors" && strings.Contains(strings.ToLower(file), "adapter"):
		return "adapter"
	case ext == ".safetensors" && sharded && !strings.HasPrefix(file, "model"):
		return "weights in another layout"
	case ext == ".safetensors" || ext == ".json" || ext == ".jinja" || ext == ".model" || ext == ".tiktoken":
		return ""
	case file == "merges.txt" || file == "vocab.txt" || file == "chat_template.txt":
		return ""
	}
	return "not needed to run the model"
}
