package cli

import (
	"log/slog"

	"runner/cmd/runner/flags"
	"runner/generation/slots"
	"runner/reasoning"
	"runner/server"
	"runner/server/mew"
	"runner/server/mew/space"
)

// mewServeOptions are the flags of serve for its MEW space.
type mewServeOptions struct {
	// tokens is the file of the participants' tokens, or "" if no space is served.
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

func (o *mewServeOptions) flags() flags.Table {
	return flags.List(
		flags.Text("mew", &o.tokens, "", "serve a MEW space, in which the first model takes part, to the participants whose "+
			"tokens are in `FILE`; see runner mew token"),
		flags.List(
			flags.Text("mew-space", &o.space, "local", "`NAME` of the space"),
			flags.Choice("mew-reasoning", &o.visibility, reasoning.VisibilityNone, visibilityNames, visibilities,
				"how much of its reasoning the model sends to the space"),
			flags.Switch("rationale", &o.rationale, "with --mew: ask the model for its reason for each call in the space"),
			flags.Switch("trace", &o.trace, "with --mew: keep a sealed trace of each of its runs in the space"),
			flags.Int("mew-rate", &o.rate, 20, 1, 100_000,
				"each participant may send `N` messages a second, and five times as many at once"),
			flags.Int("mew-connections", &o.connections, 4, 1, 100_000,
				"`N` connections of each participant may be open at once"),
			thoughtsFlag("mew-thoughts", &o.thoughts)).With(flags.Needs("mew")))
}

// thoughtsFlag is the flag that limits how many thoughts a model sends.
func thoughtsFlag(name string, n *int) flags.Table {
	return flags.Int(name, n, 5, 1, 100_000, "the model sends at most `N` thoughts a second, and four times as many at "+
		"once; those left out are counted")
}

// load reads the file of tokens if a space is served.
func (o *mewServeOptions) load() (err error) {
	if o.tokens != "" {
		o.participants, err = mew.LoadTokens(o.tokens)
	}
	return err
}

// mountMEW adds the MEW space to a server if --mew is set. Its traces are stored in kept.
func mountMEW(s *server.Server, o *serveOptions, kept *keptTraces, shared *slots.Slots, log *slog.Logger) {
	if o.mew.tokens != "" {
		req := o.Defaults
		req.Visibility, req.Rationale = o.mew.visibility, o.mew.rationale
		s.Mount(mew.New(s, mew.Config{
			Traces: kept.recorder(o.mew.trace),
			Tokens: o.mew.participants, Space: o.mew.space, Request: req, Thoughts: float64(o.mew.thoughts), Logger: log,
			Connections: o.mew.connections, Slots: shared,
			Limits: space.Config{Rate: float64(o.mew.rate), Burst: 5 * float64(o.mew.rate)},
		}))
	}
}
