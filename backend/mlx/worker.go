package mlx

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"

	"runner/backend/child"
)

// worker has the files of the Python package worker, and boot the program that runs it.
//
//go:embed worker/*.py boot.py
var worker embed.FS

// Start returns the program that runs a model's engine. memory is as in Engine.
func Start(p *Python, f *Folder, memory int64) (child.Program, error) {
	text, err := program()
	if err != nil {
		return child.Program{}, err
	}
	model, err := json.Marshal(map[string]any{"name": f.Name, "architecture": f.Architecture, "model_type": f.Type,
		"digest": f.Digest, "trained_context": f.TrainedContext, "width": f.Width, "bytes": f.Bytes})
	if err != nil {
		return child.Program{}, err
	}
	require, err := json.Marshal(map[string]string{"mlx": versionMLX, "mlx-lm": versionMLXLM})
	if err != nil {
		return child.Program{}, err
	}
	// -I keeps Python from the working folder, the user's packages and PYTHON variables.
	return child.Program{Path: p.Path, Input: text, Args: []string{"-I", "-", "--vocabulary", strconv.Itoa(f.Vocab.Len()),
		"--memory", strconv.FormatInt(memory, 10), "--require", string(require), "--model", string(model)}}, nil
}

// program returns the text that Python reads from its standard input: the worker's modules by name, and boot.py.
var program = sync.OnceValues(func() ([]byte, error) {
	sources := map[string]string{}
	names, err := fs.Glob(worker, "worker/*.py")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := worker.ReadFile(name)
		if err != nil {
			return nil, err
		}
		module := "worker." + strings.TrimSuffix(path.Base(name), ".py")
		sources[strings.TrimSuffix(module, ".__init__")] = string(text)
	}
	boot, err := worker.ReadFile("boot.py")
	if err != nil {
		return nil, err
	}
	dictionary, err := json.Marshal(sources) // Python reads it as its own
	return fmt.Appendf(nil, "SOURCES = %s\n%s", dictionary, boot), err
})
