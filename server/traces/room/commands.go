package room

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"runner/cmd/runner/cli"
	"runner/cmd/runner/flags"
	"runner/cmd/runner/render"
	"runner/reasoning/trace"
	"runner/reasoning/trace/store"
)

// traceOptions are the flags of the trace commands.
type traceOptions struct {
	dir  string
	keys cli.KeyringFlags
}

func (o *traceOptions) storeFlag() flags.Table {
	return flags.Text("store", &o.dir, "`FOLDER` of the traces (default: in the data folder)")
}

// flags are the flags for traces that are opened.
func (o *traceOptions) flags() flags.Table { return flags.List(o.storeFlag(), o.keys.Flags()) }

// unsigned is the warning about a store whose signatures cannot be checked.
const unsigned = "warning: sign.pub is missing, so nothing proves that these traces are the store's own; restore it"

// errNoStore says that there is no store yet.
var errNoStore = errors.New("no store")

// attempts is how often a read is tried if another process writes to the store.
const attempts = 3

// read opens the store for reading and calls f. f must not print anything, because it is called again if another
// process wrote to the store.
func (o *traceOptions) read(f func(r *store.Reader) error) (err error) {
	for range attempts {
		if err = o.readOnce(f); !errors.Is(err, store.ErrBusy) {
			break
		}
	}
	return err
}

// readOnce opens the store for reading and calls f once.
func (o *traceOptions) readOnce(f func(r *store.Reader) error) error {
	return within(o.dir, store.Read, f)
}

// write opens the store for writing and calls f.
func (o *traceOptions) write(f func(s *store.Store) error) error {
	return within(o.dir, func(dir string) (*store.Store, error) { return store.Open(dir, store.Config{}) }, f)
}

// within opens the store in a folder, or in the default folder, calls f and closes the store.
func within[S io.Closer](folder string, open func(dir string) (S, error), f func(S) error) error {
	dir, err := tracesFolder(folder)
	if err != nil {
		return err
	}
	s, err := open(dir)
	if err != nil {
		return missingStore(dir, err)
	}
	return errors.Join(f(s), s.Close())
}

// missingStore returns the error of a store that could not be opened.
func missingStore(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return cli.Input("there are no traces in %s", dir).From(errNoStore).Hint("name their folder with --store")
	}
	return err
}

// commands makes the commands for traces.
type commands struct{ *cli.App }

// trace is the command that has the others. The program adds the one for keys.
func (a *commands) trace() *cobra.Command {
	cmd := cli.Group("trace", "List, read, explain, check and erase sealed traces", "",
		a.explain(), a.list(), a.show(), a.export(), a.verify(), a.erase())
	cmd.GroupID = "traces"
	return cmd
}

// completeTraces completes the first n arguments with the ids of stored traces, and with more words.
func (o *traceOptions) completeTraces(n int, more ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveDefault
		}
		var words []string
		// Without a store there are no ids to offer, and a completion reports no errors.
		_ = o.read(func(r *store.Reader) error {
			list, err := r.List(cmd.Context())
			words = nil
			for _, e := range slices.Backward(list) {
				words = append(words, e.ID.String())
			}
			return err
		})
		return append(slices.Clone(more), words...), cobra.ShellCompDirectiveKeepOrder
	}
}

func (a *commands) list() *cobra.Command {
	o := &traceOptions{}
	var asJSON bool
	return cli.Command(&cobra.Command{
		Use:   "list",
		Short: "List the traces, the oldest first, and what may be known of them without a key",
		Long: `List the traces, the oldest first, with what is known about them without a key.

A trace is unattested if nothing proves that this store wrote it: it was altered, or there is no sign.pub.`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list []store.Entry
			signed := false
			err := o.read(func(r *store.Reader) (err error) {
				signed = r.Signed()
				list, err = r.List(cmd.Context())
				return err
			})
			if errors.Is(err, errNoStore) {
				a.Note("nothing was recorded yet: " + err.Error())
				return nil
			}
			if err != nil {
				return err
			}
			if !signed {
				a.Complain(unsigned)
			}
			if asJSON {
				return render.Lines(a.Stdout(), list)
			}
			w := cli.Table(a.Stdout())
			for _, e := range list {
				fmt.Fprintf(w, "%s\t%s\t%s\t%d bytes\t%s\n", e.ID, e.Began.Format(time.RFC3339), stateOf(&e), e.Size,
					e.Principal)
			}
			return w.Flush()
		},
	}, o.storeFlag(), cli.JSONFlag(&asJSON, "one JSON object a line"))
}

