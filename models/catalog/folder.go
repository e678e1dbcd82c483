package catalog

import (
	"path"
	"slices"
	"strings"
)

// Folder returns the model that the root of a repository is, if it has safetensors. Every error is an [*Error].
func Folder(files []File) (Entry, error) {
	e := Entry{Format: Safetensors, Path: "."}
	var config, weights bool
	sharded := slices.ContainsFunc(files, func(f File) bool {
		return strings.HasPrefix(f.Path, "model") && strings.HasSuffix(f.Path, ".safetensors")
	})
	for _, f := range sorted(files) {
		if !isOfFolder(f.Path, sharded) {
			continue
		}
		e.Files = append(e.Files, f)
		config = config || f.Path == "config.json"
		weights = weights || strings.HasSuffix(f.Path, ".safetensors")
	}
	switch {
	case !weights && slices.ContainsFunc(files, isOldWeights):
		return Entry{}, &Error{Detail: "the weights are in a format for training, neither GGUF nor safetensors",
			Advice: "look for a repository whose name ends in -GGUF"}
	case !weights:
		return Entry{}, &Error{Detail: "there is neither a GGUF file nor safetensors",
			Advice: "look for a repository whose name ends in -GGUF"}
	case !config:
		return Entry{}, &Error{Detail: "there are safetensors but no config.json, so it is not a whole model",
			Advice: "name the repository of the whole model; adapters and single tensors do not run"}
	}
	return e, nil
}

func isOldWeights(f File) bool {
	switch path.Ext(f.Path) {
	case ".bin", ".pt", ".pth", ".h5", ".msgpack", ".ckpt", ".onnx":
		return true
	}
	return false
}

// isOfFolder reports whether a file is part of a folder of safetensors. sharded reports that files called
// model*.safetensors hold the weights, so that others are copies or additions. Hidden files and those in other folders
// are no part.
func isOfFolder(file string, sharded bool) bool {
	if strings.Contains(file, "/") || strings.HasPrefix(file, ".") {
		return false
	}
	switch path.Ext(file) {
	case ".safetensors":
		return !strings.Contains(strings.ToLower(file), "adapter") && (!sharded || strings.HasPrefix(file, "model"))
	case ".json", ".jinja", ".model", ".tiktoken":
		return true
	}
	return file == "merges.txt" || file == "vocab.txt" || file == "chat_template.txt"
}
