package cli

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/trace"
	"runner/reasoning/trace/store"
	"runner/runner/tracing"
	"runner/server/wire"
)

// recordOptions are the flags of commands that record traces. They have an effect only if recording is turned on.
type recordOptions struct {
	on   bool
	flag string // the name of the flag that sets on
	// space says that serve records answers in its MEW space, too.
	space bool
	// sealing says that the keys are used to seal something else as well.
	sealing bool

	to              []string
	dir             string
	keys            keyringFlags
	maxTrace, total byteSize
	age             age
}

// add adds the flags. flag is the one that turns recording on, and usage its help text.
func (o *recordOptions) add(cmd *cobra.Command, flag, usage string) {
	f := cmd.Flags()
	o.flag, o.maxTrace, o.total = flag, store.DefaultMaxTrace, store.DefaultMaxTotal
	f.BoolVar(&o.on, flag, false, usage)
	f.StringArrayVar(&o.to, "trace-to", nil,
		"public `KEY` that traces are sealed to, its id in the keyring, or a file of keys (repeatable; default: the "+
			"keyring's current key)")
	f.StringVar(&o.dir, "trace-store", "", "`FOLDER` of the traces (default: in the data folder)")
	o.keys.addFile(cmd)
	f.Var(&o.maxTrace, "trace-max", "maximum size of a trace in `BYTES`; a longer one is cut off there")
	f.Var(&o.total, "trace-total", "maximum size of all traces in `BYTES`; beyond it none is stored until some are erased")
	f.Var(&o.age, "trace-age", "`AGE` at which traces are erased, as in 30d (default: never)")
}

// recording reports whether anything is recorded.
func (o *recordOptions) recording() bool { return o.on || o.space }

// validate refuses flags that would have no effect.
func (o *recordOptions) validate(cmd *cobra.Command) error {
	for _, name := range []string{"trace-to", "trace-store", "keyring", "trace-max", "trace-total", "trace-age"} {
		used := o.recording() || o.sealing && (name == "trace-to" || name == "keyring")
		if !used && cmd.Flags().Changed(name) {
			return &usageError{what: fmt.Sprintf("--%s has no effect without --%s", name, o.flag), hint: "give both, or neither"}
		}
	}
	if o.age.given && o.age.Duration == 0 {
		return &usageError{what: "--trace-age cannot be 0", hint: "leave --" + o.flag + " out to record nothing"}
	}
	if o.maxTrace < 1 || o.total < 1 {
		return &usageError{what: "--trace-max and --trace-total cannot be 0", hint: "leave --" + o.flag +
			" out to record nothing"}
	}
	return nil
}

// openRecords returns the store for traces and the recipients that they are sealed to. A store that cannot be opened
// now is not an error.
func (a *app) openRecords(o *recordOptions) (s *lateStore, to []trace.Recipient, err error) {
	a.traced = true
	if to, err = a.recipients(o); err != nil {
		return nil, nil, err
	}
	dir, err := tracesFolder(o.dir)
	if err != nil {
		return nil, nil, err
	}
	cfg := store.Config{
		Recipients: to, MaxTrace: int64(o.maxTrace), MaxTotal: int64(o.total), MaxAge: o.age.Duration,
	}
	return newLateStore(dir, cfg), to, nil
}

// recipients returns the recipients that traces are sealed to.
func (a *app) recipients(o *recordOptions) (list []trace.Recipient, err error) {
	if len(o.to) == 0 {
		key, err := o.keys.current()
		return []trace.Recipient{key}, err
	}
	seen := map[trace.Recipient]bool{}
	for _, text := range o.to {
		more, err := a.recipientsOf(o, text)
		if err != nil {
			return nil, err
		}
		for _, r := range more {
			if !seen[r] {
				list = append(list, r)
			}
			seen[r] = true
		}
	}
	if len(list) > trace.MaxRecipients {
		return nil, &usageError{what: fmt.Sprintf("--trace-to names %d keys, but at most %d are allowed", len(list),
			trace.MaxRecipients), hint: "name fewer"}
	}
	return list, nil
}

// keyIDSize is the number of hexadecimal digits of a key's id.
const keyIDSize = 16

// recipientsOf reads one value of --trace-to.
func (a *app) recipientsOf(o *recordOptions, text string) (list []trace.Recipient, err error) {
	if r, err := trace.ParseRecipient(text); err == nil {
		return []trace.Recipient{r}, nil
	}
	if len(text) == keyIDSize && strings.Trim(text, "0123456789abcdef") == "" {
		key, err := o.keys.public(text)
		return []trace.Recipient{key}, err
	}
	content, err := a.readFile("--trace-to", text)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(content) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		r, err := trace.ParseRecipient(line)
		if err != nil {
			return nil, &inputError{what: fmt.Sprintf("--trace-to %s: it has a line that is not a public key", text),
				hint: "give what runner trace keys export prints, one a line", err: err}
		}
		list = append(list, r)
	}
	if len(list) == 0 {
		return nil, &inputError{what: fmt.Sprintf("--trace-to %s: it has no key", text),
			hint: "give what runner trace keys export prints"}
	}
	return list, nil
}

// records records the runs of one command. The zero value records none.
type records struct {
	app    *app
	traces *tracing.Traces

	mu     sync.Mutex
	stored string
	failed error
}

// record returns the recorder of a command's runs and its store. The caller closes the store when all runs have ended.
func (a *app) record(o *recordOptions) (*records, *lateStore, error) {
	s, _, err := a.openRecords(o)
	if err != nil {
		return nil, nil, err
	}
	r := &records{app: a}
	r.traces = tracing.New(s, tracing.Config{
		Stored: func(id trace.ID) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.stored = id.String()
		},
		Report: func(err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.failed = errors.Join(r.failed, err)
		},
	})
	return r, s, nil
}

// tracer returns the tracer of one run, or nil if nothing is recorded.
func (r *records) tracer(run string) generation.Tracer {
	if r == nil {
		return nil
	}
	return r.traces.Tracer(wire.Local, "--trace", run)
}

// tell reports the trace of the run that has ended: its id through say, or why it was not stored. If the run has a
// result, its warnings have already reported a known [store.Error].
func (r *records) tell(result *reasoning.Result, say func(line string)) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stored != "" {
		say("trace " + r.stored)
	}
	if known := (*store.Error)(nil); r.failed != nil && (result == nil || !errors.As(r.failed, &known)) {
		r.app.complain("warning: " + strings.Join(strings.Fields(r.failed.Error()), " "))
	}
	r.stored, r.failed = "", nil
}
