package cli

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"math"

	"github.com/spf13/cobra"

	"runner/cmd/runner/flags"
	"runner/generation"
	"runner/models"
	"runner/reasoning"
	"runner/runner"
)

// Session is a command of a room that runs one model until it is stopped: its flags, its model and the traces of its
// runs.
type Session struct {
	app     *App
	options runOptions
	cfg     runner.Config
	model   models.Model
	gen     generator
	// Logger is the session's from [Session.Check] on.
	Logger *slog.Logger
}

// NewSession returns a session whose flags have not been set yet. trace says which runs are recorded.
func (a *App) NewSession(trace string) *Session {
	s := &Session{app: a}
	s.options.addRooms(a, Recorded{Usage: trace})
	return s
}

// Tools is the flag that names a file of functions.
func (s *Session) Tools(usage string) flags.Table {
	return flags.Text("tools", &s.options.tools, usage)
}

// Flags are the other flags.
func (s *Session) Flags() flags.Table {
	o := &s.options
	return flags.List(
		systemFlag(&o.system),
		o.reasoningFlags(),
		rationaleFlag(&o.request.Rationale),
		flags.Int("max-tokens", &o.request.MaxTokens, 0, 0, math.MaxInt,
			"generate at most `N` tokens in a turn, reasoning included (0: what fits into the context)", flags.Short("n")),
		flags.List(o.roomFlags...),
		flags.Topic("Sampling", samplingFlags(&o.request.Sampling), flags.Seed("seed", &o.seed,
			"seed `N` of every turn (default: random)", flags.Short("s"))),
		flags.Topic("Loading the model", modelFlags(&o.model), draftsFlag(&o.drafts), o.isolation.flags(),
			templateFlag(&o.chatTemplate)),
		flags.Topic("Traces", o.traceFlags),
		flags.Switch("verbose", &o.verbose, "log more", flags.Short("v")),
	).Showing("max-tokens", "temperature", "seed", "verbose")
}

// Check refuses flags that no model supports, reads the files that flags name, and finds the model that the argument
// names. Nothing is opened.
func (s *Session) Check(cmd *cobra.Command, args []string) (err error) {
	o := &s.options
	if err := o.validate(cmd); err != nil {
		return err
	}
	if err := s.app.Isolate(o.isolation); err != nil {
		return err
	}
	if s.model, err = s.app.resolve(cmd.Context(), append(args, models.DemoName)[0]); err != nil {
		return err
	}
	s.cfg, err = s.app.readRequestFiles(o)
	s.Logger = s.app.Logger(logText, o.verbose)
	s.cfg.CallMemory, s.cfg.Logger = runner.NewCallMemory(ownCalls, callAge), s.Logger
	return err
}

// Request is what the flags ask for.
func (s *Session) Request() generation.Request { return s.options.request }

// Records reports whether the runs are recorded.
func (s *Session) Records() bool { return s.options.record.On() }

// Open loads the model. The caller closes the session.
func (s *Session) Open(ctx context.Context) (err error) {
	if s.app.traced = s.Records(); s.app.traced {
		if err := s.options.record.Open(s.Logger, false); err != nil {
			return err
		}
	}
	at, err := s.app.place(ctx, s.model)
	if err == nil {
		s.gen, _, err = s.app.open(ctx, at, s.options.model, s.cfg, s.app.Spinner())
	}
	if err != nil {
		err = errors.Join(err, s.options.record.Close())
	}
	return err
}

// Generate asks the model.
func (s *Session) Generate(ctx context.Context, q generation.Request,
	o generation.Observer) iter.Seq2[reasoning.Event, error] {
	return s.gen.Generate(ctx, q, o)
}

// Observe returns the observer of a run, which records it if runs are recorded. of names what the run answers.
func (s *Session) Observe(of string) generation.Observer {
	return s.options.observer(of)
}

// Close unloads the model and closes the store of traces. Call it when all runs have ended.
func (s *Session) Close() error { return errors.Join(s.gen.Close(), s.options.record.Close()) }
