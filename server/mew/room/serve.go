package room

import (
	"github.com/spf13/cobra"

	"runner/cmd/runner/cli"
	"runner/cmd/runner/flags"
	"runner/reasoning"
	"runner/server/mew"
	"runner/server/mew/space"
	"runner/server/wire"
)

// serving is the space of one command serve.
type serving struct {
	host *cli.Host
	// tokens is the file of the participants' tokens, or "" if no space is served.
	tokens, space string
	visibility    reasoning.Visibility
	// rationale makes the model give reasons for its calls in the space. trace keeps a trace of each of its runs.
	rationale, trace bool
	// rate and thoughts are the maximum numbers of messages and thoughts a second.
	rate, thoughts int
	// connections is the maximum number of connections of each participant.
	connections int
	// participants is set by check, from the file tokens.
	participants *mew.Tokens
}

func serve(h *cli.Host) cli.Serving {
	s := &serving{host: h}
	return cli.Serving{Flags: flags.Topic("MEW", s.flags()), Check: s.check, Formats: s.formats}
}

func (s *serving) flags() flags.Table {
	return flags.List(
		flags.Text("mew", &s.tokens, "serve a MEW space, in which the first model takes part, to the participants whose "+
			"tokens are in `FILE`; see runner mew token"),
		flags.List(
			flags.Text("mew-space", &s.space, "`NAME` of the space", flags.Usual("local")),
			cli.VisibilityFlag("mew-reasoning", &s.visibility, reasoning.VisibilityNone,
				"how much of its reasoning the model sends to the space"),
			flags.Switch("rationale", &s.rationale, "with --mew: ask the model for its reason for each call in the space"),
			s.traceFlag(),
			flags.Int("mew-rate", &s.rate, 20, 1, 100_000,
				"each participant may send `N` messages a second, and five times as many at once"),
			flags.Int("mew-connections", &s.connections, 4, 1, 100_000,
				"`N` connections of each participant may be open at once"),
			thoughtsFlag("mew-thoughts", &s.thoughts)).With(flags.Needs("mew")))
}

// traceFlag is the flag that records the model's runs, in a program that can record any.
func (s *serving) traceFlag() flags.Table {
	if !cli.Records() {
		return flags.List()
	}
	return flags.Switch("trace", &s.trace, "with --mew: keep a sealed trace of each of its runs in the space")
}

// thoughtsFlag is the flag that limits how many thoughts a model sends.
func thoughtsFlag(name string, n *int) flags.Table {
	return flags.Int(name, n, 5, 1, 100_000, "the model sends at most `N` thoughts a second, and four times as many at "+
		"once; those left out are counted")
}

func (s *serving) check(cmd *cobra.Command) (err error) {
	switch most := s.host.MaxReasoning; {
	case s.visibility > most:
		return cli.Usage("--mew-reasoning %s is more than --max-reasoning %s", s.visibility, most).
			Hint("lower the first or raise the second")
	case s.space == "":
		return cli.Usage("--mew-space is empty").Hint("give the space a name")
	case s.tokens != "":
		s.participants, err = mew.LoadTokens(s.tokens)
	case cmd.Flags().Changed("mew"):
		return cli.Usage("--mew is empty").Hint("give the file of tokens, or leave out the flag to serve no space")
	}
	s.host.Record = s.host.Record || s.trace
	warnReasons(s.host.App, s.rationale, s.trace, s.visibility, "--mew-reasoning")
	return err
}

func (s *serving) formats() ([]wire.Format, error) {
	if s.tokens == "" {
		return nil, nil
	}
	h, req := s.host, s.host.Defaults
	req.Visibility, req.Rationale = s.visibility, s.rationale
	cfg := mew.Config{Tokens: s.participants, Space: s.space, Request: req, Thoughts: float64(s.thoughts),
		Logger: h.Logger, Connections: s.connections, Slots: h.Slots,
		Limits: space.Config{Rate: float64(s.rate), Burst: 5 * float64(s.rate)}}
	if s.trace {
		cfg.Traces = h.Recorder
	}
	return []wire.Format{mew.New(h, cfg)}, nil
}

// warnReasons warns if the reasons that a space's model gives for its calls are neither shown nor kept.
func warnReasons(a *cli.App, asked, kept bool, v reasoning.Visibility, flag string) {
	if asked && !kept && v != reasoning.VisibilityFull {
		a.Complain("warning: --rationale shows reasons to the space only with " + flag + " full, and keeps them only with " +
			"--trace")
	}
}
