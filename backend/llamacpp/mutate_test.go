package llamacpp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/gguf"
	"runner/models/random"
	"runner/models/random/ggufwriter"
)

// otherKinds are complete models, other than gpt-oss, from which mutations start.
var otherKinds = []string{"llama", "qwen3", "gemma2", "gemma3", "qwen3moe"}

// smallest is the smallest model with this shape, for mutation.
var smallest = random.Config{Layers: 2, Width: 32, Heads: 2, KVHeads: 1, HeadSize: 32, Experts: 2, Used: 1,
	FeedForward: 32, Vocabulary: 300, Context: 256, Window: 16}

// parts is a model as separate parts.
type parts struct {
	metadata []ggufwriter.Pair
	tensors  []gguf.Tensor
	data     []byte // of all tensors, without padding
}

func takeApart(raw []byte) (*parts, error) {
	f, err := gguf.Read(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return nil, err
	}
	p := &parts{tensors: f.Tensors}
	for _, kv := range f.Metadata {
		p.metadata = append(p.metadata, ggufwriter.Pair{Key: kv.Key, Value: plain(kv.Value)})
	}
	for _, t := range f.Tensors {
		p.data = append(p.data, raw[f.DataOffset+t.Offset:f.DataOffset+t.Offset+t.Size]...)
	}
	return p, nil
}

func plain(v gguf.Value) any {
	if s, ok := v.String(); ok {
		return s
	}
	if b, ok := v.Bool(); ok {
		return b
	}
	if a, ok := v.Array(); ok {
		if a.Type() == gguf.String {
			return a.Strings()
		}
		n := make([]int32, a.Len())
		for i := range n {
			x, _ := a.Int(i)
			n[i] = int32(x)
		}
		return n
	}
	if n, ok := v.Int(); ok {
		return uint32(n)
	}
	x, _ := v.Float()
	return float32(x)
}

