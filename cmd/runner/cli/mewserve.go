package cli

import (
	"log/slog"

	"github.com/spf13/cobra"

	"runner/generation/slots"
	"runner/reasoning"
	"runner/server"
	"runner/server/mew"
	"runner/server/mew/space"
)

// mewServeOptions are the flags of serve for its MEW space.
type mewServeOptions struct {
	on            bool
	tokens, space string
	visibility    reasoning.Visibility
	// rationale makes the model give reasons for its calls in the space. trace keeps a trace of each of its runs.
	rationale, trace bool
	// rate and thoughts are the maximum numbers of messages and thoughts a second.
	rate, thoughts int
	// connections is the maximum number of connections of each participant.
	connections int
	// participants is set by load, from the file tokens.
	participants *mew.Tokens
}

func (o *mewServeOptions) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.on, "mew", false, "serve a MEW space, in which the first model takes part; see runner mew")
	f.StringVar(&o.tokens, "mew-tokens", "", "`FILE` of the participants' tokens; see runner mew token")
	f.StringVar(&o.space, "mew-space", "local", "`NAME` of the space")
	addChoice(cmd, &o.visibility, "mew-reasoning", "how much of its reasoning the model sends to the space",
		visibilityNames, visibilities)
	f.BoolVar(&o.rationale, "rationale", false, "with --mew: ask the model for its reason for each call in the space")
	f.BoolVar(&o.trace, "trace", false, "with --mew: keep a sealed trace of each of its runs in the space")
	f.IntVar(&o.rate, "mew-rate", 20, "each participant may send `N` messages a second, and five times as many at once")
	f.IntVar(&o.connections, "mew-connections", 4, "`N` connections of each participant may be open at once")
	addThoughts(cmd, &o.thoughts, "mew-thoughts")
}

// addThoughts adds the flag that limits how many thoughts a model sends.
func addThoughts(cmd *cobra.Command, n *int, flag string) {
	cmd.Flags().IntVar(n, flag, 5, "the model sends at most `N` thoughts a second, and four times as many at once; "+
		"those left out are counted")
}

// validate refuses flags that do not go together.
func (o *mewServeOptions) validate(cmd *cobra.Command) error {
	if o.on && o.tokens == "" {
		return &usageError{what: "--mew needs --mew-tokens", hint: "make the file with runner mew token FILE ID"}
	}
	if err := checkNumbers([]number{
		{"mew-rate", o.rate, 1, 100_000}, {"mew-connections", o.connections, 1, 100_000},
		{"mew-thoughts", o.thoughts, 1, 100_000},
	}); err != nil {
		return err
	}
	for _, flag := range []string{
		"mew-tokens", "mew-space", "mew-reasoning", "rationale", "trace", "mew-rate", "mew-connections", "mew-thoughts",
	} {
		if !o.on && cmd.Flags().Changed(flag) {
			return &usageError{what: "--" + flag + " is for --mew", hint: "add --mew"}
		}
	}
	if o.space == "" {
		return &usageError{what: "--mew-space is empty", hint: "give the space a name"}
	}
	return nil
}

// load reads the file of tokens if a space is served.
func (o *mewServeOptions) load() (err error) {
	if o.on {
		o.participants, err = mew.LoadTokens(o.tokens)
	}
	return err
}

// mountMEW adds the MEW space to a server if --mew is set. Its traces are stored in kept.
func mountMEW(s *server.Server, o *serveOptions, kept *keptTraces, shared *slots.Slots, log *slog.Logger) {
	if o.mew.on {
		req := o.defaults
		req.Visibility, req.Rationale = o.mew.visibility, o.mew.rationale
		s.Mount(mew.New(s, mew.Config{
			Traces: kept.recorder(o.mew.trace),
			Tokens: o.mew.participants, Space: o.mew.space, Request: req, Thoughts: float64(o.mew.thoughts), Logger: log,
			Connections: o.mew.connections, Slots: shared,
			Limits: space.Config{Rate: float64(o.mew.rate), Burst: 5 * float64(o.mew.rate)},
		}))
	}
}
