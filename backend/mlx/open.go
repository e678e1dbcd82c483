package mlx

import (
	"context"
	"log/slog"

	"runner/backend"
	"runner/backend/child"
)

// Engine runs models with MLX.
type Engine struct {
	// Python is the interpreter, from Find.
	Python *Python
	// Memory is how many bytes MLX may use. 0 leaves the choice to the worker.
	Memory int64
	// Version is the version of this program.
	Version string
	// Log reports crashes and restarts; nil reports none.
	Log *slog.Logger
}

// Open loads the model in a folder. Its errors are those of ReadFolder and of the worker, each a *backend.LoadError
// where the model is to blame.
func (e Engine) Open(ctx context.Context, path string, cfg backend.Config) (*child.Model, error) {
	f, err := ReadFolder(path)
	if err != nil {
		return nil, err
	}
	p, err := Start(e.Python, f, e.Memory)
	if err != nil {
		return nil, err
	}
	return e.run(ctx, p, f, cfg)
}

// run opens a folder with a program that Start returned.
func (e Engine) run(ctx context.Context, p child.Program, f *Folder, cfg backend.Config) (*child.Model, error) {
	text := &child.Text{Vocab: f.Vocab, Tokenize: f.Tokenize, ChatTemplate: f.ChatTemplate}
	return child.Engine{Program: p, Version: e.Version, Memory: e.Memory, Log: e.Log,
		Text: func(string) (*child.Text, error) { return text, nil }}.Open(ctx, f.Path, cfg)
}
