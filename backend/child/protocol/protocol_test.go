package protocol

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"runner/backend"
)

var update = flag.Bool("update", false, "write the golden file")

// sampling has a value in every field.
var sampling = backend.Sampling{Temperature: 0.5, TopK: 40, TopP: 0.25, MinP: 0.125, TypicalP: 0.75,
	RepetitionPenalty: 1.5,
	PresencePenalty:   -1, FrequencyPenalty: 2, Seen: []backend.Token{7, 8, 9}, PenaltyWindow: 2,
	Bias: []backend.TokenBias{{Token: 3, Bias: -100}}, Seed: 0x0102030405060708, TopLogprobs: -1}

func inputs() []Input {
	return []Input{
		{Sequence: 1, Length: 5, Tokens: []backend.Token{10, 11}, Targets: []backend.Token{12}, TargetTop: 2,
			Flags: FlagSample | FlagMasked, Sampling: sampling},
		{Sequence: 3, Tokens: []backend.Token{1}, Flags: FlagLogits | FlagHidden},
	}
}

// drafting has an input with drafts between others, and drafted what a step returns for them.
func drafting() []Input {
	list := append(inputs(), inputs()[0])
	list[1] = Input{Sequence: 2, Tokens: []backend.Token{4}, Flags: FlagSample | FlagMasked, Drafts: []backend.Token{5, 6},
		Sampling: sampling}
	return list
}

func drafted() []backend.Output {
	outputs := make([]backend.Output, 3)
	outputs[1] = backend.Output{Token: 5, Logprob: -0.5, More: []backend.Output{
		{Token: 7, Logprob: -0.25, Top: []backend.TokenLogprob{{Token: 7, Logprob: -0.25}}}}}
	return outputs
}

func stepFrame(list []Input) Frame {
	f := Frame{Kind: KindStep, Head: AppendCount(nil, len(list))}
	for i := range list {
		f.Head, f.Raw = AppendInput(f.Head, f.Raw, &list[i])
	}
	return f
}

func steppedFrame(outputs []backend.Output, logits []float32, hidden []float64) Frame {
	f := Frame{Kind: KindStepped, Head: AppendCount(AppendCount(nil, len(outputs)), 1234)}
	for i := range outputs {
		f.Head, f.Raw = AppendOutput(f.Head, f.Raw, &outputs[i], logits)
		logits = nil
	}
	f.Raw = AppendHidden(f.Raw, hidden)
	return f
}

// TestGoldenFrames compares every kind of frame with the bytes in testdata. Engines in other languages read and
// write the same bytes, so they may only change with the protocol's version.
func TestGoldenFrames(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	input := 2
	vocab, err := backend.NewVocab(backend.VocabConfig{Pieces: []string{"a", "<end>"},
		Kinds: []backend.TokenKind{backend.Normal, backend.Control}, BOS: backend.NoToken, EOS: 1, EOG: []backend.Token{1}})
	if err != nil {
		t.Fatal(err)
	}
	loaded, pieces := LoadedOf(model{vocab})
	loaded.Parts, loaded.Info.Layers = 24, 24
	frames := []struct {
		kind Kind
		head any
		raw  []byte
	}{
		{KindHello, Hello{Protocol: Version, Runner: "v1"}, nil},
		{KindLoad, Load{Path: "m.gguf", Config: backend.Config{ContextSize: 8, Sequences: 2, FlashAttention: "auto",
			Others: []int64{5}, Reserved: backend.Memory{Mapped: 30, Private: 20, Untouched: 10}}}, nil},
		{KindShare, Share{Rows: 36}, nil}, {KindNew, Sequence{Sequence: 2}, nil},
		{KindFork, Sequence{Sequence: 3, From: 2}, nil}, {KindTruncate, Sequence{Sequence: 2, Length: 100}, nil},
		{KindFree, Sequence{Sequence: 2}, nil}, {KindCancel, nil, nil}, {KindTokenize, Tokenize{ID: 7}, []byte("text")},
		{KindShutdown, nil, nil},
		{KindEngineHello, Hello{Protocol: Version, Engine: "e", Version: "1", Samples: true, Tokenizes: true}, nil},
		{KindLoaded, loaded, pieces}, {KindProgress, Progress{Count: 9}, nil}, {KindDone, Done{Kept: 100}, nil},
		{KindTokens, Tokenize{ID: 7}, []byte{1, 0, 0, 0}},
		{KindError, Error{Code: "cache_full", Input: &input, Text: "cache is full"}, nil},
		{KindEngineHello, Hello{Protocol: Version, Engine: "e", Version: "1", Samples: true, Tokenizes: true,
			About: About{Architectures: []string{"llama"}, Devices: []string{"GPU"}, Kernels: "AVX2", Missing: []string{"m"},
				Problem: "p"}}, nil},
	}
	for _, f := range frames {
		if err := w.WriteJSON(f.kind, f.head, f.raw); err != nil {
			t.Fatal(err)
		}
	}
	mask := backend.NewMask(70)
	mask.Set(69)
	outputs := []backend.Output{{Token: 5, Logprob: -0.5, Top: []backend.TokenLogprob{{Token: 5, Logprob: -0.5}},
		Scores: []backend.TargetScore{{Logprob: -1, Rank: 2, Top: []backend.TokenLogprob{{Token: 1, Logprob: -2}}}}},
		{Token: backend.NoToken}}
	for _, f := range []Frame{stepFrame(inputs()), {Kind: KindMasks, Head: AppendCount(nil, 0),
		Raw: AppendMask(nil, mask)},
		steppedFrame(outputs, []float32{1, 2}, []float64{3}),
		stepFrame(drafting()), steppedFrame(drafted(), nil, nil)} {
		if err := w.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	var got strings.Builder
	seen := map[Kind]bool{}
	r := NewReader(&b)
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		seen[f.Kind] = true
		head := string(f.Head)
		if !strings.HasPrefix(head, "{") {
			head = hex.EncodeToString(f.Head)
		}
		fmt.Fprintf(&got, "%d %s %s\n", f.Kind, head, hex.EncodeToString(f.Raw))
	}
	for k := KindHello; k <= KindError; k++ {
		if k.known() && !seen[k] {
			t.Errorf("no frame of kind %d", k)
		}
	}
	const file = "testdata/frames.golden"
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("the frames differ from %s:\n%s", file, got.String())
	}
}

