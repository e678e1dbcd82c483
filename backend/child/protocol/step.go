package protocol

import (
	"encoding/binary"
	"math"
	"slices"

	"runner/backend"
)

// Flags of an input.
const (
	FlagSample = 1 << iota
	FlagMasked
	FlagLogits
	FlagHidden
)

const (
	inputSize  = 40 + 4*backend.NumSettings
	outputSize = 16
	// countShift is where a number of drafts begins in the field of the flags, and in that of the scores.
	countShift = 16
)

// Input is one input of a step.
type Input struct {
	// Sequence is the number of the sequence, and Length its length before the step.
	Sequence, Length int
	Tokens, Targets  []backend.Token
	TargetTop        int
	Flags            uint32
	// Drafts are the tokens of the drafts, whose masks come like the input's own.
	Drafts []backend.Token
	// Sampling is not set without FlagSample.
	Sampling backend.Sampling
}

// AppendInput appends an input to the two parts of a step's frame. The head begins with the number of inputs, see
// AppendCount.
func AppendInput(head, raw []byte, in *Input) ([]byte, []byte) {
	s, le := &in.Sampling, binary.LittleEndian
	seen := s.Seen
	if w := s.PenaltyWindow; w > 0 && w < len(seen) {
		seen = seen[len(seen)-w:]
	}
	for _, v := range [...]int{in.Sequence, in.Length, len(in.Tokens), len(in.Targets), in.TargetTop, len(seen),
		len(s.Bias), int(in.Flags) | len(in.Drafts)<<countShift} {
		head = le.AppendUint32(head, uint32(v))
	}
	head = le.AppendUint64(head, s.Seed)
	for _, x := range s.Settings() {
		if x.Int != nil {
			head = le.AppendUint32(head, uint32(*x.Int))
		} else {
			head = appendFloat(head, *x.Float)
		}
	}
	for _, list := range [...][]backend.Token{in.Tokens, in.Targets, seen, in.Drafts} {
		raw = AppendTokens(raw, list)
	}
	for _, b := range s.Bias {
		raw = appendFloat(le.AppendUint32(raw, uint32(b.Token)), b.Bias)
	}
	return head, raw
}

// AppendCount appends the number of inputs or outputs that begins a head.
func AppendCount(head []byte, n int) []byte { return binary.LittleEndian.AppendUint32(head, uint32(n)) }

func appendFloat(b []byte, f float32) []byte {
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
}

// AppendTokens appends the ids of tokens.
func AppendTokens(b []byte, tokens []backend.Token) []byte {
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return b
}

// Tokens reads the ids of tokens.
func Tokens(raw []byte) ([]backend.Token, error) {
	p := part{b: raw}
	list := p.tokens(make([]backend.Token, 0, len(raw)/4), len(raw)/4)
	if len(p.b) > 0 {
		return nil, bad("%d bytes of tokens", len(raw))
	}
	return list, nil
}

// Step is a decoded step. It keeps its memory for the next one.
type Step struct {
	Inputs []Input
	tokens []backend.Token
	biases []backend.TokenBias
}

// Decode reads a step with at most most inputs.
func (s *Step) Decode(f Frame, most int) error {
	head, raw := part{b: f.Head}, part{b: f.Raw}
	n := head.int()
	if head.bad || n > most || len(head.b) != n*inputSize {
		return bad("a step of %d inputs in %d bytes; the model has %d sequences", n, len(f.Head), most)
	}
	// The memory must not move while inputs point into it.
	s.tokens, s.biases = slices.Grow(s.tokens[:0], len(f.Raw)/4), slices.Grow(s.biases[:0], len(f.Raw)/8)
	s.Inputs = slices.Grow(s.Inputs[:0], n)[:n]
	drafts := 0
	for i := range s.Inputs {
		s.input(&s.Inputs[i], &head, &raw)
		drafts += len(s.Inputs[i].Drafts)
	}
	switch {
	case raw.bad || len(raw.b) > 0:
		return bad("a step whose tokens and biases are not %d bytes", len(f.Raw))
	case drafts > backend.MaxTargets:
		return bad("a step with %d drafts, at most %d", drafts, backend.MaxTargets)
	}
	return nil
}

