package cli

import (
	"cmp"
	"slices"

	"github.com/spf13/cobra"

	"runner/backend"
	"runner/backend/remote/dialect"
	"runner/backend/remote/web"
	"runner/cmd/runner/flags"
	"runner/cmd/runner/render"
	"runner/generation"
	"runner/generation/slots"
	"runner/reasoning"
	"runner/runner"
	"runner/server"
	"runner/server/wire"
)

// Room is a part of the program that can be left out: what it adds to the commands. The package of a room registers it,
// and only package rooms imports that package. Fields that a room does not need are empty.
type Room struct {
	// Name is the room's name. Rooms are in the order of their names, whatever the order in which they register.
	Name string
	// Arguments returns the arguments of the program, with spellings replaced that the parser of flags does not know.
	Arguments func(args []string) []string
	// Commands returns commands of their own. The GroupID of each is its group in the help.
	Commands func(a *App) []*cobra.Command
	// Serve returns what is added to a command serve. Clients names whose clients can use its formats, as in "OpenAI".
	Serve   func(h *Host) Serving
	Clients string
	// Ask returns what is added to a command that asks a model for what q says, such as run.
	Ask func(a *App, q *generation.Request) Asking
	// Record returns what records the runs of a command, and its flags.
	Record func(a *App, what Recorded) (Recorder, flags.Table)
	// Output is a format of the option --output of run.
	Output *Output
	// Loop carries out requests in several turns.
	Loop generation.Loop
	// Kind is a kind of engine on other machines.
	Kind *Kind
	// Folders returns the engine for models in folders, of which a program has one.
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

// Asking is what a room adds to a command that asks a model.
type Asking struct {
	// Flags are its flags, each in a topic.
	Flags flags.Table
	// Read reads the files that the flags name.
	Read func() error
}

// Serving is what a room adds to serve.
type Serving struct {
	// Flags are its flags, each in a topic.
	Flags flags.Table
	// Check refuses values of the flags before anything is opened. It may be nil.
	Check func(cmd *cobra.Command) error
	// Uses are lines that say how the formats are used. $URL stands for the address of the server, $MODEL for the name of
	// a model, and $KEY for the option of curl that sends a key.
	Uses []string
	// Formats returns formats for the server. It may be nil.
	Formats func() ([]wire.Format, error)
}

// Host is a command serve, to which rooms add.
type Host struct {
	App *App

	// The flags set these. They have their values when Check is called.

	// Config is that of the formats. Flags set its Defaults; the rest is set before Formats is called.
	wire.Config
	// MaxReasoning is the most that a request may ask for.
	MaxReasoning reasoning.Visibility
	// KeyFile is the file with the API keys; empty if there is none.
	KeyFile string
	// Record is set by Check if runs of the room are recorded, by Recorder.
	Record   bool
	Recorder Recorder
	// Granted are the scopes that flags of rooms grant, see [wire.Permission].
	Granted []wire.Scope

	// The rest is set when Formats is called. The server exists, and nobody uses it yet.

	*server.Server
	// Files are the paths of the served models' files.
	Files []string
	// Calls remembers the reasoning before tool calls.
	Calls *runner.CallMemory
	// Slots are those that requests share.
	Slots *slots.Slots
}

// Output is a format of --output.
type Output struct {
	Name string
	// Lines says what each line is, as in "AG-UI events".
	Lines string
	// Phases says that the format shows events about the phases of a run.
	Phases bool
	// New returns the renderer of a run.
	New func(s render.Streams, q Asked) render.Renderer
}

// Asked is what some outputs need besides a run's events.
type Asked struct {
	// Run is the id of the run.
	Run, Model, Prompt string
	// Interrupted reports, for a run that ended early, whether it was interrupted.
	Interrupted func() bool
}

// registered are the rooms of this program, by their names.
var registered []Room

// Register adds a room. It is called by the init function of the room's package.
func Register(r Room) {
	at, _ := slices.BinarySearchFunc(registered, r, func(a, b Room) int { return cmp.Compare(a.Name, b.Name) })
	registered = slices.Insert(registered, at, r)
}

// clients lists whose clients the rooms serve.
func clients() string {
	var list []string
	for _, r := range registered {
		if r.Clients != "" {
			list = append(list, r.Clients)
		}
	}
	return enumerated(list)
}

// loops lists the loops of the rooms.
func loops() (list []generation.Loop) {
	for _, r := range registered {
		if r.Loop != nil {
			list = append(list, r.Loop)
		}
	}
	return list
}

// addRooms adds what the rooms have for a command that asks a model.
func (o *runOptions) addRooms(a *App, recorded Recorded) {
	o.record, o.traceFlags = a.recorder(recorded)
	for _, r := range registered {
		if r.Ask != nil {
			asking := r.Ask(a, &o.request)
			o.rooms, o.roomFlags = append(o.rooms, asking), append(o.roomFlags, asking.Flags)
		}
	}
}

// addRooms adds what the rooms have for a command serve.
func (o *serveOptions) addRooms() {
	o.Recorder, o.traceFlags = o.App.recorder(Recorded{Asked: true,
		Usage: "keep sealed traces of the runs whose requests ask for it (reasoning_encrypt)"})
	for _, r := range registered {
		if r.Serve != nil {
			serving := r.Serve(&o.Host)
			o.rooms, o.roomFlags = append(o.rooms, serving), append(o.roomFlags, serving.Flags)
		}
	}
}
