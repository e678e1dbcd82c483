package cli

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"runner/backend"
	"runner/backend/remote/dialect"
	"runner/backend/remote/web"
	"runner/cmd/runner/flags"
	"runner/generation"
	"runner/generation/slots"
	"runner/reasoning"
	"runner/reasoning/seal"
	"runner/runner"
	"runner/server"
	"runner/server/wire"
)

// Room is a part of the program that can be left out: what it adds to the commands. The package of a room registers it,
// and only package rooms imports that package. Fields that a room does not need are empty.
type Room struct {
	// Name is the room's name. Rooms are in the order of their names, whatever the order in which they register.
	Name string
	// Commands returns commands of their own. The GroupID of each is its group in the help.
	Commands func(a *App) []*cobra.Command
	// Serve returns what is added to a command serve.
	Serve func(a *App) Serving
	// Kind is a kind of engine on other machines.
	Kind *Kind
	// Folders returns an engine for models in folders.
	Folders func(a *App) *Folders
}

// Kind is a kind of engine on other machines.
type Kind struct {
	// Name is its name in addresses, as in NAME+http://HOST:PORT.
	Name string
	// Turn says when an engine of unknown kind is asked whether it is of this one. That of turn 1 is the first.
	Turn int
	// New returns the engine that a client reaches. vocab is nil for one that only describes itself.
	New func(c *web.Client, vocab *backend.Vocab) *dialect.Engine
}

// Kinds lists the kinds of engine on other machines, by their turns.
func Kinds() (list []*Kind) {
	for _, r := range registered {
		if r.Kind != nil {
			list = append(list, r.Kind)
		}
	}
	slices.SortStableFunc(list, func(a, b *Kind) int { return cmp.Compare(a.Turn, b.Turn) })
	return list
}

// Serving is what a room adds to serve.
type Serving struct {
	// Flags are its flags, each in a topic.
	Flags flags.Table
	// Check refuses values of the flags before anything is opened. It may be nil.
	Check func(cmd *cobra.Command, h *Host) error
	// Mount adds formats to the server. It may be nil.
	Mount func(ctx context.Context, h *Host) error
}

// Host is the server of a command serve, to which rooms add formats.
type Host struct {
	// Defaults holds the defaults of requests.
	Defaults generation.Request
	// MaxReasoning is the most that a request may ask for.
	MaxReasoning reasoning.Visibility
	// KeyFile reports whether a file has the API keys.
	KeyFile bool

	// The rest is set when formats are mounted. The server exists, and nobody uses it yet.
	*server.Server
	// Files are the paths of the served models' files.
	Files []string
	// Seal seals reasoning for clients. StrictSeal refuses requests with sealed reasoning that does not open.
	Seal       *seal.Keyring
	StrictSeal bool
	// Traces keeps the traces that clients ask for; nil keeps none.
	Traces wire.Traces
	// Calls remembers the reasoning before tool calls.
	Calls *runner.CallMemory
	// Slots are those that requests share.
	Slots  *slots.Slots
	Logger *slog.Logger
}

// registered are the rooms of this program, by their names.
var registered []Room

// Register adds a room. It is called by the init function of the room's package.
func Register(r Room) {
	at, _ := slices.BinarySearchFunc(registered, r, func(a, b Room) int { return cmp.Compare(a.Name, b.Name) })
	registered = slices.Insert(registered, at, r)
}

// servings returns what the rooms add to a command serve.
func (a *App) servings() (list []Serving) {
	for _, r := range registered {
		if r.Serve != nil {
			list = append(list, r.Serve(a))
		}
	}
	return list
}
