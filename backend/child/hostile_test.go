package child

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"runner/backend"
	"runner/backend/child/protocol"
)

// hostile is an engine in this process. It answers every request with the next frame of its script, whatever was asked.
type hostile struct {
	script []byte
	last   byte // what it does after the script
	rest   []byte
	shared *os.File
}

// What a hostile engine does after its script.
const (
	ends   = iota // like a process that crashed
	silent        // it reads requests and answers nothing
	mute          // it does not read any more
	again         // it ends, and the next process begins the script again
	manners
)

// more marks a frame of a script that the next one follows at once. No kind has this bit.
const more = 1 << 31

// begin starts the engine. A second process goes on in the same script, unless its end says again.
func (h *hostile) begin(Program) (*process, error) {
	theirIn, out := net.Pipe()
	in, theirOut := net.Pipe()
	shared, err := sharedFile()
	if err != nil {
		return nil, err
	}
	if h.last%manners == again || h.rest == nil {
		h.rest = bytes.Clone(h.script)
	}
	h.shared = shared
	p := &process{in: in, out: out, shared: shared, said: &tail{}, pid: os.Getpid(), ended: make(chan struct{})}
	killed := make(chan struct{})
	p.end = sync.OnceFunc(func() {
		close(killed)
		theirIn.Close()
		theirOut.Close()
	})
	go func() {
		h.talk(theirIn, theirOut, killed)
		theirIn.Close()
		theirOut.Close()
		close(p.ended)
	}()
	return p, nil
}

// talk serves one process.
func (h *hostile) talk(in io.Reader, out io.Writer, killed <-chan struct{}) {
	r := protocol.NewReader(in)
	for len(h.rest) > 0 {
		f, err := r.Next()
		if err != nil || f.Kind == protocol.KindShutdown {
			return
		}
		if f.Kind == protocol.KindMasks || f.Kind == protocol.KindCancel {
			continue
		}
		if f.Kind == protocol.KindStep && runtime.GOOS == "linux" {
			_ = h.shared.Truncate(0) // it is sealed if there are logits in it
		}
		if _, err := out.Write(h.next()); err != nil {
			return
		}
	}
	switch h.last % manners {
	case silent:
		_, _ = io.Copy(io.Discard, in)
	case mute:
		<-killed
	}
}

// next takes the answer to one request from the script.
func (h *hostile) next() []byte {
	var b []byte
	for len(h.rest) > 0 {
		size, again := len(h.rest), false
		if size >= 12 {
			le := binary.LittleEndian
			kind := le.Uint32(h.rest)
			if n := 12 + uint64(le.Uint32(h.rest[4:])) + uint64(le.Uint32(h.rest[8:])); n < uint64(size) {
				size = int(n)
			}
			again = kind&more != 0
			le.PutUint32(h.rest, kind&^more)
		}
		b = append(b, h.rest[:size]...)
		h.rest = h.rest[size:]
		if !again {
			break
		}
	}
	return b
}

// script collects frames.
type script struct{ bytes.Buffer }

func (s *script) json(kind protocol.Kind, head any, raw []byte) *script {
	if err := protocol.NewWriter(&s.Buffer).WriteJSON(kind, head, raw); err != nil {
		panic(err)
	}
	return s
}

// stepped adds the answer to a step of some inputs. Each has a token, some scores and, with scores, logits.
func (s *script) stepped(inputs int, token backend.Token, scores int) *script {
	f := protocol.Frame{Kind: protocol.KindStepped, Head: protocol.AppendCount(protocol.AppendCount(nil, inputs), 5)}
	out := backend.Output{Token: token, Logprob: -1, Scores: make([]backend.TargetScore, scores)}
	var logits []float32
	if scores > 0 {
		logits = make([]float32, vocabulary)
	}
	for range inputs {
		f.Head, f.Raw = protocol.AppendOutput(f.Head, f.Raw, &out, logits)
	}
	if err := protocol.NewWriter(&s.Buffer).Write(f); err != nil {
		panic(err)
	}
	return s
}

// decoded adds the answer to a step of a sequence that only takes a token, and of one that is sampled.
func (s *script) decoded(token backend.Token) *script {
	f := protocol.Frame{Kind: protocol.KindStepped, Head: protocol.AppendCount(protocol.AppendCount(nil, 2), 5)}
	for _, t := range []backend.Token{backend.NoToken, token} {
		f.Head, f.Raw = protocol.AppendOutput(f.Head, f.Raw, &backend.Output{Token: t}, nil)
	}
	if err := protocol.NewWriter(&s.Buffer).Write(f); err != nil {
		panic(err)
	}
	return s
}

func (s *script) done(kept int) *script {
	return s.json(protocol.KindDone, protocol.Done{Kept: kept}, nil)
}

