package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"runner/backend"
	"runner/backend/fake"
	"runner/chattemplate"
	"runner/chattemplate/family"
	"runner/cmd/runner/scripttest"
	"runner/generation"
	"runner/models"
	"runner/models/roofline"
	"runner/reasoning"
	"runner/reasoning/prompts"
	"runner/runner"
)

// noRaceDelay stops the race detector from waiting a second at the end of every process.
const noRaceDelay = "atexit_sleep_ms=0"

// The scripts and the terminal tests run this test binary as "runner". Its generator is scripted: the message decides
// what it answers.
func TestMain(m *testing.M) {
	os.Setenv("GORACE", noRaceDelay)
	testscript.Main(m, map[string]func(){"runner": func() { os.Exit(scripted().execute(os.Args[1:])) }})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": scripttest.Exits},
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", noRaceDelay)
			e.Setenv("HF_HUB_CACHE", e.WorkDir+"/hub")
			e.Setenv("HOME", e.WorkDir+"/home")
			huge, err := os.Create(e.WorkDir + "/huge") // sparse
			if err != nil {
				return err
			}
			if err := errors.Join(huge.Truncate(maxInput+1), huge.Close()); err != nil {
				return err
			}
			return os.WriteFile(e.WorkDir+"/binary", []byte("text\x00"), 0o644)
		},
	})
}

// demoFile is where the bundled model would be.
const demoFile = "demo.gguf"

func scripted() *App {
	a := newApp(Engine{
		Demo: func(context.Context) (string, error) { return demoFile, nil },
		Choose: func(_ context.Context, path, given string, warn func(string)) (string, error) {
			_, err := os.Stat(path)
			switch {
			case err != nil && path != demoFile:
				return "", err
			case strings.Contains(path, "corrupt"):
				return "", errCorrupt(path)
			case given == "" && strings.Contains(path, "newer"):
				warn("the engine in /engines/open is skipped: others can write")
				return "/engines/newest", nil
			}
			return given, nil
		},
		CheckFolder: func(string) error { return nil },
		Written: func(*models.Model) (Written, error) {
			return Written{Template: "{{ x }}", Capabilities: []string{"completion", "tools"}}, nil
		},
		Open: func(_ context.Context, path string, cfg backend.Config) (backend.Model, error) {
			if strings.Contains(path, "corrupt") {
				return nil, errCorrupt(path)
			}
			if strings.Contains(path, "unserved") && os.Args[1] == "serve" {
				return nil, errors.New("there is not enough memory for a server")
			}
			return fake.New(fake.Config{ContextSize: cfg.ContextSize, BatchSize: cfg.BatchSize}), nil
		},
		Isolated: func(_ context.Context, _ string, cfg backend.Config, _ Process, _ *slog.Logger) (backend.Model, error) {
			return fake.New(fake.Config{ContextSize: cfg.ContextSize, BatchSize: cfg.BatchSize}), nil
		},
		Process: func(Process) error { return ErrByHand },
		Name:    "scripted", Module: "github.com/spf13/cobra",
		System: func(_ context.Context, folder string) []Fact {
			if folder != "" {
				return []Fact{{Name: "engine", Value: "the one in " + folder}}
			}
			return []Fact{{Name: "processor", Value: "scripted"},
				{Name: "memory", Value: "1 GiB", Problem: os.Getenv("DOCTOR_PROBLEM")}}
		},
		Machine: func() []Fact { return nil },
	}, Build{Version: "v1.2.3"})
	a.folders = &Folders{Name: "MLX", Check: func(string) error { return nil },
		Open: func(_ context.Context, _ string, cfg backend.Config, _ int64, _ *slog.Logger) (backend.Model, error) {
			return fake.New(fake.Config{ContextSize: cfg.ContextSize, BatchSize: cfg.BatchSize}), nil
		},
		Describe: func(context.Context) EngineFact {
			return EngineFact{Name: "MLX", Version: "1", Where: "a folder", Devices: []string{"paper"}}
		},
		SetUp: &cobra.Command{Use: "mlx"},
	}
	a.memorySpeed = &roofline.Store{Path: filepath.Join(os.DevNull, "none"), Machine: "paper",
		Measure: func() (float64, bool) { return 12.34e9, true }}
	a.load = func(ctx context.Context, m placed, cfg backend.Config, rc runner.Config) (generator, error) {
		path := m.Path
		switch {
		case strings.Contains(path, "corrupt"):
			return nil, errCorrupt(path)
		case strings.Contains(path, "sluggish"):
			fmt.Println("loading")
			<-ctx.Done()
			return nil, ctx.Err()
		case strings.Contains(path, "tardy"):
			// The program is told to end when nothing is left to do that a context could stop.
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Signal(syscall.SIGTERM)
			}
			if err != nil {
				return nil, err
			}
			<-ctx.Done()
		case strings.Contains(path, "brittle"):
			return nil, errors.New("there is not enough memory")
		case strings.Contains(path, "warp") && !cfg.AnyPretokenizer:
			return nil, &backend.LoadError{Path: path, Reason: backend.LoadUnknownPretokenizer, Detail: "unknown pre-tokenizer",
				Advice: "load it with --any-pretokenizer"}
		case strings.Contains(rc.ChatTemplate, "{%"):
			return nil, errors.New("chat template: line 1: unexpected end")
		}
		return &script{path: path, cfg: cfg, template: rc.ChatTemplate, seen: map[string]bool{}}, nil
	}
	return a
}

