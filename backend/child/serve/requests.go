package serve

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"runner/backend"
	"runner/backend/child/protocol"
)

func jsonFrame(kind protocol.Kind, head any) (protocol.Frame, error) {
	b, err := json.Marshal(head)
	return protocol.Frame{Kind: kind, Head: b}, err
}

// inherited is the model's file if the runner has opened it. It implements backend.Files.
type inherited struct{ *os.File }

func (f *inherited) Held() *os.File { return f.File }

// Unchanged leaves that to the runner.
func (f *inherited) Unchanged() error { return nil }

func (s *server) hello() (protocol.Frame, error) {
	var h protocol.Hello
	if err := s.frame.JSON(&h); err != nil {
		return protocol.Frame{}, err
	}
	if h.Protocol != protocol.Version {
		return protocol.Frame{}, fmt.Errorf("the runner speaks version %d of the protocol, this engine version %d",
			h.Protocol,
			protocol.Version)
	}
	return jsonFrame(protocol.KindEngineHello, protocol.Hello{Protocol: protocol.Version, Engine: s.engine.Name,
		Version: s.engine.Version, Samples: true, Tokenizes: true, About: s.engine.About})
}

// load loads the model. A second model is refused.
func (s *server) load() (protocol.Frame, error) {
	var l protocol.Load
	if err := s.frame.JSON(&l); err != nil {
		return protocol.Frame{}, err
	}
	if s.model != nil {
		return protocol.Frame{}, fmt.Errorf("a model is loaded already")
	}
	cfg := l.Config
	switch l.File {
	case 0:
	case protocol.FileModel:
		if s.file.File == nil { // a second one would close it with the first
			s.file.File = os.NewFile(protocol.FileModel, l.Path)
		}
		cfg.Files = &s.file
	default:
		return protocol.Frame{}, fmt.Errorf("descriptor %d is not the model's file", l.File)
	}
	last := time.Now()
	cfg.Progress = func(fraction float32) bool {
		if time.Since(last) > every/2 || fraction == 1 {
			last = time.Now()
			_ = s.out.WriteJSON(protocol.KindProgress, protocol.Progress{Fraction: fraction}, nil)
		}
		return true
	}
	m, err := s.engine.Open(s.context(), l.Path, cfg)
	if err != nil {
		return protocol.Frame{}, err
	}
	info := m.Info()
	s.sequences = make([]backend.Sequence, info.Sequences)
	s.inputs = make([]backend.Input, 0, info.Sequences)
	s.outputs = make([]backend.Output, info.Sequences)
	s.hidden, s.logits = make([][]float64, info.Sequences), make([][]float32, info.Sequences)
	s.masked, s.masks = newMasks(info.Sequences+backend.MaxTargets, m.Vocab().Len(), s.life.Done())
	s.model = m
	s.most.Store(int32(info.Sequences))
	head, raw := protocol.LoadedOf(m)
	if i := m.Info(); s.engine.Progress != nil && i.GPULayers == 0 {
		head.Parts = i.Layers
	}
	answer, err := jsonFrame(protocol.KindLoaded, head)
	answer.Raw = raw
	return answer, err
}

// sequence carries out the requests about one sequence.
func (s *server) sequence(kind protocol.Kind) (protocol.Frame, error) {
	var q protocol.Sequence
	if err := s.frame.JSON(&q); err != nil {
		return protocol.Frame{}, err
	}
	valid := func(n int) bool { return n >= 0 && n < len(s.sequences) }
	if !valid(q.Sequence) || !valid(q.From) {
		return protocol.Frame{}, fmt.Errorf("there is no sequence %d", q.Sequence)
	}
	at := &s.sequences[q.Sequence]
	makes := kind == protocol.KindNew || kind == protocol.KindFork
	if makes != (*at == nil) || kind == protocol.KindFork && s.sequences[q.From] == nil {
		return protocol.Frame{}, fmt.Errorf("sequence %d is open or closed when it should not be", q.Sequence)
	}
	done := protocol.Done{}
	var err error
	switch kind {
	case protocol.KindNew:
		*at, err = s.model.NewSequence()
	case protocol.KindFork:
		*at, err = s.sequences[q.From].Fork()
	case protocol.KindTruncate:
		done.Kept, err = (*at).Truncate(q.Length)
	case protocol.KindFree:
		(*at).Close()
		*at = nil
	}
	if err != nil {
		if makes {
			*at = nil
		}
		return protocol.Frame{}, err
	}
	return jsonFrame(protocol.KindDone, done)
}

// tokenize answers on a goroutine of its own, because a step may be under way.
func (s *server) tokenize(f protocol.Frame) error {
	var t protocol.Tokenize
	if err := f.JSON(&t); err != nil {
		return err
	}
	if s.most.Load() == 0 {
		return misplaced(f.Kind)
	}
	text := string(f.Raw)
	s.tasks.Go(func() {
		tokens, err := s.model.Tokenize(nil, text)
		if err != nil {
			t.Error = protocol.ErrorOf(err).Text
		}
		_ = s.out.WriteJSON(protocol.KindTokens, t, protocol.AppendTokens(nil, tokens))
	})
	return nil
}
