package runner

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/backend/fake"
	"runner/generation"
	"runner/grammar"
	"runner/reasoning"
	"runner/reasoning/prompts"
	"runner/runner/drafts"
	"runner/testenv"
)

// TestGuessesChangeNothing runs random requests with and without guesses and compares all events. The scripts repeat
// themselves, so that many guesses are right, and have noise in them. RUNNER_LONG=1 makes it long.
func TestGuessesChangeNothing(t *testing.T) {
	testenv.SkipRaced(t)
	rounds := 40
	if os.Getenv("RUNNER_LONG") != "" {
		rounds = 600
	}
	var fed, right int64
	for seed := range uint64(rounds) {
		f, r := compareGuesses(t, seed)
		fed, right = fed+f, right+r
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d guesses, %d right", fed, right)
	if right < int64(rounds)*20 || fed-right < int64(rounds)*20 {
		t.Errorf("%d guesses, %d right: one of both is rare", fed, right)
	}
}

// frozen is a clock that stands still, so that two runs are told the same time.
func frozen() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }

func compareGuesses(t *testing.T, seed uint64) (fed, right int64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	cfg, family := fake.Config{Vocab: fake.Harmony()}, "harmony"
	switch rng.IntN(4) {
	case 0:
		cfg, family = thinkModel(), "tags"
	case 1:
		cfg, family = plainModel(), "tags"
	}
	cfg.Script = babble(cfg.Vocab, soakText[family], []uint64{0, 2, 10}[rng.IntN(3)])
	cfg.ContextSize, cfg.Sequences, cfg.BatchSize = 700+rng.IntN(500), 2+rng.IntN(3), []int{8, 64, 512}[rng.IntN(3)]
	if rng.IntN(3) == 0 {
		cfg.CacheTokens = cfg.ContextSize + 100
	}
	open := func(d Drafts) *Runner {
		r, err := New(fake.New(cfg), Config{Drafts: d, Clock: frozen, Seed: func() uint64 { return seed }})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	off, on := open(DraftsOff), open(DraftsOn)
	defer off.Close()
	defer on.Close()
	if rng.IntN(2) == 0 {
		on.sched.guesser.foresee = foresees(cfg.Script)
	}
	requests := make([]generation.Request, 4)
	want := make([]string, len(requests))
	for i := range requests {
		requests[i] = guessedRequest(rng, off)
		want[i] = transcript(t, off, requests[i])
	}
	check := func(i int) {
		if got := transcript(t, on, requests[i]); got != want[i] {
			t.Errorf("%s\n%+v\nwith guesses\n%s\nwithout\n%s", cfg.Vocab.Piece(0), requests[i], got, want[i])
		}
	}
	for i := range requests {
		check(i)
	}
	if cfg.CacheTokens == 0 { // otherwise a full cache ends what runs beside others
		var wg sync.WaitGroup
		for i := range requests {
			wg.Go(func() { check(i) })
		}
		wg.Wait()
	}
	s := on.Stats()
	return s.Drafted, s.Accepted
}

// foresees guesses what a model's script will say. Unlike a lookup it also guesses across the parts of a turn.
func foresees(script fake.Script) func(*lane) foresight {
	return func(l *lane) foresight { return foreseen{l, script} }
}

type foreseen struct {
	*lane
	script fake.Script
}

func (f foreseen) Guess(_ []backend.Token, i int) (backend.Token, bool) {
	text := slices.Clone(f.tokens)
	for _, d := range f.guesses.list[:i] {
		text = append(text, d.Token)
	}
	return max(0, f.script(text)), true
}

func (foreseen) Read([]backend.Token, int) bool { return true }

func (foreseen) Odds(int) float64 { return 1 }

// guessedForms are forms of answers. Some force much and some little.
var guessedForms = []grammar.Source{
	{}, {}, grammar.JSONSchema([]byte(person)), grammar.AnyObject(), grammar.Choices("four", "five", "four and five"),
	grammar.Regex(`(It is 4 and that is the answer\. ?){1,6}`), grammar.GBNF(`root ::= ("so " | "it " | [a-z])+ "."`),
}

// guessedRequest returns a random request that uses what the soak test does not: forms, penalties and raw prompts.
func guessedRequest(rng *rand.Rand, r *Runner) generation.Request {
	s := soakRun{r: r, rng: rng}
	req := s.request()
	if req.MaxTokens == 0 {
		req.MaxTokens = 150
	}
	p := &req.Sampling
	p.Temperature = []float32{0, 0, 0.3, 0.8, 1, 1.5}[rng.IntN(6)]
	if rng.IntN(4) == 0 {
		p.TopP, p.TopK = 0.9, 40
	}
	if rng.IntN(4) == 0 {
		p.RepetitionPenalty, p.FrequencyPenalty, p.PenaltyWindow = 1.2, 0.3, rng.IntN(40)
	}
	if rng.IntN(5) == 0 {
		p.PresencePenalty = -1
		p.Bias = []backend.TokenBias{{Token: backend.Token(rng.IntN(200)), Bias: 3}}
	}
	req.Form = guessedForms[rng.IntN(len(guessedForms))]
	if !req.Form.IsZero() {
		req.Stop = nil
	}
	if rng.IntN(6) == 0 && len(req.Tools) > 0 && req.Form.IsZero() {
		req.ToolChoice = generation.ToolChoiceRequired
	}
	if rng.IntN(8) == 0 {
		req = generation.Request{Prompt: strings.Repeat("so it is 4. ", 1+rng.IntN(5)), Sampling: req.Sampling,
			MaxTokens: req.MaxTokens, Seed: req.Seed, Logprobs: req.Logprobs, PromptLogprobs: rng.IntN(2) == 0,
			IgnoreEnd: rng.IntN(2) == 0}
	}
	return req
}

// transcript returns everything that a run says, except for its times. The summary is written beside the answer, so it
// comes last here.
func transcript(t *testing.T, r *Runner, req generation.Request) string {
	var b, summary strings.Builder
	for e, err := range r.Generate(t.Context(), req, generation.Unobserved{}) {
		if err != nil {
			fmt.Fprintf(&b, "error %v\n", err)
			continue
		}
		if e.Result != nil {
			result := *e.Result
			result.Timing, result.Usage.Cached = reasoning.Timing{}, 0 // the second time there is more in the cache
			e.Result = &result
		}
		for i := range e.Logprobs {
			if l := &e.Logprobs[i]; l.Logprob != l.Logprob { // JSON has no NaN
				l.Logprob = 0
			}
		}
		line, err := json.Marshal(e)
		if err != nil {
			t.Error(err)
		}
		to := &b
		if e.Segment == reasoning.Summary || e.Kind == reasoning.SummarySettled || strings.HasPrefix(e.Code, "summary_") {
			to = &summary
		}
		to.Write(append(line, '\n'))
	}
	return b.String() + summary.String()
}

// TestGuessesSaveSteps counts the steps of an answer that repeats its prompt. Without guesses there are as many steps
// as tokens.
func TestGuessesSaveSteps(t *testing.T) {
	code := ""
	for i := range 40 {
		code += fmt.Sprintf("line %d is %d\n", i, i*i%37)
	}
	for _, d := range []Drafts{DraftsOff, DraftsOn} {
		f := start(t, fake.Config{}, Config{Drafts: d},
			fake.Reply{After: ask(code), Say: think(thought, strings.Replace(code, "is 27", "was 27", 1))})
		g := f.must(t, user(code))
		steps, tokens := f.Stats().Steps, int64(g.result.Usage.Completion)
		timing := g.result.Timing
		switch {
		case d == DraftsOff && (steps < tokens || timing.Drafted != 0):
			t.Errorf("%d steps for %d tokens without guesses, %+v", steps, tokens, timing)
		case d == DraftsOn && (steps > tokens/3 || timing.Accepted < int(tokens)/2 || timing.Accepted > timing.Drafted):
			t.Errorf("%d steps for %d tokens with guesses, %+v", steps, tokens, timing)
		}
	}
}

// TestSummariesAreGuessedFromTheReasoning counts guesses in a summary that quotes the reasoning as far as it may.
func TestSummariesAreGuessedFromTheReasoning(t *testing.T) {
	var thoughts strings.Builder
	for i := range 60 {
		fmt.Fprintf(&thoughts, "step %d gives %d, ", i, i*i*7919%10007)
	}
	quote := "First step 30 gives 2116, then step 31 gives 4839, at last step 41 gives 2529."
	for _, words := range strings.Split(strings.Trim(quote, "."), ", ") {
		if _, quoted, _ := strings.Cut(words, "step"); !strings.Contains(thoughts.String(), quoted) {
			t.Fatalf("%q is not in the reasoning", quoted)
		}
	}
	f := start(t, fake.Config{}, Config{Drafts: DraftsOn},
		fake.Reply{After: ask("q"), Say: think(thoughts.String(), "yes")},
		summaryReply(prompts.SummaryConciseV1, quote))
	req := user("q")
	alone := f.must(t, req).result.Timing
	req.Visibility = reasoning.VisibilitySummary
	g := f.must(t, req)
	g.want(t, reasoning.Summary, quote)
	if more := g.result.Timing.Accepted - alone.Accepted; more < len(quote)/4 {
		t.Errorf("%d guesses were right in a summary of %d bytes", more, len(quote))
	}
}

// TestGuessesLeaveRoom checks that guesses take no room in a step that other runs need, and none in a full cache.
func TestGuessesLeaveRoom(t *testing.T) {
	long := strings.Repeat("la ", 80)
	f := start(t, fake.Config{BatchSize: 8, Sequences: 4, ContextSize: 600, CacheTokens: 620}, Config{Drafts: DraftsOn},
		fake.Reply{After: ask("talk"), Say: think("", long)})
	g := f.must(t, user("talk"))
	g.want(t, reasoning.Answer, long)
	if g.result.Timing.Accepted == 0 {
		t.Error("no guess was right")
	}
	for _, s := range f.model.Steps() {
		n := 0
		for _, in := range s.Inputs {
			n += in.Tokens + in.Drafts
		}
		if n > 8 {
			t.Fatalf("a step of %d tokens", n)
		}
	}
}

// TestGuessesStopWhereTheyDoNotPay runs on a model on which two tokens cost as much as four steps of one, and on one
// whose steps take the same time whatever they hold. The clock is synctest's, so a busy machine changes nothing.
func TestGuessesStopWhereTheyDoNotPay(t *testing.T) {
	text := strings.Repeat("la la so it is. ", 20)
	share := func(delay func(int) time.Duration) (share float64) {
		synctest.Test(t, func(t *testing.T) {
			f := start(t, fake.Config{Delay: delay}, Config{},
				fake.Reply{After: ask("talk"), Say: think("", text)})
			g := f.must(t, user("talk"))
			g.want(t, reasoning.Answer, text)
			share = float64(g.result.Timing.Drafted) / float64(g.result.Usage.Completion)
		})
		return share
	}
	steep := func(n int) time.Duration {
		if n > drafts.Most+1 {
			return time.Millisecond // prefill
		}
		return time.Duration(n*n) * 2 * time.Millisecond
	}
	if got := share(steep); got > 0.2 {
		t.Errorf("%.2f guesses for each token, although they do not pay", got)
	}
	if got := share(func(int) time.Duration { return 2 * time.Millisecond }); got < 0.5 {
		t.Errorf("%.2f guesses for each token, although they cost nothing", got)
	}
}

// TestGuessesAreTakenWithSettingsThatAreOff counts what guesses give with the settings of the command line, and with
// each way to write that a setting is off. Nothing is forced after a raw prompt, so each step gives a token, and each
// guess that is taken another one.
func TestGuessesAreTakenWithSettingsThatAreOff(t *testing.T) {
	usual := backend.Sampling{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, TypicalP: 1, RepetitionPenalty: 1}
	raw := generation.Request{Prompt: "talk: ", MaxTokens: 300}
	text := strings.Repeat("la la so it is. ", 12)
	count := func(name string, p backend.Sampling) {
		f := start(t, fake.Config{}, Config{Drafts: DraftsOn}, fake.Reply{After: raw.Prompt, Say: text + "<|return|>"})
		req := raw
		req.Sampling = p
		g := f.must(t, req)
		g.want(t, reasoning.Answer, text)
		s := f.Stats()
		if timing := g.result.Timing; int64(timing.Drafted) != s.Drafted || int64(timing.Accepted) != s.Accepted {
			t.Errorf("%s: the result has %+v, the statistics %+v", name, timing, s)
		}
		if tokens := int64(g.result.Usage.Completion); tokens != s.Steps+s.Accepted || s.Accepted < tokens/2 {
			t.Errorf("%s: %d tokens of %d steps, and %d of guesses", name, tokens, s.Steps, s.Accepted)
		}
	}
	for _, off := range backendtest.Off {
		p := usual
		off.Write(&p)
		count(off.Name, p)
	}
}

// takes is the owner of a lane that takes all that is sampled for it, and counts.
type takes struct {
	laneOwner
	results, fed, taken int
	// after is called after each result.
	after func(l *lane, results int)
}

func (o *takes) drafted(fed, taken int) { o.fed, o.taken = o.fed+fed, o.taken+taken }

func (o *takes) accept(l *lane, out *backend.Output) {
	o.results++
	l.tokens = append(l.tokens, out.Token)
	l.sampling.Seen = append(l.sampling.Seen, out.Token)
	if o.after != nil {
		o.after(l, o.results)
	}
}

// TestOnlyTakenGuessesCount gives a lane a step in which all guesses were right, and changes the lane in ways after
// which the rest of them is of no use.
func TestOnlyTakenGuessesCount(t *testing.T) {
	for _, c := range []struct {
		name  string
		after func(l *lane, results int)
		taken int
	}{
		{"all", nil, 3},
		{"ended", func(l *lane, n int) { l.done = n == 2 }, 1},
		{"ended at the last", func(l *lane, n int) { l.done = n == 4 }, 3},
		{"hotter after the first", func(l *lane, _ int) { l.sampling.Temperature = 2 }, 0},
		{"a penalty that counts no more", func(l *lane, n int) {
			if l.sampling.PresencePenalty = 1; n == 3 {
				l.sampling.Seen = l.sampling.Seen[:2]
			}
		}, 0},
		{"a window without a penalty", func(l *lane, n int) { l.sampling.PenaltyWindow = n }, 3},
		{"tokens that no penalty counts", func(l *lane, _ int) { l.sampling.Seen = nil }, 3},
		{"a bias", func(l *lane, n int) {
			if n == 3 {
				l.sampling.Bias = []backend.TokenBias{{Token: 1, Bias: 1}}
			}
		}, 2},
		{"a bias of 0", func(l *lane, _ int) { l.sampling.Bias = []backend.TokenBias{{Token: 1}} }, 3},
		{"another token in its place", func(l *lane, n int) {
			if n == 2 {
				l.tokens[len(l.tokens)-1] = 99
			}
		}, 1},
	} {
		s, o := &scheduler{}, &takes{after: c.after}
		l := &lane{owner: o, tokens: []backend.Token{5, 6}, fed: 2}
		in := backend.Input{Tokens: l.tokens[1:]}
		out := backend.Output{Token: 10}
		for i := range 3 {
			in.Drafts = append(in.Drafts, backend.Draft{Token: backend.Token(10 + i)})
			out.NextMore().Token = backend.Token(11 + i)
		}
		l.guesses.list = in.Drafts
		if err := s.taken(l, &in, &out); err != nil {
			t.Fatal(err)
		}
		accepted := int(s.counts.accepted.Load())
		if o.results != 1+c.taken || o.taken != c.taken || accepted != c.taken || o.fed != 3 {
			t.Errorf("%s: %d results, %d guesses taken by the lane's count and %d by all, want %d", c.name, o.results, o.taken,
				accepted, c.taken)
		}
	}
}

// TestGuessesKeepNobodyWaiting runs others beside a repeating text: one with a long prompt, a short one, and one that
// is embedded. Steps of guesses take longer, and the model's clock is synctest's.
func TestGuessesKeepNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.Repeat("la la so it is. ", 40)
		cfg := fake.Config{Sequences: 8, ContextSize: 4096, BatchSize: 64, Delay: func(n int) time.Duration {
			return time.Millisecond + time.Duration(n)*10*time.Microsecond
		}}
		f := start(t, cfg, Config{}, fake.Reply{After: ask("talk"), Say: think("", text)},
			fake.Reply{After: ask("short"), Say: think("", "one two three four five six seven")})
		talk, short := user("talk"), user("short")
		talk.Principal, short.Principal = "a", "b"
		var wg sync.WaitGroup
		wg.Go(func() { f.must(t, talk).want(t, reasoning.Answer, text) })
		wg.Go(func() {
			time.Sleep(50 * time.Millisecond)
			long := user(strings.Repeat("so ", 1000) + "short")
			long.Principal = "b"
			f.must(t, long)
			f.must(t, short)
			before := f.Stats().Drafted
			if _, err := f.Embed(t.Context(), "b", make([]backend.Token, 1000)); err != nil {
				t.Error(err)
			}
			if more := f.Stats().Drafted - before; more > drafts.Most {
				t.Errorf("%d guesses while a text was embedded", more)
			}
		})
		wg.Wait()
		alone, shared := 0, 0
		for _, step := range f.model.Steps() {
			for _, in := range step.Inputs {
				if alone += in.Drafts; len(step.Inputs) > 1 {
					shared += in.Drafts
				}
			}
		}
		if alone == 0 || shared > 0 {
			t.Errorf("%d guesses, of which %d in steps with others", alone, shared)
		}
	})
}