func errCorrupt(path string) error {
	return &backend.LoadError{Path: path, Reason: backend.LoadNotModel, Detail: "not a GGUF file",
		Advice: "name a .gguf file"}
}

// script is a generator whose answers depend on the message.
type script struct {
	path     string
	cfg      backend.Config
	template string
	// seen has the messages that were answered.
	seen map[string]bool
}

func (s *script) Info() backend.Info {
	info := backend.Info{Name: "scripted model", Architecture: "none", Path: s.path, ContextSize: 4096,
		TrainedContext: 4096, Device: "paper", Threads: 1, Backend: "paper engine", Kernels: "scissors"}
	if s.cfg.ContextSize > 0 {
		info.ContextSize = s.cfg.ContextSize
	}
	// The machine has memory for a sliding window of 4096 tokens and room for three layers on the GPU.
	info.WindowOnly = s.cfg.FullWindow == "off" || s.cfg.FullWindow == "auto" && info.ContextSize > 4096
	info.GPULayers = min(max(s.cfg.GPULayers, 0), 3)
	if strings.Contains(s.path, "unsplit") {
		info.DefaultSplit = "the model's file does not name a pre-tokenizer"
	}
	return info
}
func (s *script) About() family.About {
	return family.About{Reasoning: "harmony channels", MarksReasoning: true}
}

// Close tells of itself where a test asks for that.
func (s *script) Close() error {
	if os.Getenv("SHOW_CLOSE") != "" {
		fmt.Println("closed", s.path)
	}
	return nil
}

func (s *script) Fits(text string) error {
	if len(text) > 16*s.Info().ContextSize {
		return &generation.PromptTooLongError{Bytes: 16 * s.Info().ContextSize, Context: s.Info().ContextSize}
	}
	return nil
}

// Tokenize makes a token of every four bytes.
func (s *script) Tokenize(_ context.Context, _, text string, _ bool) ([]backend.Token, error) {
	return make([]backend.Token, (len(text)+3)/4), nil
}

// turn yields the events that the request's visibility shows.
type turn struct {
	*script
	answered bool // the message was answered before
	req      generation.Request
	yield    func(reasoning.Event, error) bool
	ended    bool
}

func (t *turn) emit(e reasoning.Event) {
	t.ended = t.ended || !t.yield(e, nil)
}

func (t *turn) segment(seg reasoning.Segment, call reasoning.Call, deltas ...string) {
	v := t.req.Visibility
	if t.ended || seg == reasoning.Reasoning && v != reasoning.VisibilityFull || seg == reasoning.Summary &&
		v != reasoning.VisibilitySummary {
		return
	}
	t.emit(reasoning.Event{Kind: reasoning.SegmentStart, Segment: seg, Call: call})
	for _, d := range deltas {
		if !t.ended {
			t.emit(reasoning.Event{Kind: reasoning.SegmentDelta, Segment: seg, Call: call, Text: d})
		}
	}
	if !t.ended {
		t.emit(reasoning.Event{Kind: reasoning.SegmentEnd, Segment: seg, Call: call})
	}
}