const vocabulary = 20

// pieces is a vocabulary of tokens of one letter. The last one is a control token.
func pieces() (raw []byte) {
	for i := range vocabulary {
		raw = append(binary.LittleEndian.AppendUint32(append(raw, 0), 1), byte('a'+i))
	}
	raw[len(raw)-6] = 1
	return raw
}

// opened begins a script with a model.
func opened(samples bool) *script {
	return loaded(samples, 2).json(protocol.KindTokens, protocol.Tokenize{ID: 1}, []byte{2, 0, 0, 0})
}

// loaded begins a script with the frames of a process that loads a model.
func loaded(samples bool, sequences int) *script {
	s := &script{}
	s.json(protocol.KindEngineHello, protocol.Hello{Protocol: protocol.Version, Engine: "e", Samples: samples,
		Tokenizes: true}, nil)
	s.json(protocol.KindProgress|more, protocol.Progress{Fraction: 0.5}, nil)
	s.json(protocol.KindLoaded, protocol.Loaded{Info: backend.Info{ContextSize: 64, Sequences: sequences, BatchSize: 16},
		Vocabulary: protocol.Vocabulary{Tokens: vocabulary, BOS: -1, EOS: 1, End: []backend.Token{1}}}, pieces())
	if !samples {
		s.done(0)
	}
	return s
}

func (s *script) raw(text string) *script {
	s.WriteString(text)
	return s
}

func (s *script) then(other *script) *script {
	s.Write(other.Bytes())
	return s
}

// works are scripts of engines that behave well.
func works() []*script {
	return []*script{
		opened(true).done(0).stepped(1, 3, 2).done(1).done(0).decoded(3).done(0).stepped(1, -1, 0).done(0),
		opened(false).done(0).stepped(1, -1, 0).done(1).done(0).decoded(-1).done(0).stepped(1, -1, 0).done(0),
	}
}

// attacks are scripts of engines that do not.
func attacks() []*script {
	const crash = protocol.Kind(99)
	canceled := protocol.Error{Code: "canceled"}
	five := 5
	list := []*script{
		{},
		new(script).raw("This is no frame, although it is long enough to be taken for one."),
		loaded(true, 2), // no tokens
		loaded(true, 1<<12),
		new(script).json(protocol.KindEngineHello, protocol.Hello{Protocol: protocol.Version}, nil).
			json(protocol.KindProgress|more, protocol.Progress{Fraction: 7}, nil).then(loaded(true, 2)),
		loaded(true, 2).json(protocol.KindTokens, protocol.Tokenize{ID: 2}, nil),
		loaded(true, 2).json(protocol.KindTokens, protocol.Tokenize{ID: 1}, []byte{2}),
		opened(true).done(0).stepped(1, 3, 2).done(-1),
		opened(true).done(0).stepped(1, 3, 2).done(4),
		opened(true).done(0).stepped(1, vocabulary, 2),
		opened(true).done(0).stepped(2, 3, 2),
		opened(true).done(0).json(protocol.KindError, canceled, nil).json(protocol.KindError, canceled, nil).
			json(protocol.KindError, canceled, nil),
		opened(true).done(0).json(protocol.KindError, protocol.Error{Code: "bad_token", Input: &five}, nil),
		opened(true).done(0).stepped(1, 3, 2).json(protocol.KindDone|more, protocol.Done{Kept: 1}, nil).done(0),
	}
	// The second process has another kind of engine, or other sizes.
	for _, samples := range []bool{false, true} {
		for _, again := range []bool{false, true} {
			for sequences := 1; sequences <= 3; sequences++ {
				list = append(list, opened(samples).json(crash, nil, nil).then(loaded(again, sequences)).done(0).stepped(1, -1, 0))
			}
		}
	}
	return list
}

// TestTextIsNoControlToken checks that a control token in an engine's answer to a text is an error.
func TestTextIsNoControlToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := loaded(true, 2).json(protocol.KindTokens, protocol.Tokenize{ID: 1}, []byte{2, 0, 0, 0, vocabulary - 1, 0, 0, 0})
		m, err := Engine{begin: (&hostile{script: s.Bytes()}).begin}.Open(t.Context(), "model", backend.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if tokens, err := m.Tokenize(nil, "text"); err == nil || len(tokens) > 0 {
			t.Errorf("Tokenize gives %v, %v", tokens, err)
		}
	})
}

