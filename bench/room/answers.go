package room

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"runner/backend"
	"runner/bench"
	"runner/bench/machine"
	"runner/chattemplate"
	"runner/cmd/runner/flags"
	"runner/generation"
	"runner/grammar"
	"runner/reasoning"
	"runner/reasoning/trace"
	"runner/reasoning/trace/store"
	"runner/runner"
	"runner/runner/tracing"
	"runner/server/wire"
)

// answerOptions are the flags of bench for whole answers: what they cost with features that a plain one lacks.
type answerOptions struct {
	schema                           string
	answers, summary, trace, efforts bool
	serve                            bool
	clients                          []int
	questions                        []string
	maxTokens                        int
}

func (o *answerOptions) flags() flags.Table {
	return flags.List(
		flags.Switch("answers", &o.answers, "measure whole answers, with the template and the reasoning"),
		flags.Text("schema", &o.schema, "measure what a JSON Schema for the answer costs, `FILE` or the JSON itself"),
		flags.Switch("summary", &o.summary, "measure what the summary of the reasoning costs"),
		flags.Switch("trace", &o.trace, "measure what recording a sealed trace costs"),
		flags.Switch("efforts", &o.efforts, "measure the tokens and the time of each reasoning effort"),
		flags.Switch("serve", &o.serve, "measure what the server costs, with the same answers without it"),
		flags.Ints("clients", &o.clients, []int{1}, 1, 64, "ask `N` questions at once with --serve; 1,4 are two tests",
			flags.Needs("serve")),
		flags.Texts("question", &o.questions, "`TEXT` of the question; may be repeated, and the rounds take turns (default: "+
			"5 that the bundled model knows)"),
		flags.Int("max-tokens", &o.maxTokens, 512, 1, maxTestTokens, "maximum number of tokens of an answer, `N`"))
}

// on reports whether answers are measured.
func (o *answerOptions) on() bool {
	return o.answers || o.schema != "" || o.summary || o.trace || o.efforts || o.serve
}

// usualQuestions are those of bench, one of each kind that the bundled model was trained for.
var usualQuestions = []string{
	"What is 517 + 386?",
	"Which is larger, 513 or 387?",
	"What is 24 * 31?",
	"Sort these numbers: 41, 7, 93, 20.",
	"Tom has 12 apples and buys 7 more. How many apples does he have?",
}

// most is the largest number of answers at once.
func (o *answerOptions) most() int {
	most := 1
	for _, n := range o.clients {
		most = max(most, n)
	}
	return most
}

// serverPrefix begins the names of workloads that a server computes.
const serverPrefix = "server, "

// promptRoom is how many tokens of the context are for the prompt.
const promptRoom = 1024

// context is how many tokens of context an answer needs.
func (o *answerOptions) context() int { return o.maxTokens + promptRoom }

// answering makes the workloads of answers.
type answering struct {
	o       *answerOptions
	runners []*runner.Runner
	form    grammar.Source
	traces  *tracing.Traces
	servers []*server
	close   []func()
}

// newAnswering prepares what the workloads need: runners over the loaded models, a folder for traces, and servers.
func (a *bencher) newAnswering(ctx context.Context, cmd *cobra.Command, o *answerOptions, subjects []subject) (
	w *answering, err error) {
	w = &answering{o: o}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	if cmd.Flags().Changed("schema") {
		if w.form, err = a.Schema(ctx, "--schema", o.schema); err != nil {
			return w, err
		}
	}
	for _, s := range subjects {
		r, err := runner.New(s.Model, runner.Config{Parallel: o.most()})
		if err != nil {
			return w, err
		}
		w.runners = append(w.runners, r)
		w.close = append(w.close, func() { _ = r.Close() })
	}
	if o.trace {
		folder, err := os.MkdirTemp("", "runner-bench-*")
		if err != nil {
			return w, err
		}
		w.close = append(w.close, func() { os.RemoveAll(folder) })
		s, err := store.Open(folder, store.Config{Recipients: []trace.Recipient{trace.NewIdentity().Recipient()}})
		if err != nil {
			return w, err
		}
		w.close = append(w.close, func() { _ = s.Close() })
		w.traces = tracing.New(s, tracing.Config{})
	}
	if o.serve {
		for _, s := range subjects {
			server, err := startServer(ctx, s, o.most())
			if err != nil {
				return w, err
			}
			w.servers = append(w.servers, server)
			w.close = append(w.close, server.stop)
		}
	}
	return w, nil
}

// Close ends what the workloads used, in the opposite order.
func (w *answering) Close() {
	for i := len(w.close) - 1; i >= 0; i-- {
		w.close[i]()
	}
}

// request returns the plain request of a round, which may be one of several at once. The same request has the same
// question and seed, so that its answers are the same. The rounds before the first that counts are negative.
func (w *answering) request(round int) generation.Request {
	questions := w.o.questions
	if len(questions) == 0 {
		questions = usualQuestions
	}
	n := len(questions)
	seed, question := uint64(round+1), questions[(round%n+n)%n]
	return generation.Request{Messages: []chattemplate.Message{{Role: chattemplate.User, Content: question}},
		MaxTokens: w.o.maxTokens, Seed: &seed, Sampling: backend.Sampling{Temperature: 1},
		MaySee: reasoning.VisibilityFull}
}

