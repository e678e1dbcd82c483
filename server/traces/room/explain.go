package room

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"runner/cmd/runner/cli"
	"runner/cmd/runner/flags"
	"runner/cmd/runner/render"
	"runner/reasoning/decision"
	"runner/reasoning/trace"
	"runner/runner/tracing"
)

func (a *commands) explain() *cobra.Command {
	var asJSON, markdown bool
	o := &traceOptions{}
	return cli.Command(&cobra.Command{
		Use:   "explain RUN|FILE|latest",
		Short: "Explain a run from its trace",
		Long: `Explain a run from its trace: what it did, why, what it assumed and what ended it.

RUN is the id of a sealed trace, which run --trace prints. latest is the newest sealed trace that has ended. Both need
the keyring's passphrase. FILE is a trace that run --output decisions or Reactive Agents wrote; - is standard input.

A trace has the model's reasons only if the run was asked for them (--rationale). A FILE has them only if the run
showed its reasoning (--reasoning full). Reasons that the model did not state are counted, and none are made up.`,
		Example: `  runner run --trace --tools tools.json --rationale "What is 17 + 25?"
  runner trace explain latest
  runner run --output decisions -r full "What is 17 + 25?" > trace.jsonl
  runner trace explain trace.jsonl`,
		Args: cli.Exactly(1, "name one trace", ""),

		ValidArgsFunction: o.completeTraces(1, latest),
		RunE: func(cmd *cobra.Command, args []string) error {
			write := func(debriefs ...*decision.Debrief) error {
				return writeDebriefs(a.Stdout(), debriefs, asJSON, markdown)
			}
			if isStored(args[0]) {
				return a.openTrace(cmd, o, args[0], func(r *trace.Reader) error {
					var events []decision.Event
					err := tracing.Replay(r, func(e decision.Event) { events = append(events, e) })
					if len(events) > 0 {
						err = errors.Join(write(decision.New(events)), err)
					}
					return err
				})
			}
			text, err := a.ReadFile("", args[0])
			if errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(args[0], "run_") {
				return cli.Input("there is neither a trace nor a file %s", args[0]).From(err).
					Hint("name a stored run by its trace's id, which runner trace list shows, or latest")
			}
			if err != nil {
				return err
			}
			debriefs, err := decision.Read(strings.NewReader(text), func(first error, lines int) {
				a.Complain(fmt.Sprintf("warning: %s skipped; %v", cli.Count(lines, "line was", "lines were"), first))
			})
			if err != nil {
				return err
			}
			return write(debriefs...)
		},
	}, o.flags(), flags.OneOf(cli.JSONFlag(&asJSON, "write one JSON object for each run"),
		flags.Switch("markdown", &markdown, "write Markdown")))
}

func writeDebriefs(to io.Writer, debriefs []*decision.Debrief, asJSON, markdown bool) error {
	enc := render.Indented(to)
	for i, d := range debriefs {
		if i > 0 && !asJSON {
			fmt.Fprintln(to)
		}
		write := d.WriteText
		switch {
		case asJSON:
			write = func(io.Writer) error { return enc.Encode(d) }
		case markdown:
			write = d.WriteMarkdown
		}
		if err := write(to); err != nil {
			return err
		}
	}
	return nil
}