// model has only what LoadedOf asks for.
type model struct{ vocab *backend.Vocab }

func (m model) Info() backend.Info {
	return backend.Info{Name: "m", Kernels: "k", ContextSize: 8, Sequences: 2, BatchSize: 4,
		Memory: backend.Memory{Mapped: 7, Private: 6}}
}

func (m model) Vocab() *backend.Vocab { return m.vocab }

func (m model) Capabilities() backend.Capabilities { return backend.Capabilities{Logits: true} }

func (model) Tokenize([]backend.Token, string) ([]backend.Token, error) { panic("not called") }

func (model) NewSequence() (backend.Sequence, error) { panic("not called") }

func (model) Step(context.Context, []backend.Input, []backend.Output) error { panic("not called") }

func (model) Close() error { panic("not called") }

// TestInfoRoundTrip checks that no field of a model's description is lost.
func TestInfoRoundTrip(t *testing.T) {
	var want backend.Info
	v := reflect.ValueOf(&want).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(v.Type().Field(i).Name)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Struct:
			for j := range f.NumField() {
				f.Field(j).SetInt(int64(100*i + j))
			}
		default:
			f.SetInt(int64(i + 1))
		}
	}
	var got Loaded
	var b bytes.Buffer
	if err := NewWriter(&b).WriteJSON(KindLoaded, Loaded{Info: want}, nil); err != nil {
		t.Fatal(err)
	}
	f, err := NewReader(&b).Next()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.JSON(&got); err != nil {
		t.Fatal(err)
	}
	want.Path, want.Key, want.Digest = "", "", "" // engines do not know them
	if got.Info != want {
		t.Errorf("%+v became %+v", want, got.Info)
	}
}

func TestStepRoundTrip(t *testing.T) {
	var s Step
	for _, want := range [][]Input{inputs(), drafting()} {
		if err := s.Decode(stepFrame(want), len(want)); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if seen := &want[i].Sampling.Seen; *seen != nil {
				*seen = (*seen)[1:] // the window is 2
			}
			a, b := fmt.Sprintf("%+v", s.Inputs[i]), fmt.Sprintf("%+v", want[i])
			if a != b {
				t.Errorf("input %d:\n%s\n%s", i, a, b)
			}
		}
	}
	if err := s.Decode(stepFrame(inputs()), 1); !errors.Is(err, ErrFrame) {
		t.Errorf("two inputs for one sequence: %v", err)
	}
	many := drafting()
	many[1].Drafts = make([]backend.Token, backend.MaxTargets+1)
	if err := s.Decode(stepFrame(many), 3); !errors.Is(err, ErrFrame) {
		t.Errorf("too many drafts: %v", err)
	}
}