// input decodes the next input.
func (s *Step) input(in *Input, head, raw *part) {
	n := [8]int{}
	for i := range n {
		n[i] = head.int()
	}
	in.Sequence, in.Length, in.TargetTop, in.Flags = n[0], n[1], n[4], uint32(n[7])&(1<<countShift-1)
	c := &in.Sampling
	c.Seed = head.uint64()
	for _, x := range c.Settings() {
		if x.Int != nil {
			*x.Int = int(int32(head.uint32()))
		} else {
			*x.Float = head.float()
		}
	}
	for _, list := range [...]struct {
		to *[]backend.Token
		n  int
	}{{&in.Tokens, n[2]}, {&in.Targets, n[3]}, {&c.Seen, n[5]}, {&in.Drafts, n[7] >> countShift}} {
		from := len(s.tokens)
		s.tokens = raw.tokens(s.tokens, list.n)
		*list.to = slices.Clip(s.tokens[from:])
	}
	from := len(s.biases)
	for i := 0; i < n[6] && !raw.bad; i++ {
		s.biases = append(s.biases, backend.TokenBias{Token: raw.token(), Bias: raw.float()})
	}
	c.Bias = slices.Clip(s.biases[from:])
}

// part reads one of the two parts of a frame. After a value that is not there, bad is set, and all values are zero.
type part struct {
	b   []byte
	bad bool
}

// need reports whether n bytes are there.
func (p *part) need(n int) bool {
	p.bad = p.bad || n > len(p.b)
	return !p.bad
}

func (p *part) uint32() (v uint32) {
	if p.need(4) {
		v, p.b = binary.LittleEndian.Uint32(p.b), p.b[4:]
	}
	return v
}

func (p *part) uint64() uint64 { return uint64(p.uint32()) | uint64(p.uint32())<<32 }

func (p *part) int() int { return int(p.uint32()) }

func (p *part) float() float32 { return math.Float32frombits(p.uint32()) }

func (p *part) token() backend.Token { return backend.Token(p.uint32()) }

// tokens appends n tokens.
func (p *part) tokens(dst []backend.Token, n int) []backend.Token {
	if !p.need(4 * n) {
		return dst
	}
	for i := range n {
		dst = append(dst, backend.Token(binary.LittleEndian.Uint32(p.b[4*i:])))
	}
	p.b = p.b[4*n:]
	return dst
}

// AppendOutput appends what a step returns for an input to the two parts of a stepped frame, without the hidden
// states, which come after all inputs, see AppendHidden. The head begins with the number of inputs and the
// microseconds that the engine computed. logits are nil if they were not asked for.
func AppendOutput(head, raw []byte, out *backend.Output, logits []float32) ([]byte, []byte) {
	le := binary.LittleEndian
	head = appendFloat(le.AppendUint32(head, uint32(out.Token)), out.Logprob)
	counts := uint32(len(out.Scores)) | uint32(len(out.More))<<countShift
	head = le.AppendUint32(le.AppendUint32(head, uint32(len(out.Top))), counts)
	raw = appendTop(raw, out.Top)
	for i := range out.Scores {
		s := &out.Scores[i]
		raw = appendFloat(raw, s.Logprob)
		raw = le.AppendUint32(le.AppendUint32(raw, uint32(s.Rank)), uint32(len(s.Top)))
		raw = appendTop(raw, s.Top)
	}
	for i := range out.More {
		o := &out.More[i]
		raw = appendFloat(le.AppendUint32(raw, uint32(o.Token)), o.Logprob)
		raw = appendTop(le.AppendUint32(raw, uint32(len(o.Top))), o.Top)
	}
	for _, v := range logits {
		raw = appendFloat(raw, v)
	}
	return head, raw
}

// AppendHidden appends a sum of hidden states.
func AppendHidden(raw []byte, hidden []float64) []byte {
	for _, v := range hidden {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(v))
	}
	return raw
}

// AppendMask appends a mask.
func AppendMask(raw []byte, m backend.Mask) []byte {
	for _, w := range m {
		raw = binary.LittleEndian.AppendUint64(raw, w)
	}
	return raw
}

