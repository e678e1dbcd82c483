package protocol

import (
	"encoding/binary"
	"math"

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
	inputSize  = 80
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
	head = appendFloat(head, s.Temperature)
	head = le.AppendUint32(head, uint32(s.TopK))
	for _, v := range [...]float32{s.TopP, s.MinP, s.TypicalP, s.RepetitionPenalty, s.PresencePenalty,
		s.FrequencyPenalty} {
		head = appendFloat(head, v)
	}
	head = le.AppendUint32(head, uint32(s.PenaltyWindow))
	head = le.AppendUint32(head, uint32(int32(s.TopLogprobs)))
	raw = appendTokens(raw, in.Tokens)
	raw = appendTokens(raw, in.Targets)
	raw = appendTokens(raw, seen)
	raw = appendTokens(raw, in.Drafts)
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

func appendTokens(b []byte, tokens []backend.Token) []byte {
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return b
}

// Step is a decoded step. It keeps its memory for the next one.
type Step struct {
	Inputs []Input
	tokens []backend.Token
	biases []backend.TokenBias
}

// Decode reads a step with at most most inputs.
func (s *Step) Decode(f Frame, most int) error {
	p := parts{f.Head, f.Raw}
	n, ok := p.count()
	if !ok || n > most || len(p.head) != n*inputSize {
		return bad("a step of %d inputs in %d bytes; the model has %d sequences", n, len(f.Head), most)
	}
	tokens, drafts, biases := 0, 0, 0
	for i := range n { // the memory must not move while inputs point into it
		at := p.head[i*inputSize:]
		for _, offset := range [...]int{8, 12, 20} {
			tokens += int(binary.LittleEndian.Uint32(at[offset:]))
		}
		biases += int(binary.LittleEndian.Uint32(at[24:]))
		drafts += int(binary.LittleEndian.Uint32(at[28:]) >> countShift)
	}
	if tokens += drafts; drafts > backend.MaxTargets {
		return bad("a step with %d drafts, at most %d", drafts, backend.MaxTargets)
	}
	if tokens*4+biases*8 != len(f.Raw) {
		return bad("a step with %d tokens and %d biases in %d bytes", tokens, biases, len(f.Raw))
	}
	if cap(s.Inputs) < n {
		s.Inputs = make([]Input, n)
	}
	if cap(s.tokens) < tokens {
		s.tokens = make([]backend.Token, 0, tokens+tokens/2)
	}
	if cap(s.biases) < biases {
		s.biases = make([]backend.TokenBias, 0, biases)
	}
	s.Inputs, s.tokens, s.biases = s.Inputs[:n], s.tokens[:0], s.biases[:0]
	for i := range n {
		s.input(&s.Inputs[i], &p)
	}
	return nil
}

// input decodes the next input. Its lengths have been checked.
func (s *Step) input(in *Input, p *parts) {
	n := [8]int{}
	for i := range n {
		n[i] = int(p.uint32())
	}
	in.Sequence, in.Length, in.TargetTop, in.Flags = n[0], n[1], n[4], uint32(n[7])&(1<<countShift-1)
	c := &in.Sampling
	c.Seed = p.uint64()
	c.Temperature, c.TopK = p.float(), int(p.uint32())
	c.TopP, c.MinP, c.TypicalP = p.float(), p.float(), p.float()
	c.RepetitionPenalty, c.PresencePenalty, c.FrequencyPenalty = p.float(), p.float(), p.float()
	c.PenaltyWindow, c.TopLogprobs = int(p.uint32()), int(int32(p.uint32()))
	in.Tokens, in.Targets, c.Seen = s.take(p, n[2]), s.take(p, n[3]), s.take(p, n[5])
	in.Drafts = s.take(p, n[7]>>countShift)
	from := len(s.biases)
	for range n[6] {
		t := backend.Token(binary.LittleEndian.Uint32(p.raw))
		s.biases = append(s.biases, backend.TokenBias{Token: t, Bias: math.Float32frombits(
			binary.LittleEndian.Uint32(p.raw[4:]))})
		p.raw = p.raw[8:]
	}
	c.Bias = s.biases[from:len(s.biases):len(s.biases)]
}

func (s *Step) take(p *parts, n int) []backend.Token {
	from := len(s.tokens)
	for i := range n {
		s.tokens = append(s.tokens, backend.Token(binary.LittleEndian.Uint32(p.raw[4*i:])))
	}
	p.raw = p.raw[4*n:]
	return s.tokens[from:len(s.tokens):len(s.tokens)]
}

// parts reads the two parts of a frame. Callers check lengths first.
type parts struct{ head, raw []byte }

func (p *parts) uint32() uint32 {
	v := binary.LittleEndian.Uint32(p.head)
	p.head = p.head[4:]
	return v
}

func (p *parts) uint64() uint64 {
	v := binary.LittleEndian.Uint64(p.head)
	p.head = p.head[8:]
	return v
}

func (p *parts) float() float32 { return math.Float32frombits(p.uint32()) }

func (p *parts) count() (int, bool) {
	if len(p.head) < 4 {
		return 0, false
	}
	return int(p.uint32()), true
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
	p := parts{f.Head, f.Raw}
	i, ok := p.count()
	if !ok || len(f.Head) != 4 || i != input || len(f.Raw) != 8*len(m) {
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
	p := parts{f.Head, f.Raw}
	n, ok := p.count()
	if !ok || n != len(inputs) || len(f.Head) != 8+n*outputSize {
		return 0, bad("a stepped frame of %d outputs in %d bytes for %d inputs", n, len(f.Head), len(inputs))
	}
	us = int(p.uint32())
	hidden := 0
	for i := range inputs {
		if !decodeOutput(&p, &inputs[i], &outputs[i], vocab, rows) {
			return us, bad("the output for input %d of a step", i)
		}
		hidden += len(inputs[i].Hidden)
	}
	if len(p.raw) != hidden*8 {
		return us, bad("%d bytes for %d values of hidden states", len(p.raw), hidden)
	}
	for i := range inputs {
		to := inputs[i].Hidden
		for k := range to {
			to[k] += math.Float64frombits(binary.LittleEndian.Uint64(p.raw[8*k:]))
		}
		p.raw = p.raw[8*len(to):]
	}
	return us, nil
}

// decodeOutput reads the output for an input, without the hidden states. It reports whether the output is valid.
func decodeOutput(p *parts, in *backend.Input, out *backend.Output, vocab int, rows bool) bool {
	out.Reset()
	token, logprob := backend.Token(p.uint32()), p.float()
	top, counts := int(p.uint32()), p.uint32()
	scores, right := int(counts&(1<<countShift-1)), int(counts>>countShift)
	asked, targets := in.Sampling != nil, len(in.Targets)
	if rows {
		asked, targets = false, 0
	}
	switch {
	case asked && (token < 0 || int(token) >= vocab), !asked && token != backend.NoToken:
		return false
	case top > 0 && !asked, scores != targets, right > 0 && !asked:
		return false
	}
	out.Token, out.Logprob = token, logprob
	var ok bool
	if out.Top, ok = p.top(out.Top, top, vocab); !ok {
		return false
	}
	for range scores {
		if len(p.raw) < 12 {
			return false
		}
		s, le := out.NextScore(), binary.LittleEndian
		s.Logprob, s.Rank = math.Float32frombits(le.Uint32(p.raw)), int(le.Uint32(p.raw[4:]))
		n := int(le.Uint32(p.raw[8:]))
		p.raw = p.raw[12:]
		if s.Top, ok = p.top(s.Top[:0], n, vocab); !ok {
			return false
		}
	}
	if !p.drafts(in, out, right, vocab) {
		return false
	}
	if rows {
		return true
	}
	if len(p.raw) < 4*len(in.Logits) {
		return false
	}
	for i := range in.Logits {
		in.Logits[i] = math.Float32frombits(binary.LittleEndian.Uint32(p.raw[4*i:]))
	}
	p.raw = p.raw[4*len(in.Logits):]
	return true
}

// drafts reads what was sampled after the drafts that were right. It reports whether that is valid.
func (p *parts) drafts(in *backend.Input, out *backend.Output, right, vocab int) (ok bool) {
	last, le := out.Token, binary.LittleEndian
	for i := range right {
		if i >= len(in.Drafts) || in.Drafts[i].Token != last || len(p.raw) < 12 {
			return false
		}
		o := out.NextMore()
		last = backend.Token(le.Uint32(p.raw))
		o.Token, o.Logprob = last, math.Float32frombits(le.Uint32(p.raw[4:]))
		n := int(le.Uint32(p.raw[8:]))
		p.raw = p.raw[12:]
		if last < 0 || int(last) >= vocab {
			return false
		}
		if o.Top, ok = p.top(o.Top, n, vocab); !ok {
			return false
		}
	}
	return true
}

// top appends n tokens with their log probabilities. It reports whether they are valid.
func (p *parts) top(dst []backend.TokenLogprob, n, vocab int) ([]backend.TokenLogprob, bool) {
	if n > backend.MaxTopLogprobs || n > len(p.raw)/8 {
		return dst, false
	}
	for i := range n {
		t := backend.Token(binary.LittleEndian.Uint32(p.raw[8*i:]))
		if t < 0 || int(t) >= vocab {
			return dst, false
		}
		dst = append(dst, backend.TokenLogprob{Token: t, Logprob: math.Float32frombits(
			binary.LittleEndian.Uint32(p.raw[8*i+4:]))})
	}
	p.raw = p.raw[8*n:]
	return dst, true
}