// workloads returns the workloads of a subject. Those of a group are compared with the first one.
func (w *answering) workloads(subject int) []bench.Workload {
	var list []bench.Workload
	observed := func(group, name string, at int, change func(*generation.Request), observer func() generation.Observer) {
		list = append(list, bench.Workload{Name: name, Group: group, Subject: subject, Crowded: true,
			Measure: func(ctx context.Context, round int, begin func()) (bench.Sample, error) {
				return together(at, begin, func(i int) (bench.Sample, error) {
					req := w.request(round*at + i)
					change(&req)
					return w.answer(ctx, subject, req, observer())
				})
			}})
	}
	add := func(group, name string, at int, change func(*generation.Request)) {
		observed(group, name, at, change, func() generation.Observer { return generation.Unobserved{} })
	}
	add("answer", "answer", 1, func(*generation.Request) {})
	if !w.form.IsZero() {
		add("answer", "answer, schema", 1, func(r *generation.Request) { r.Form = w.form })
	}
	if w.o.summary {
		add("answer", "answer, summary", 1, func(r *generation.Request) { r.Visibility = reasoning.VisibilitySummary })
	}
	if w.o.trace {
		observed("answer", "answer, trace", 1, func(*generation.Request) {}, func() generation.Observer {
			return w.traces.Tracer(wire.Local, "runner bench", "bench")
		})
	}
	if w.o.serve {
		for _, n := range slices.Sorted(slices.Values(w.o.clients)) { // one client is in the group of the plain answer
			group := fmt.Sprintf("%d at once", n)
			if n > 1 {
				add(group, group, n, func(*generation.Request) {})
			}
			name := fmt.Sprintf(serverPrefix+"%d clients", n)
			if n == 1 {
				name, group = serverPrefix+"1 client", "answer"
			}
			list = append(list, bench.Workload{Name: name, Group: group, Subject: subject, Crowded: true,
				Measure: func(ctx context.Context, round int, begin func()) (bench.Sample, error) {
					return together(n, begin, func(i int) (bench.Sample, error) {
						return w.servers[subject].ask(ctx, w.request(round*n+i))
					})
				}})
		}
	}
	if w.o.efforts {
		for _, e := range []reasoning.Effort{reasoning.EffortNone, reasoning.EffortLow, reasoning.EffortMedium,
			reasoning.EffortHigh} {
			add("effort", "effort "+string(e), 1, func(r *generation.Request) { r.Effort = e })
			list[len(list)-1].Timed = true
		}
	}
	return list
}

// together runs several answers at once, after it called begin. The sample has the tokens and gaps of all, and the mean
// of the other times.
func together(n int, begin func(), one func(i int) (bench.Sample, error)) (all bench.Sample, err error) {
	samples, errs := make([]bench.Sample, n), make([]error, n)
	var wg sync.WaitGroup
	begin()
	all.Start = time.Now()
	for i := range n {
		wg.Go(func() { samples[i], errs[i] = one(i) })
	}
	wg.Wait()
	all.Took = time.Since(all.Start)
	for i, s := range samples {
		if errs[i] != nil {
			return all, errs[i]
		}
		all.Tokens += s.Tokens
		all.First += s.First / time.Duration(n)
		all.Answer += s.Answer / time.Duration(n)
		all.Gaps = append(all.Gaps, s.Gaps...)
	}
	return all, nil
}

// addGap adds the time since the last piece of the answer's text, if there was one. It returns the time now.
func addGap(s *bench.Sample, last time.Time) time.Time {
	now := time.Now()
	if !last.IsZero() {
		s.Gaps = append(s.Gaps, now.Sub(last))
	}
	return now
}

// answer measures an answer without a server.
func (w *answering) answer(ctx context.Context, subject int, req generation.Request,
	o generation.Observer) (bench.Sample, error) {
	s := bench.Sample{Start: time.Now()}
	var last time.Time
	for e, err := range w.runners[subject].Generate(ctx, req, o) {
		if err != nil {
			return s, err
		}
		if e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.Answer {
			last = addGap(&s, last)
		}
		if r := e.Result; e.Kind == reasoning.Done && r != nil {
			s.Tokens, s.First, s.Answer = r.Usage.Completion, r.Timing.FirstToken, r.Timing.FirstAnswer
		}
	}
	s.Took = time.Since(s.Start)
	return s, nil
}

// readTime is how long a new server may compute. It reads the model's file once, so that it notices a change of it.
const readTime = 2 * time.Minute

// measureAnswers measures the workloads of all subjects.
func (a *bencher) measureAnswers(ctx context.Context, cmd *cobra.Command, subjects []subject, of []bench.Subject,
	o *options, b bench.Options) ([]bench.Row, error) {
	w, err := a.newAnswering(ctx, cmd, &o.answer, subjects)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	var servers []int
	for _, s := range w.servers {
		servers = append(servers, s.cmd.Process.Pid)
	}
	a.settle(ctx, servers, readTime)
	b.Settle = a.settling(func() []int { return append(processesOf(subjects), servers...) })
	var list []bench.Workload
	for i := range subjects {
		list = append(list, w.workloads(i)...)
	}
	// Groups in the order in which they came; all subjects of a group take turns.
	var groups []string
	for _, x := range list {
		if !slices.Contains(groups, x.Group) {
			groups = append(groups, x.Group)
		}
	}
	slices.SortStableFunc(list, func(x, y bench.Workload) int {
		return slices.Index(groups, x.Group) - slices.Index(groups, y.Group)
	})
	rows, err := bench.Measure(ctx, of, list, b)
	notePeaks(subjects) // closing the runners ends the processes
	for i, x := range list {
		if strings.HasPrefix(x.Name, serverPrefix) {
			rows[i].Memory = machine.Peak(w.servers[x.Subject].cmd.Process.Pid)
		}
	}
	return rows, err
}