// DecodeMask reads a mask frame for an input into m.
func DecodeMask(f Frame, input int, m backend.Mask) error {
	head := part{b: f.Head}
	if i := head.int(); len(f.Head) != 4 || i != input || len(f.Raw) != 8*len(m) {
		return bad("a mask of %d bytes for input %d, not %d bytes for input %d", len(f.Raw), i, 8*len(m), input)
	}
	for k := range m {
		m[k] = binary.LittleEndian.Uint64(f.Raw[8*k:])
	}
	return nil
}

func appendTop(b []byte, top []backend.TokenLogprob) []byte {
	for _, p := range top {
		b = appendFloat(binary.LittleEndian.AppendUint32(b, uint32(p.Token)), p.Logprob)
	}
	return b
}

// DecodeStepped reads the outputs of a step into outputs, the logits into the buffers of inputs, and adds the
// hidden states to theirs. vocab is the size of the vocabulary. rows says that the engine does not sample, so that
// the logits are in the shared file. It returns the microseconds that the engine computed. After an error outputs
// and buffers of logits may have changed, but no hidden state has.
func DecodeStepped(f Frame, inputs []backend.Input, outputs []backend.Output, vocab int, rows bool) (us int,
	err error) {
	head, raw := part{b: f.Head}, part{b: f.Raw}
	if n := head.int(); n != len(inputs) || len(f.Head) != 8+n*outputSize {
		return 0, bad("a stepped frame of %d outputs in %d bytes for %d inputs", n, len(f.Head), len(inputs))
	}
	us = head.int()
	hidden := 0
	for i := range inputs {
		if !decodeOutput(&head, &raw, &inputs[i], &outputs[i], vocab, rows) {
			return us, bad("the output for input %d of a step", i)
		}
		hidden += len(inputs[i].Hidden)
	}
	if len(raw.b) != hidden*8 {
		return us, bad("%d bytes for %d values of hidden states", len(raw.b), hidden)
	}
	for i := range inputs {
		to := inputs[i].Hidden
		for k := range to {
			to[k] += math.Float64frombits(raw.uint64())
		}
	}
	return us, nil
}

// decodeOutput reads the output for an input, without the hidden states. It reports whether the output is valid.
func decodeOutput(head, raw *part, in *backend.Input, out *backend.Output, vocab int, rows bool) bool {
	out.Reset()
	token, logprob := head.token(), head.float()
	top, counts := head.int(), head.uint32()
	scores, right := int(counts&(1<<countShift-1)), int(counts>>countShift)
	asked, targets := in.Sampling != nil, len(in.Targets)
	if rows {
		asked, targets = false, 0
	}
	switch {
	case asked && (token < 0 || int(token) >= vocab), !asked && token != backend.NoToken:
		return false
	case top > 0 && !asked, scores != targets, right > 0 && !asked, right > len(in.Drafts):
		return false
	}
	out.Token, out.Logprob = token, logprob
	out.Top = raw.top(out.Top, top, vocab)
	for range scores {
		s := out.NextScore()
		s.Logprob, s.Rank = raw.float(), raw.int()
		s.Top = raw.top(s.Top[:0], raw.int(), vocab)
	}
	for i := range right { // what was sampled after drafts
		if in.Drafts[i].Token != token {
			return false
		}
		o := out.NextMore()
		o.Token, o.Logprob = raw.token(), raw.float()
		o.Top = raw.top(o.Top, raw.int(), vocab)
		if token = o.Token; token < 0 || int(token) >= vocab {
			return false
		}
	}
	if logits := in.Logits; !rows && raw.need(4*len(logits)) {
		for i := range logits {
			logits[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw.b[4*i:]))
		}
		raw.b = raw.b[4*len(logits):]
	}
	return !raw.bad
}

// top appends n tokens of a vocabulary with their log probabilities.
func (p *part) top(dst []backend.TokenLogprob, n, vocab int) []backend.TokenLogprob {
	p.bad = p.bad || n > backend.MaxTopLogprobs
	for i := 0; i < n && !p.bad; i++ {
		x := backend.TokenLogprob{Token: p.token(), Logprob: p.float()}
		p.bad = p.bad || x.Token < 0 || int(x.Token) >= vocab
		dst = append(dst, x)
	}
	return dst
}
