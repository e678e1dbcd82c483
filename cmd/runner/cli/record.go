package cli

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"runner/cmd/runner/flags"
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
	// rooms says that serve records runs of its rooms, too.
	rooms bool

	to              []string
	dir             string
	keys            keyringFlags
	maxTrace, total int64
	// age is negative if no trace is too old.
	age time.Duration
}

// flags are the flags that record traces. Recording is turned on by the flags called on, the first of which is among
// these. The keys are also used with the flags called sealing.
func (o *recordOptions) flags(usage string, on []string, sealing ...string) flags.Table {
	o.flag = on[0]
	keys, all := flags.Needs(append(slices.Clone(on), sealing...)...), flags.Needs(on...)
	return flags.List(
		flags.Switch(o.flag, &o.on, usage),
		flags.Texts("trace-to", &o.to, "public `KEY` that traces are sealed to, its id in the keyring, or a file of keys "+
			"(repeatable; default: the keyring's current key)", keys),
		flags.Text("trace-store", &o.dir, "", "`FOLDER` of the traces (default: in the data folder)", all),
		o.keys.fileFlag().With(keys),
		flags.Size("trace-max", &o.maxTrace, store.DefaultMaxTrace, 1,
			"maximum size of a trace in `BYTES`; a longer one is cut off there", all),
		flags.Size("trace-total", &o.total, store.DefaultMaxTotal, 1,
			"maximum size of all traces in `BYTES`; beyond it none is stored until some are erased", all),
		flags.Age("trace-age", &o.age, time.Nanosecond, "`AGE` at which traces are erased, as in 30d (default: never)", all))
}

// recording reports whether anything is recorded.
func (o *recordOptions) recording() bool { return o.on || o.rooms }

// openRecords returns the store for traces and the recipients that they are sealed to. A store that cannot be opened
// now is not an error.
func (a *App) openRecords(o *recordOptions) (s *lateStore, to []trace.Recipient, err error) {
	a.traced = true
	if to, err = a.recipients(o); err != nil {
		return nil, nil, err
	}
	dir, err := tracesFolder(o.dir)
	if err != nil {
		return nil, nil, err
	}
	cfg := store.Config{
		Recipients: to, MaxTrace: o.maxTrace, MaxTotal: o.total, MaxAge: max(o.age, 0),
	}
	return newLateStore(dir, cfg), to, nil
}

// recipients returns the recipients that traces are sealed to.
func (a *App) recipients(o *recordOptions) (list []trace.Recipient, err error) {
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
		return nil, Usage("--trace-to names %d keys, but at most %d are allowed", len(list), trace.MaxRecipients).
			Hint("name fewer")
	}
	return list, nil
}

// keyIDSize is the number of hexadecimal digits of a key's id.
const keyIDSize = 16

// recipientsOf reads one value of --trace-to.
func (a *App) recipientsOf(o *recordOptions, text string) (list []trace.Recipient, err error) {
	if r, err := trace.ParseRecipient(text); err == nil {
		return []trace.Recipient{r}, nil
	}
	if len(text) == keyIDSize && strings.Trim(text, "0123456789abcdef") == "" {
		key, err := o.keys.public(text)
		return []trace.Recipient{key}, err
	}
	content, err := a.ReadFile("--trace-to", text)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(content) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		r, err := trace.ParseRecipient(line)
		if err != nil {
			return nil, Input("--trace-to %s: it has a line that is not a public key", text).From(err).
				Hint("give what runner trace keys export prints, one a line")
		}
		list = append(list, r)
	}
	if len(list) == 0 {
		return nil, Input("--trace-to %s: it has no key", text).Hint("give what runner trace keys export prints")
	}
	return list, nil
}

// records records the runs of one command. The zero value records none.
type records struct {
	app    *App
	traces *tracing.Traces

	mu     sync.Mutex
	stored string
	failed error
}

// record returns the recorder of a command's runs and its store. The caller closes the store when all runs have ended.
func (a *App) record(o *recordOptions) (*records, *lateStore, error) {
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

// tracer returns the observer of one run, which traces it if anything is recorded.
func (r *records) tracer(run string) generation.Observer {
	if r == nil {
		return generation.Unobserved{}
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
		r.app.Complain("warning: " + strings.Join(strings.Fields(r.failed.Error()), " "))
	}
	r.stored, r.failed = "", nil
}