// put writes the model with as much data as its tensors need.
func (p *parts) put() ([]byte, error) {
	var b bytes.Buffer
	w, err := ggufwriter.New(&b, p.metadata, p.tensors)
	if err != nil {
		return nil, err
	}
	need := int64(0)
	for i := range p.tensors {
		elements, size := p.tensors[i].Type.Block()
		need += p.tensors[i].Elements() / elements * size
	}
	if need > 1<<22 {
		return nil, errors.New("too large")
	}
	data := append(append([]byte(nil), p.data...), make([]byte, need)...)[:need]
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// mutated returns variant n of a model: changed in dangerous places, mostly so that the file stays well-formed.
func mutated(raw []byte, n uint64) []byte {
	r := rand.New(rand.NewPCG(n, 77))
	if r.IntN(8) == 0 {
		return mutatedBytes(raw, r)
	}
	p, err := takeApart(raw)
	if err != nil {
		panic(err)
	}
	switch r.IntN(8) {
	case 0:
		p.becomeAnother(r)
	case 1, 2, 3:
		p.becomeDense(otherKinds[r.IntN(len(otherKinds))])
		if r.IntN(2) == 0 {
			p.becomeSentencePiece()
		}
	}
	for range 1 + r.IntN(3) {
		if r.IntN(3) > 0 {
			p.mutateMetadata(r)
		} else {
			p.mutateTensor(r)
		}
	}
	out, err := p.put()
	if err != nil {
		return mutatedBytes(raw, r)
	}
	return out
}

func mutatedBytes(raw []byte, r *rand.Rand) []byte {
	out := append([]byte(nil), raw...)
	for range 1 + r.IntN(4) {
		switch at := r.IntN(min(len(out), 12000)); r.IntN(3) {
		case 0:
			out[at] = byte(r.IntN(256))
		case 1:
			out[at] ^= 1 << r.IntN(8)
		default:
			out = append(out[:at], out[min(len(out), at+1+r.IntN(8)):]...)
		}
	}
	return out
}

// becomeAnother changes the model's architecture and the prefix of its keys.
func (p *parts) becomeAnother(r *rand.Rand) {
	names := builtin.Architectures()
	name := names[r.IntN(len(names))]
	for i := range p.metadata {
		kv := &p.metadata[i]
		if kv.Key == "general.architecture" {
			kv.Value = name
		}
		kv.Key = strings.Replace(kv.Key, "gpt-oss.", name+".", 1)
	}
}

// becomeDense turns the model into a complete one of another architecture with the same sizes.
func (p *parts) becomeDense(arch string) {
	for i := range p.metadata {
		if p.metadata[i].Key == "general.architecture" {
			p.metadata[i].Value = arch
		}
		p.metadata[i].Key = strings.Replace(p.metadata[i].Key, "gpt-oss.", arch+".", 1)
	}
	if arch != "qwen3moe" {
		p.drop(arch+".expert_count", arch+".expert_used_count", arch+".expert_feed_forward_length")
	}
	p.set(arch+".rope.scaling.type", "linear")
	layers := 2
	if arch == "gemma3" {
		layers = 6 // so that one of them has full attention
	}
	p.set(arch+".block_count", uint32(layers))
	var list []gguf.Tensor
	add := func(name string, dims ...int64) {
		list = append(list, gguf.Tensor{Name: name, Type: gguf.F32, Dims: dims})
	}
	const width, q, kv, ahead, experts = 32, 64, 32, 32, 2
	add("token_embd.weight", width, 300)
	add("output_norm.weight", width)
	if !strings.HasPrefix(arch, "gemma") {
		add("output.weight", width, 300)
	}
	for l := range layers {
		b := fmt.Sprintf("blk.%d.", l)
		add(b+"attn_norm.weight", width)
		add(b+"attn_q.weight", width, q)
		add(b+"attn_k.weight", width, kv)
		add(b+"attn_v.weight", width, kv)
		add(b+"attn_output.weight", q, width)
		add(b+"ffn_norm.weight", width)
		if arch == "qwen3moe" {
			add(b+"ffn_gate_inp.weight", width, experts)
			add(b+"ffn_gate_exps.weight", width, ahead, experts)
			add(b+"ffn_up_exps.weight", width, ahead, experts)
			add(b+"ffn_down_exps.weight", ahead, width, experts)
		} else {
			add(b+"ffn_gate.weight", width, ahead)
			add(b+"ffn_up.weight", width, ahead)
			add(b+"ffn_down.weight", ahead, width)
		}
		if arch != "llama" && arch != "gemma2" {
			add(b+"attn_q_norm.weight", 32)
			add(b+"attn_k_norm.weight", 32)
		}
		if strings.HasPrefix(arch, "gemma") {
			add(b+"post_attention_norm.weight", width)
			add(b+"post_ffw_norm.weight", width)
		}
	}
	p.tensors, p.data = list, nil
}

// becomeSentencePiece replaces the merges by a vocabulary with scores and byte tokens.
func (p *parts) becomeSentencePiece() {
	tokens, types, scores := []string{"<unk>", "<s>", "</s>"}, []int32{2, 3, 3}, []float32{0, 0, 0}
	for b := range 256 {
		tokens, types = append(tokens, fmt.Sprintf("<0x%02X>", b)), append(types, 6)
	}
	for i := len(tokens); i < 300; i++ {
		tokens, types = append(tokens, "▁"+string(rune('A'+i-259))), append(types, 1)
	}
	for len(scores) < len(tokens) {
		scores = append(scores, -float32(len(scores)))
	}
	p.set("tokenizer.ggml.model", "llama")
	p.set("tokenizer.ggml.tokens", tokens)
	p.set("tokenizer.ggml.token_type", types)
	p.set("tokenizer.ggml.bos_token_id", uint32(1))
	p.set("tokenizer.ggml.eos_token_id", uint32(2))
	p.drop("tokenizer.ggml.merges", "tokenizer.ggml.pre")
	p.metadata = append(p.metadata, ggufwriter.Pair{Key: "tokenizer.ggml.scores", Value: scores})
}

func (p *parts) drop(keys ...string) {
	var kept []ggufwriter.Pair
	for _, kv := range p.metadata {
		if !slices.Contains(keys, kv.Key) {
			kept = append(kept, kv)
		}
	}
	p.metadata = kept
}

var awkward = []any{uint32(0), uint32(1), uint32(3), uint32(31), uint32(513), uint32(1 << 16), uint32(math.MaxInt32),
	uint32(math.MaxUint32), int32(-1), float32(0),
	float32(math.NaN()), float32(math.Inf(1)), float32(-1), float32(1e30), "", "none", "linear", "longrope", "x", true,
	uint64(math.MaxUint64), int64(-5), uint8(200),
	[]int32{}, []int32{1, 2}, []int32{-1, math.MaxInt32}, []int32{0, 0}, []string{}, []string{"a"}, []string{"", ""},
	[]float32{1, 2}, []uint8{1}}

// moreKeys are keys that some architecture or tokenizer of the engine reads.
var moreKeys = []string{"A.rope.dimension_count", "A.rope.dimension_sections", "A.attention.causal", "A.pooling_type",
	"A.expert_shared_count", "A.leading_dense_block_count",
	"A.ssm.conv_kernel", "A.ssm.inner_size", "A.ssm.state_size", "A.ssm.time_step_rank", "A.ssm.group_count",
	"A.attention.q_lora_rank", "A.attention.kv_lora_rank",
	"A.attention.key_length_mla", "A.attention.value_length_mla", "A.expert_group_count", "A.expert_group_used_count",
	"A.expert_gating_func", "A.expert_weights_scale", "A.vocab_size",
	"A.attention.layer_norm_epsilon", "A.attention.clamp_kqv", "A.attention.max_alibi_bias", "A.logit_scale",
	"A.embedding_scale", "A.residual_scale", "A.attention.scale",
	"A.attn_logit_softcapping", "A.final_logit_softcapping", "A.rope.scaling.yarn_log_multiplier", "A.wkv.head_size",
	"A.token_shift_count", "A.use_parallel_residual",
	"A.interleave_moe_layer_step", "A.attention.group_norm_groups", "A.nextn_predict_layers",
	"A.embedding_length_per_layer_input", "A.shortconv.l_cache", "A.moe_every_n_layers",
	"A.attention.sliding_window_pattern", "A.full_attention_interval", "A.rope.scaling.attn_factor", "A.altup.active_idx",
	"A.n_deepstack_layers", "A.activation_sparsity_scale",
	"tokenizer.ggml.scores", "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.eot_token_id",
	"tokenizer.ggml.eom_token_id", "tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.seperator_token_id",
	"tokenizer.ggml.precompiled_charsmap", "tokenizer.ggml.add_space_prefix", "tokenizer.ggml.remove_extra_whitespaces",
	"tokenizer.ggml.token_type_count", "tokenizer.ggml.mask_token_id",
	"tokenizer.chat_template", "split.count", "split.no", "split.tensors.count", "general.alignment", "general.file_type",
	"general.quantization_version", "adapter.type", "general.type"}

var tokenizers = []string{"gpt2", "llama", "bert", "t5", "rwkv", "plamo2", "no_vocab", "none", "replit", "default", ""}
var pretokenizers = []string{"gpt-4o", "gpt-2", "llama-bpe", "qwen2", "default", "deepseek-llm", "deepseek-v3",
	"tekken", "kimi-k2", "viking", "x", "", "superbpe", "bailingmoe", "chatglm-bpe"}

func (p *parts) mutateMetadata(r *rand.Rand) {
	i := r.IntN(len(p.metadata))
	kv := &p.metadata[i]
	arch := ""
	for _, kv := range p.metadata {
		if kv.Key == "general.architecture" {
			arch, _ = kv.Value.(string)
		}
	}
	switch r.IntN(10) {
	case 0:
		p.metadata = append(p.metadata[:i], p.metadata[i+1:]...)
	case 1, 2:
		key := strings.Replace(moreKeys[r.IntN(len(moreKeys))], "A.", arch+".", 1)
		p.metadata = append(p.metadata, ggufwriter.Pair{Key: key, Value: awkward[r.IntN(len(awkward))]})
	case 3:
		p.set("tokenizer.ggml.model", tokenizers[r.IntN(len(tokenizers))])
	case 4:
		p.set("tokenizer.ggml.pre", pretokenizers[r.IntN(len(pretokenizers))])
	case 5, 6: // inside an array
		switch a := kv.Value.(type) {
		case []string:
			if len(a) > 0 {
				a[r.IntN(len(a))] = []string{"", "a", " ", "a b c", "\xff\xfe", "<0x41>", "<|end|>", "中", strings.Repeat("z", 3000),
					a[0]}[r.IntN(10)]
			}
			if r.IntN(3) == 0 {
				kv.Value = a[:r.IntN(len(a)+1)]
			}
		case []int32:
			if len(a) > 0 {
				a[r.IntN(len(a))] = int32(r.Uint32() >> (r.IntN(4) * 8))
			}
			if r.IntN(3) == 0 {
				kv.Value = a[:r.IntN(len(a)+1)]
			}
		default:
			kv.Value = awkward[r.IntN(len(awkward))]
		}
	case 7:
		if n, ok := kv.Value.(uint32); ok {
			kv.Value = n + uint32(r.IntN(5)) - 2
			return
		}
		fallthrough
	default:
		kv.Value = awkward[r.IntN(len(awkward))]
	}
}

// set replaces the value of a key, if the file has it.
func (p *parts) set(key string, value any) {
	for i := range p.metadata {
		if p.metadata[i].Key == key {
			p.metadata[i].Value = value
		}
	}
}

// add is set, or adds the key.
func (p *parts) add(key string, value any) {
	if !slices.ContainsFunc(p.metadata, func(kv ggufwriter.Pair) bool { return kv.Key == key }) {
		p.metadata = append(p.metadata, ggufwriter.Pair{Key: key})
	}
	p.set(key, value)
}

func (p *parts) mutateTensor(r *rand.Rand) {
	if len(p.tensors) == 0 {
		return
	}
	i := r.IntN(len(p.tensors))
	t := &p.tensors[i]
	t.Dims = append([]int64(nil), t.Dims...)
	switch r.IntN(7) {
	case 0:
		p.tensors = append(p.tensors[:i], p.tensors[i+1:]...)
	case 1:
		t.Dims[r.IntN(len(t.Dims))] = []int64{1, 2, 32, 64, 96, 300, 1 << 12}[r.IntN(7)]
	case 2:
		t.Dims = append(t.Dims, int64(1+r.IntN(3)))
		if len(t.Dims) > 4 {
			t.Dims = t.Dims[:4]
		}
	case 3:
		t.Type = gguf.TensorType(r.IntN(40))
	case 4:
		t.Name = []string{"x", "output.weight", "rope_freqs.weight", "blk.0.ffn_down.weight", "blk.0.ssm_in.weight",
			"blk.99.attn_q.weight", "blk.-1.x", strings.Repeat("n", 63), strings.Repeat("n", 64),
			strings.Repeat("n", 200)}[r.IntN(10)]
	case 5:
		t.Dims[0], t.Dims[len(t.Dims)-1] = t.Dims[len(t.Dims)-1], t.Dims[0]
	default:
		p.tensors = append(p.tensors, gguf.Tensor{Name: fmt.Sprintf("blk.%d.%s", r.IntN(3),
			[]string{"attn_q_norm.weight", "attn_qkv.weight", "ffn_up.weight",
				"ffn_norm.weight", "attn_rot_embd", "ffn_gate_up_exps.weight", "attn_sinks.bias", "bskcn_tv",
				"nextn.eh_proj.weight"}[r.IntN(9)]), Type: gguf.F32, Dims: []int64{32}})
	}
}

// try opens a file and, if that works, uses it a little. Any result is fine as long as the process lives and errors
// are typed. The counts show whether variants reach the engine.
func try(path string, reached map[string]int) error {
	m, err := Open(context.Background(), path, backend.Config{Threads: 1, ContextSize: 64, Sequences: 2, BatchSize: 16})
	if err != nil {
		var e *backend.LoadError
		if !errors.As(err, &e) || e.Advice == "" || e.Error() == "" {
			return fmt.Errorf("error without type or advice: %w", err)
		}
		if strings.HasPrefix(e.Detail, "the engine") {
			reached["refused by the engine"]++
		} else {
			reached["refused before the engine"]++
			if os.Getenv("RUNNER_WHY") != "" {
				fmt.Println(e.Detail)
			}
		}
		return nil
	}
	defer m.Close()
	reached["opened"]++
	tokens, err := m.Tokenize(nil, "The quick 42 中 <|end|> \xff")
	if err != nil {
		tokens = nil
	}
	tokens = append(tokens, 1, 2)
	s, err := m.NewSequence()
	if err != nil {
		return err
	}
	defer s.Close()
	out := make([]backend.Output, 1)
	for i := range min(len(tokens), 4) {
		// Broken weights may give NaN logits; that is an error, not a crash.
		if err := m.Step(context.Background(), []backend.Input{{Sequence: s, Tokens: tokens[i : i+1],
			Sampling: &backend.Sampling{}}}, out); err != nil {
			return nil
		}
	}
	f, err := s.Fork()
	if err == nil {
		f.Close()
	}
	s.Truncate(2)
	return nil
}

// TestMutatedFiles opens broken and odd models in a separate process, so that an abort of the engine is noticed and
// attributed to a variant.
func TestMutatedFiles(t *testing.T) {
	if spec := os.Getenv("RUNNER_MUTATE"); spec != "" {
		mutateChild(t, spec)
		return
	}
	count := uint64(400)
	if os.Getenv("RUNNER_LONG") != "" {
		count = 20000
	}
	first := uint64(0)
	if s := os.Getenv("RUNNER_MUTATE_COUNT"); s != "" {
		count, _ = strconv.ParseUint(s, 10, 64)
	}
	if s := os.Getenv("RUNNER_MUTATE_FIRST"); s != "" {
		first, _ = strconv.ParseUint(s, 10, 64)
	}
	for n, last := first, first+count; n < last; {
		done, output := runChild(t, n, last)
		if done == last {
			break
		}
		t.Errorf("variant %d ended the process:\n%s", done, output)
		n = done + 1
	}
}

// variantTimeout is far longer than any variant takes; a variant that takes longer hangs.
const variantTimeout = time.Minute

// runChild tries variants from n on and returns the one at which the process died, or last.
func runChild(t *testing.T, n, last uint64) (done uint64, output string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stuck := time.AfterFunc(variantTimeout, cancel)
	defer stuck.Stop()
	c := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestMutatedFiles$", "-test.timeout=30m")
	c.Env = append(os.Environ(), fmt.Sprintf("RUNNER_MUTATE=%d,%d", n, last), "GGML_NO_BACKTRACE=1")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	done = n
	var tail []string
	for s := bufio.NewScanner(stdout); s.Scan(); {
		if v, ok := strings.CutPrefix(s.Text(), "variant "); ok {
			stuck.Reset(variantTimeout)
			done, _ = strconv.ParseUint(v, 10, 64)
		} else {
			tail = append(tail, s.Text())
		}
	}
	err = c.Wait()
	if err == nil {
		return last, ""
	}
	text := strings.Join(tail, "\n") + stderr.String()
	return done, text[:min(len(text), 6000)]
}

// TestOtherKinds runs a model of each architecture and of both families of vocabulary, unmutated.
func TestOtherKinds(t *testing.T) {
	for _, arch := range otherKinds {
		for _, pieces := range []bool{false, true} {
			path := rewritten(t, func(p *parts) {
				p.becomeDense(arch)
				if pieces {
					p.becomeSentencePiece()
				}
			})
			m := openModel(t, path, backend.Config{ContextSize: 64})
			if m.pure == nil {
				t.Errorf("%s, sentence pieces %t: package tokenizer does not read it", arch, pieces)
			}
			tokens, err := m.Tokenize(nil, "A B\n\xff</s>C")
			if err != nil {
				t.Fatalf("%s: %v", arch, err)
			}
			s, err := m.NewSequence()
			if err != nil {
				t.Fatal(err)
			}
			// All weights are zero, so all logits are zero and the lowest id wins.
			out := make([]backend.Output, 1)
			if err := m.Step(context.Background(), []backend.Input{{Sequence: s, Tokens: tokens, Sampling: &backend.Sampling{}}},
				out); err != nil || out[0].Token != 0 {
				t.Errorf("%s: token %d, %v", arch, out[0].Token, err)
			}
			text := ""
			for _, id := range tokens {
				text += m.Vocab().Piece(id)
			}
			if strings.TrimPrefix(text, " ") != "A B\n\xff</s>C" {
				t.Errorf("%s, sentence pieces %t: the tokens spell %q", arch, pieces, text)
			}
		}
	}
}

func mutateChild(t *testing.T, spec string) {
	var from, to uint64
	if _, err := fmt.Sscanf(spec, "%d,%d", &from, &to); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	raw, err := os.ReadFile(writeModel(t, smallest))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "mutated.gguf")
	reached := map[string]int{}
	for n := from; n < to; n++ {
		fmt.Printf("variant %d\n", n)
		if err := os.WriteFile(path, mutated(raw, n), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := try(path, reached); err != nil {
			t.Fatalf("variant %d: %v", n, err)
		}
	}
	if n := int(to - from); n >= 400 && (reached["opened"] < n/50 || reached["refused by the engine"] < n/5) {
		t.Errorf("of %d variants too few reach the engine: %v", n, reached)
	}
	fmt.Println(reached)
}