// TestDraftsRoundTrip reads what was sampled after drafts, and refuses answers that cannot be.
func TestDraftsRoundTrip(t *testing.T) {
	in := make([]backend.Input, 3)
	for i := range in {
		in[i].Sampling = &backend.Sampling{}
	}
	in[1].Drafts = []backend.Draft{{Token: 5}, {Token: 6}}
	read := func(sent []backend.Output) ([]backend.Output, error) {
		got := make([]backend.Output, len(sent))
		_, err := DecodeStepped(steppedFrame(sent, nil, nil), in, got, 100, false)
		return got, err
	}
	got, err := read(drafted())
	if want := drafted(); err != nil || fmt.Sprintf("%+v", got[1]) != fmt.Sprintf("%+v", want[1]) {
		t.Errorf("%+v became %+v, %v", want[1], got[1], err)
	}
	for what, change := range map[string]func([]backend.Output){
		"another token than the draft": func(o []backend.Output) { o[1].Token = 6 },
		"more than the drafts":         func(o []backend.Output) { o[1].More = make([]backend.Output, 3) },
		"drafts that were not sent":    func(o []backend.Output) { o[0].More = o[1].More },
		"an unknown token":             func(o []backend.Output) { o[1].More[0].Token = 100 },
	} {
		wrong := drafted()
		change(wrong)
		if _, err := read(wrong); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestLoadedRoundTrip(t *testing.T) {
	v, err := backend.NewVocab(backend.VocabConfig{Pieces: []string{"a", "", "\xff", "<end>"}, Kinds: []backend.TokenKind{
		backend.Normal, backend.Unused, backend.Byte, backend.Control}, BOS: 0, EOS: 3, EOG: []backend.Token{3},
		AddBOS: true})
	if err != nil {
		t.Fatal(err)
	}
	l, raw := LoadedOf(model{v})
	got, err := l.Decode(raw)
	if err != nil || !reflect.DeepEqual(got, v) {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range raw {
		if _, err := l.Decode(raw[:n]); n > 0 && !errors.Is(err, ErrFrame) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	for name, change := range map[string]func(*backend.Info){
		"sequences":       func(i *backend.Info) { i.Sequences = 1 << 30 },
		"mapped memory":   func(i *backend.Info) { i.Memory.Mapped = 1 << 60 },
		"negative memory": func(i *backend.Info) { i.Memory.Private = -1 },
	} {
		bad := l
		change(&bad.Info)
		if _, err := bad.Decode(raw); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestErrorsRoundTrip: every error that package backend names is the same on the other end, with its text and input.
func TestErrorsRoundTrip(t *testing.T) {
	for _, c := range codes {
		err := error(&backend.InputError{Index: 3, Err: fmt.Errorf("more about it: %w", c.err)})
		e := ErrorOf(err)
		got := e.Backend("path")
		var in *backend.InputError
		if !errors.Is(got, c.err) || !errors.As(got, &in) || in.Index != 3 || got.Error() != err.Error() {
			t.Errorf("%v became %v", err, got)
		}
	}
	load := &backend.LoadError{Path: "path", Reason: backend.LoadTooBig, Detail: "needs more", Advice: "buy it"}
	e := ErrorOf(fmt.Errorf("wrapped: %w", load))
	if got := e.Backend("path"); !reflect.DeepEqual(got, load) {
		t.Errorf("%#v became %#v", load, got)
	}
}

func TestFramesHaveLimits(t *testing.T) {
	for name, b := range map[string][]byte{
		"kind 0": {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "kind 12": {12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"kind 71": {71, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "kind 14": {14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"kind 99": {99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "head": {1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0},
		"raw": {1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 32}, "short prologue": {1, 0, 0},
		"short head": {1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1},
		"short raw":  {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 1},
	} {
		if _, err := NewReader(bytes.NewReader(b)).Next(); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
	long := Frame{Kind: KindHello, Head: make([]byte, MaxHead+1)}
	if err := NewWriter(io.Discard).Write(long); !errors.Is(err, ErrFrame) {
		t.Errorf("writing too much: %v", err)
	}
}

// FuzzFrames reads and decodes hostile bytes. Nothing may panic, take much memory, or be accepted and then written
// differently.
func FuzzFrames(f *testing.F) {
	var b bytes.Buffer
	w := NewWriter(&b)
	_ = w.Write(stepFrame(inputs()))
	_ = w.Write(steppedFrame([]backend.Output{{Token: 5}}, nil, nil))
	_ = w.Write(Frame{Kind: KindMasks, Head: AppendCount(nil, 0), Raw: make([]byte, 16)})
	_ = w.WriteJSON(KindLoaded, Loaded{Vocabulary: Vocabulary{Tokens: 1}}, []byte{0, 1, 0, 0, 0, 'a'})
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(bytes.NewReader(b))
		var s Step
		masks := []backend.Mask{backend.NewMask(100), backend.NewMask(100)}
		for {
			frame, err := r.Next()
			if err != nil {
				return
			}
			switch frame.Kind {
			case KindStep:
				if s.Decode(frame, 8) == nil {
					again := stepFrame(s.Inputs)
					if !bytes.Equal(again.Head, frame.Head) && len(again.Raw) == len(frame.Raw) {
						t.Errorf("a step became another one:\n%x\n%x", frame.Head, again.Head)
					}
				}
			case KindMasks:
				_ = DecodeMask(frame, 0, masks[0])
			case KindStepped:
				in := []backend.Input{{Sampling: &backend.Sampling{}, Targets: []backend.Token{1}, Hidden: make([]float64, 1)}, {
					Logits: make([]float32, 2)}}
				for n := range 3 {
					_, _ = DecodeStepped(frame, in[:n], make([]backend.Output, n), 100, false)
					_, _ = DecodeStepped(frame, in[:n], make([]backend.Output, n), 100, true)
				}
			case KindLoaded:
				var l Loaded
				if frame.JSON(&l) == nil {
					_, _ = l.Decode(frame.Raw)
				}
			case KindError:
				var e Error
				if frame.JSON(&e) == nil {
					_ = e.Backend("").Error()
				}
			}
		}
	})
}