func (s *script) Generate(ctx context.Context, req generation.Request,
	o generation.Observer) iter.Seq2[reasoning.Event, error] {
	return func(yield func(reasoning.Event, error) bool) {
		last := req.Messages[len(req.Messages)-1]
		if strings.Contains(last.Content, "too long") {
			yield(reasoning.Event{}, &generation.PromptTooLongError{Tokens: 5000, Context: 4096})
			return
		}
		if req.Strategy == reasoning.StrategyMarkers {
			yield(reasoning.Event{}, &generation.RequestError{Field: "Strategy", Err: errors.New("not this one"),
				Advice: "use auto"})
			return
		}
		// Like a runner, it goes on without a trace and adds a warning.
		recorder, untraced := o.Trace(ctx, &generation.TracedRun{Request: &req, Digest: func() string { return "" }})
		if recorder != nil {
			seen := yield
			yield = func(e reasoning.Event, err error) bool {
				if err == nil {
					recorder.Record(e)
				}
				return seen(e, err)
			}
		}
		t := &turn{script: s, answered: s.seen[last.Content], req: req, yield: yield}
		s.seen[last.Content] = true
		seed := uint64(7)
		if req.Seed != nil {
			seed = *req.Seed
		}
		info := &reasoning.Info{Model: "scripted model", Visibility: req.Visibility, Effort: req.Effort,
			Strategy: reasoning.StrategyNative, Seed: seed, Budget: req.Budget}
		if req.Rationale {
			info.Iteration = 1
		}
		t.emit(reasoning.Event{Kind: reasoning.Started, Info: info})
		if untraced != nil {
			text := "no whole trace of this run is stored: " + untraced.Error()
			t.emit(reasoning.Event{Kind: reasoning.Warning, Code: generation.CodeNotTraced, Text: text})
		}
		result := &reasoning.Result{Finish: reasoning.FinishStop,
			Usage: reasoning.Usage{Prompt: 20, Cached: 4, Completion: 12, Reasoning: 8, Answer: 2},
			Timing: reasoning.Timing{Drafted: 6, Accepted: 5, Prefill: 10 * time.Millisecond, FirstToken: 11 * time.Millisecond,
				FirstAnswer: 20 * time.Millisecond, Decode: 30 * time.Millisecond}}
		err := t.answer(ctx, last, result)
		if recorder != nil {
			var lost error
			result.Trace, lost = recorder.End(err)
			err = errors.Join(err, lost)
		}
		if err != nil {
			if !t.ended {
				yield(reasoning.Event{}, err)
			}
			return
		}
		if !t.ended {
			yield(reasoning.Event{Kind: reasoning.Done, Result: result}, nil)
		}
	}
}

// plan returns a plan. The message says how many steps have reasons, in the first plan and in the second one.
func (t *turn) plan(message string) string {
	var first, second int
	if n, _ := fmt.Sscanf(message, "plan %d %d", &first, &second); n < 2 {
		return `{"steps":[{"to`
	}
	if strings.Contains(t.req.Messages[0].Content, prompts.PlanStrictV1) {
		first = second
	}
	var steps []string
	for i := range 2 {
		why := " "
		if i < first {
			why = "it knows"
		}
		steps = append(steps, fmt.Sprintf(`{"tool":"get_weather","purpose":"ask %d","rationale":{"why":%q}}`, second, why))
	}
	return `{"steps":[` + strings.Join(steps, ",") + `,{"purpose":"tell"}]}`
}