func stateOf(e *store.Entry) string {
	if e.Unattested {
		return e.State.String() + " (unattested)"
	}
	return e.State.String()
}

// latest stands in place of an id for the newest trace that has ended.
const latest = "latest"

// idOrLatest checks that the first argument, if there is one, is an id or latest.
func idOrLatest(_ *cobra.Command, args []string) error {
	if len(args) == 0 || args[0] == latest {
		return nil
	}
	_, err := parseTraceIDs(args[:1])
	return err
}

func parseTraceIDs(args []string) (ids []trace.ID, err error) {
	for _, arg := range args {
		id, err := trace.ParseID(arg)
		if err != nil {
			return nil, cli.Usage("%q is not a trace's id", arg).From(err).Hint("see runner trace list")
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func (a *commands) show() *cobra.Command {
	o := &traceOptions{}
	return cli.Command(&cobra.Command{
		Use:   "show ID|latest",
		Short: "Open a trace and print its records, one JSON object a line",
		Long: `Open a trace and print its records, one JSON object a line. latest is the newest that has ended.

If the end of a trace is missing or altered, the records before it are printed and the exit code is 1.`,
		Args: cobra.MatchAll(cli.Exactly(1, "one id is needed, or "+latest, ""), idOrLatest),

		ValidArgsFunction: o.completeTraces(1, latest),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.writeRecords(cmd, o, args[0], a.Stdout())
		},
	}, o.flags())
}

// writeRecords writes the records of a trace to w.
func (a *commands) writeRecords(cmd *cobra.Command, o *traceOptions, arg string, w io.Writer) error {
	return a.openTrace(cmd, o, arg, func(r *trace.Reader) error {
		for {
			record, err := r.Next()
			if errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if _, err := w.Write(append(record, '\n')); err != nil {
				return err
			}
		}
	})
}

// isStored reports whether an argument means a trace in a store.
func isStored(arg string) bool {
	_, err := trace.ParseID(arg)
	return err == nil || arg == latest
}

// find finds the trace that an argument means.
func find(ctx context.Context, r *store.Reader, arg string) (store.Entry, error) {
	if id, err := trace.ParseID(arg); err == nil {
		return r.Get(ctx, id)
	}
	list, err := r.List(ctx)
	if err != nil {
		return store.Entry{}, err
	}
	for _, e := range slices.Backward(list) {
		if e.State == store.StateComplete || e.State == store.StateCut {
			return e, nil
		}
	}
	return store.Entry{}, store.ErrNotFound
}

// blob opens the sealed bytes of a trace. It warns if nothing proves that the store wrote them.
func (a *commands) blob(ctx context.Context, r *store.Reader, arg string) (trace.ID, io.Reader, error) {
	e, err := find(ctx, r, arg)
	if err != nil {
		return e.ID, nil, err
	}
	blob, err := r.Blob(ctx, e.ID)
	switch {
	case err != nil:
	case !r.Signed():
		a.Complain(unsigned)
	case e.Unattested:
		a.Complain("warning: nothing proves that this trace is the store's own; see runner trace list --help")
	}
	return e.ID, blob, err
}

// openTrace unseals the trace that an argument means and calls read.
func (a *commands) openTrace(cmd *cobra.Command, o *traceOptions, arg string, read func(*trace.Reader) error) error {
	ring, err := o.keys.Load()
	if err != nil {
		return err
	}
	return o.readOnce(func(s *store.Reader) error {
		id, blob, err := a.blob(cmd.Context(), s, arg)
		if err != nil {
			return err
		}
		phrase, err := a.Passphrase(&o.keys, false)
		if err != nil {
			return err
		}
		identities, err := ring.Unlock(phrase)
		if err != nil {
			return err
		}
		r, err := trace.NewReader(blob, identities...)
		if err != nil {
			return err
		}
		if r.Header().ID != id {
			return trace.ErrTampered // it is another trace
		}
		return read(r)
	})
}

func (a *commands) export() *cobra.Command {
	o := &traceOptions{}
	var plaintext bool
	return cli.Command(&cobra.Command{
		Use:   "export ID|latest FILE",
		Short: "Write a trace to a new file, sealed as it is or, with --plaintext, readable by everyone who gets the file",
		Args:  cobra.MatchAll(cli.Exactly(2, "an id, or "+latest+", and a file are needed", ""), idOrLatest),

		ValidArgsFunction: o.completeTraces(1, latest),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			f, err := os.OpenFile(args[1], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return cli.Input("the file cannot be made: %v", err).From(err).Hint("name a file that is not there yet")
			}
			defer func() {
				if err = errors.Join(err, f.Close()); err != nil && !errors.Is(err, trace.ErrTruncated) {
					err = errors.Join(err, os.Remove(args[1]))
				}
			}()
			if plaintext {
				return a.writeRecords(cmd, o, args[0], f)
			}
			return o.readOnce(func(r *store.Reader) error {
				_, blob, err := a.blob(cmd.Context(), r, args[0])
				if err == nil {
					_, err = io.Copy(f, blob)
				}
				return err
			})
		},
	}, o.flags(), flags.Switch("plaintext", &plaintext, "write it unsealed, as JSON lines"))
}

func (a *commands) verify() *cobra.Command {
	o := &traceOptions{}
	var text string
	return cli.Command(&cobra.Command{
		Use:   "verify [ID|latest]",
		Short: "Check all traces against their chain and print its head; exit code 1 when something was altered",
		Long: `Check all traces against their chain, and print the chain's head. Keep the head in another place. Given with
--head later, it shows whether the newest traces were removed or the chain was rewritten. The store alone cannot show
that. With an ID, the state of that trace is printed, too.

Neither the private key nor the signing key is needed, and nothing is written. The folder may be a copy with traces.db
and sign.pub; with --head, traces.db is enough.`,
		Args:              cobra.MatchAll(cli.AtMost(1, "traces", "name one"), idOrLatest),
		ValidArgsFunction: o.completeTraces(1, latest),
		RunE: func(cmd *cobra.Command, args []string) error {
			var kept *store.Head
			if cmd.Flags().Changed("head") { // an empty --head is most likely a lost file, so it is an error
				head, err := store.ParseHead(text)
				if err != nil {
					return err
				}
				kept = &head
			}
			var r *store.Report
			var one store.Entry
			err := o.read(func(s *store.Reader) (err error) {
				if r, err = s.Verify(cmd.Context(), kept); err == nil && len(args) > 0 {
					one, err = find(cmd.Context(), s, args[0])
				}
				return err
			})
			if err != nil {
				return err
			}
			unattested := ""
			if r.Unattested > 0 {
				unattested = fmt.Sprintf(", %d unattested", r.Unattested)
			}
			fmt.Fprintf(a.Stdout(), "%s, %s of %d bytes, %d erased, %d open%s\n", cli.Count(r.Entries, "entry", "entries"),
				cli.Count(r.Traces, "trace", "traces"), r.Bytes, r.Erased, r.Open, unattested)
			for _, p := range r.Problems {
				fmt.Fprintf(a.Stdout(), "problem: %s\n", p)
			}
			if len(args) > 0 {
				fmt.Fprintf(a.Stdout(), "%s  %s\n", one.ID, stateOf(&one))
			}
			if len(r.Problems) > 0 || one.Unattested {
				return cli.ErrReported
			}
			if r.Head.Number > 0 {
				fmt.Fprintf(a.Stdout(), "head %s\n", r.Head)
			} else {
				a.Note("the chain is empty: nothing was recorded yet, or all of it was removed")
			}
			return nil
		},
	}, o.storeFlag(),
		flags.Text("head", &text, "a `HEAD` that was kept elsewhere; fail unless the chain contains it"))
}

func (a *commands) erase() *cobra.Command {
	o := &traceOptions{}
	var older time.Duration
	return cli.Command(&cobra.Command{
		Use:   "erase ID... | --older-than AGE",
		Short: "Erase traces for good; their entries in the chain stay",
		Args: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) != (older >= 0) {
				return cli.Usage("ids or --older-than are needed, and not both").Hint("%s", cli.See(cmd))
			}
			_, err := parseTraceIDs(args)
			return err
		},
		ValidArgsFunction: o.completeTraces(1000),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseTraceIDs(args)
			if err != nil {
				return err
			}
			return o.write(func(s *store.Store) (err error) {
				n := len(ids)
				if older >= 0 {
					n, err = s.EraseBefore(cmd.Context(), time.Now().Add(-older))
				} else {
					err = s.Erase(cmd.Context(), ids...)
				}
				if err == nil {
					a.Note(fmt.Sprintf("erased %d", n))
				}
				return err
			})
		},
	}, o.storeFlag(), flags.Age("older-than", &older, 0, "erase all that ended before this `AGE`: 30d, 12h"))
}