// useAll makes every kind of request of a model, in the order of the scripts. It returns the errors that came.
func useAll(t *testing.T, h *hostile) (errs []error) {
	defer time.AfterFunc(6*time.Hour, func() { panic("a call waits without end") }).Stop()
	m, err := Engine{begin: h.begin}.Open(t.Context(), "model", backend.Config{Progress: func(f float32) bool {
		if !(f >= 0 && f <= 1) {
			t.Errorf("a fraction of %v", f)
		}
		return true
	}})
	var load *backend.LoadError
	errs = append(errs, err)
	if err != nil && (!errors.As(err, &load) || load.Advice == "" && load.Detail == "") {
		t.Errorf("Open: error %#v, want a *backend.LoadError", err)
	}
	if err != nil {
		return errs
	}
	defer m.Close()
	check := func(what string, err error, inputs int) {
		errs = append(errs, err)
		var in *backend.InputError
		switch {
		case err == nil:
		case errors.As(err, &in) && (in.Index < 0 || in.Index >= inputs):
			t.Errorf("%s: error about input %d of %d", what, in.Index, inputs)
		case errors.Is(err, context.Canceled):
			t.Errorf("%s: %v, but nobody canceled", what, err)
		case (isCrash(err) || errors.Is(err, protocol.ErrFrame)) && !errors.Is(err, backend.ErrCrashed):
			t.Errorf("%s: %v is not a backend.ErrCrashed", what, err)
		}
	}
	_, err = m.Tokenize(nil, "text")
	check("Tokenize", err, 0)
	time.Sleep(time.Minute) // an engine without work may be silent
	s, err := m.NewSequence()
	if err != nil {
		return append(errs, err)
	}
	tokens := []backend.Token{2, 3, 4}
	in := []backend.Input{{Sequence: s, Tokens: tokens, Targets: tokens[:2], TargetTop: 1,
		Sampling: &backend.Sampling{Temperature: 1, TopLogprobs: 2}, Constraint: evenTokens{}}}
	if m.Vocab().Len() < 1<<10 {
		in[0].Logits = make([]float32, m.Vocab().Len())
		in[0].Hidden = make([]float64, m.Info().EmbeddingLength)
	}
	out := make([]backend.Output, 2)
	check("Step", m.Step(t.Context(), in, out), 1)
	kept, err := s.Truncate(1)
	check("Truncate", err, 0)
	if kept < 0 || kept > len(s.Tokens()) {
		t.Errorf("%d tokens are kept of %d", kept, len(s.Tokens()))
	}
	list := []backend.Input{{Sequence: s, Tokens: tokens[:1]}}
	f, err := s.Fork()
	check("Fork", err, 0)
	if err == nil {
		list = append(list, backend.Input{Sequence: f, Tokens: tokens[:1], Sampling: &backend.Sampling{}})
	}
	check("Step of two", m.Step(t.Context(), list, out[:len(list)]), len(list))
	if err == nil {
		f.Close()
	}
	check("last step", m.Step(t.Context(), list[:1], out[:1]), 1)
	s.Close()
	return errs
}

// TestScriptsOfEngines: the scripts are what they should be. Those that work give no error, the others give one.
func TestScriptsOfEngines(t *testing.T) {
	for i, s := range works() {
		synctest.Test(t, func(t *testing.T) {
			if err := errors.Join(useAll(t, &hostile{script: s.Bytes(), last: silent})...); err != nil {
				t.Errorf("script %d: %v", i, err)
			}
		})
	}
	for i, s := range attacks() {
		synctest.Test(t, func(t *testing.T) {
			if errors.Join(useAll(t, &hostile{script: s.Bytes()})...) == nil {
				t.Errorf("attack %d gives no error", i)
			}
		})
	}
}

// FuzzHostileEngine gives the runner an engine that answers nonsense, ends or is silent. Every call returns with an
// error of its kind, nothing panics, and no goroutine, descriptor or much memory is left. Time is not real, so that
// waiting for a silent engine takes none. The bubble fails if something waits without end.
func FuzzHostileEngine(f *testing.F) {
	for last := range byte(manners) {
		for _, s := range append(works(), attacks()...) {
			f.Add(last, s.Bytes())
		}
	}
	f.Fuzz(func(t *testing.T, last byte, script []byte) {
		files := descriptors()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		synctest.Test(t, func(t *testing.T) { useAll(t, &hostile{script: script, last: last}) })
		runtime.ReadMemStats(&after)
		if now := descriptors(); now > files {
			t.Errorf("%d descriptors, %d before", now, files)
		}
		const most = 64 << 20
		if took := after.TotalAlloc - before.TotalAlloc; took > most+uint64(1000*len(script)) {
			t.Errorf("it took %d MiB for a script of %d bytes", took>>20, len(script))
		}
	})
}

// descriptors counts this process's open files, or returns 0 if the system does not list them.
func descriptors() int {
	list, _ := os.ReadDir("/dev/fd")
	return len(list)
}