func (t *turn) answer(ctx context.Context, last chattemplate.Message, result *reasoning.Result) error {
	none := reasoning.Call{}
	has := func(s string) bool { return strings.Contains(last.Content, s) }
	switch {
	case last.Role == chattemplate.ToolRole && t.req.ToolChoice == generation.ToolChoiceRequired:
		t.segment(reasoning.ToolCall, reasoning.Call{ID: "call_2", Name: "get_weather"}, `{"city":"Rome"}`)
		result.Finish = reasoning.FinishToolCalls
	case last.Role == chattemplate.ToolRole:
		t.segment(reasoning.Answer, none, "It is ", last.Content, " in Paris.")
	case has("half a call"):
		t.segment(reasoning.ToolCall, reasoning.Call{ID: "call_1", Name: "get_weather"}, `{"city":`)
		result.Finish = reasoning.FinishLength
	case t.answered && has("again slow"):
		t.segment(reasoning.Answer, none, "working")
		<-ctx.Done()
		return ctx.Err()
	case t.answered && has("again fail"):
		return backend.ErrBroken
	case has("again slow"), has("again fail"):
		t.segment(reasoning.Answer, none, "the first answer")
	case last.Content == "model":
		t.segment(reasoning.Answer, none, fmt.Sprintf("%s with %d messages, template %q", t.path, len(t.req.Messages),
			t.template))
	case last.Content == "seed":
		t.segment(reasoning.Answer, none, fmt.Sprintf("seed %d of %d messages", *t.req.Seed, len(t.req.Messages)))
	case has("echo"):
		t.segment(reasoning.Answer, none, last.Content)
	case has("request"):
		b, err := json.Marshal(t.req)
		if err != nil {
			return err
		}
		t.segment(reasoning.Answer, none, string(b))
	case has("how many messages"):
		t.segment(reasoning.Answer, none, fmt.Sprintf("%d messages", len(t.req.Messages)))
	case has("escape"):
		t.segment(reasoning.Reasoning, none, "\x1b]0;title\x07think")
		t.segment(reasoning.Answer, none, "\x1b[31mred\x1b[0m\ttab\rover \u202etxt")
	case has("plan"):
		t.segment(reasoning.Answer, none, t.plan(last.Content))
	case has("weather"):
		t.segment(reasoning.Preamble, none, "Let me look.")
		if t.req.Rationale && t.req.Visibility == reasoning.VisibilityFull {
			t.emit(reasoning.Event{Kind: reasoning.Decided, Call: reasoning.Call{ID: "call_1", Name: "get_weather"},
				Decision: &reasoning.Decision{
					Iteration: 1, Decision: reasoning.DecisionToolSelection, ToolName: "get_weather",
					Rationale: reasoning.Rationale{Why: "it knows"}}})
		}
		t.segment(reasoning.ToolCall, reasoning.Call{ID: "call_1", Name: "get_weather"}, `{"city":`, `"Paris"}`)
		result.Finish = reasoning.FinishToolCalls
	case has("malformed"):
		t.emit(reasoning.Event{Kind: reasoning.Warning, Code: "malformed_header", Text: "a header was\nmalformed"})
		t.segment(reasoning.Answer, none, "kept")
	case has("ponder"):
		t.segment(reasoning.Reasoning, none, "On the one hand")
		result.Finish = reasoning.FinishLength
	case has("form cut"):
		t.segment(reasoning.Answer, none, `{"name":"`)
		t.emit(reasoning.Event{Kind: reasoning.Warning, Code: generation.CodeFormCut, Text: "a stop string cut the answer"})
		result.Detail, result.StopString = reasoning.DetailStopString, t.req.Stop[0]
	case has("cut"):
		t.segment(reasoning.Answer, none, "half an ans")
		result.Finish = reasoning.FinishLength
	case has("fail at once"):
		return backend.ErrBroken
	case has("slow"):
		t.segment(reasoning.Answer, none, "working")
		<-ctx.Done()
		return ctx.Err()
	case has("count"):
		for i := range 100_000 {
			if t.segment(reasoning.Answer, none, strconv.Itoa(i)+"\n"); t.ended {
				break
			}
		}
	case has("summary after"):
		t.segment(reasoning.Answer, none, "42")
		t.segment(reasoning.Summary, none, "Adding gives 42.")
	default:
		t.segment(reasoning.Reasoning, none, "17 plus 25 ", "makes 42.")
		t.segment(reasoning.Summary, none, "Adding gives 42.")
		t.segment(reasoning.Answer, none, "4", "2")
		if t.req.Visibility == reasoning.VisibilitySummary {
			result.SummarySource, result.Usage.Summary = "reasoning", 5
		}
	}
	return ctx.Err()
}
