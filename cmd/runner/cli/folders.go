package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"runner/backend"
	"runner/models"
)

// Folders is an engine for models in folders with safetensors. It always has a process of its own.
type Folders struct {
	// Name is its name. The commands use it in lower case.
	Name string
	// Variable is the variable of the environment that says where it is.
	Variable string
	// Check reads all but the weights of a model and returns what is wrong with it.
	Check func(path string) error
	// Open loads a model. memory is the most memory that the engine may take, in bytes, or 0. Crashes are reported to log,
	// which may be nil.
	Open func(ctx context.Context, path string, cfg backend.Config, memory int64, log *slog.Logger) (backend.Model, error)
	// Describe starts the engine and says what it is.
	Describe func(ctx context.Context) EngineFact
	// SetUp is the command that installs it.
	SetUp *cobra.Command
}

// Folders returns the engine for models in folders. It has no name if the program has none.
func (a *App) Folders() Folders {
	if a.folders == nil {
		return Folders{}
	}
	return *a.folders
}

// folderEngine returns the engine for the folder at path.
func (a *App) folderEngine(path string) (*Folders, error) {
	switch {
	case a.folders == nil:
		return nil, &backend.LoadError{Path: path, Reason: backend.LoadFailed,
			Detail: "no engine here runs a model in a folder", Advice: "use a GGUF file of this model"}
	case a.isolation.When == IsolateOff:
		return nil, Usage("--isolate cannot be off for a folder with safetensors").
			Hint("%s, which runs it, always has a process of its own", a.folders.Name)
	}
	return a.folders, nil
}

// choose returns the folder of the libraries that run a model, or "", as [Engine.Choose] does. given is the
// one for GGUF files.
func (a *App) choose(ctx context.Context, m models.Model, given string, warn func(string)) (string, error) {
	if m.IsFile() {
		return a.engine.Choose(ctx, m.Path, given, warn)
	}
	if m.Source == models.Address {
		return "", nil // it says what is wrong when it is opened
	}
	f, err := a.folderEngine(m.Path)
	if err != nil {
		return "", err
	}
	return "", f.Check(m.Path)
}

// system lists what the engine for a model finds on the machine.
func (a *App) system(ctx context.Context, m models.Model) []Fact {
	if m.Source != models.Folder {
		return a.engine.System(ctx, a.isolation.Folder)
	}
	f, err := a.folderEngine(m.Path)
	if err != nil {
		return []Fact{{Name: "engine start", Problem: errorLine(err)}}
	}
	is := f.Describe(ctx)
	if is.Problem != "" {
		return []Fact{{Name: "engine start", Problem: is.Problem}}
	}
	list := []Fact{{Name: "engine", Value: fmt.Sprintf("%s %s in %s", is.Name, is.Version, is.Where)}}
	return append(append(list, a.engine.Machine()...), Fact{Name: "device", Value: strings.Join(is.Devices, ", ")})
}
