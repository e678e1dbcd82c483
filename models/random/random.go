// Package random writes models with random weights, by default in the shape of gpt-oss: GGUF files that an engine loads
// and runs like a real model, with meaningless output. They are for tests of backends and for benchmarks. Their size
// ranges from a megabyte to that of the real model. The same Config always gives the same file.
package random

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"

	"runner/backend/gguf"
	"runner/models/random/ggufwriter"
)

// Config is the shape of a model. A zero field means the default, which is for a tiny model.
type Config struct {
	// Architecture is "gpt-oss", the default; "llama"; "qwen3moe"; "qwen35", whose layers alternate between recurrent ones
	// and full attention; or "gemma4", whose layers alternate like gpt-oss's, and of whose layers the last two use the
	// cache of two before. Only gpt-oss and qwen3moe have experts. All have the special tokens of gpt-oss; gemma4's other
	// tokens are in its own form.
	Architecture string
	// Layers is the number of layers. They alternate between a sliding window and full attention, starting with a
	// sliding window. 0 means 4.
	Layers int
	// Width is the size of the hidden state, a multiple of 32. 0 means 64.
	Width int
	// Heads and KVHeads have HeadSize values each. 0 means 4, 2 and 32. HeadSize is a multiple of 32.
	Heads, KVHeads, HeadSize int
	// Experts have FeedForward values each, and Used of them work on a token. 0 means 4, 64 and 2. FeedForward is a
	// multiple of 32.
	Experts, Used, FeedForward int
	// Vocabulary is the number of tokens. 0 means 512. With 201088 the special tokens have the ids of gpt-oss.
	Vocabulary int
	// Window is the sliding window in tokens. 0 means 128.
	Window int
	// Context is the trained context in tokens, as the file states it. 0 means 4096.
	Context int
	// Quant is the format of the matrices: "Q8_0", the default, "Q4_K", with Q6_K for the output, or another of quants.
	// gpt-oss's experts are MXFP4. With Q2_K, Q4_K, Q5_K, Q6_K and IQ4_XS, Width and FeedForward are multiples of 256.
	Quant string
	// Precise stores every weight as F32. An engine then rounds nothing, and two orders of the same sum differ only in
	// their last bits. Otherwise experts are MXFP4 and the other matrices Q8_0, as usual.
	Precise bool
	// Seed chooses the weights.
	Seed uint64
}

func (c Config) withDefaults() Config {
	if c.Architecture == "" {
		c.Architecture = "gpt-oss"
	}
	for _, f := range []struct {
		p   *int
		def int
	}{
		{&c.Layers, 4}, {&c.Width, 64}, {&c.Heads, 4}, {&c.KVHeads, 2}, {&c.HeadSize, 32}, {&c.Experts, 4}, {&c.Used, 2},
		{&c.FeedForward, 64}, {&c.Vocabulary, 512}, {&c.Window, 128}, {&c.Context, 4096},
	} {
		if *f.p == 0 {
			*f.p = f.def
		}
	}
	return c
}

// WriteFile writes a model to path. It removes the file if there is an error.
func WriteFile(path string, c Config) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			os.Remove(path)
		}
	}()
	return Write(f, c)
}

// Write writes a model. It uses at most a few megabytes of memory.
func Write(w io.Writer, c Config) error {
	c = c.withDefaults()
	if !slices.Contains([]string{"gpt-oss", "llama", "qwen3moe", "qwen35", "gemma4"}, c.Architecture) {
		return fmt.Errorf("no shape for the architecture %q", c.Architecture)
	}
	if _, ok := quants[c.Quant]; !ok && c.Quant != "" {
		return fmt.Errorf("no matrices in the format %q", c.Quant)
	}
	vocab, err := newVocabulary(c.Vocabulary, c.Architecture == "gemma4")
	if err != nil {
		return err
	}
	tensors := c.tensors()
	list := make([]gguf.Tensor, len(tensors))
	for i, t := range tensors {
		list[i] = t.Tensor
	}
	out, err := ggufwriter.New(w, c.metadata(vocab), list)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(out, 1<<20)
	r := rand.New(rand.NewPCG(c.Seed, 0x6770742d6f7373))
	for _, t := range tensors {
		if err := t.fill(b, r); err != nil {
			return err
		}
	}
	if err := b.Flush(); err != nil {
		return err
	}
	return out.Close()
}

func (c Config) metadata(v *vocabulary) []ggufwriter.Pair {
	tokenizer := "gpt2"
	if c.Architecture == "gemma4" {
		tokenizer = "gemma4"
	}
	return slices.Concat([]ggufwriter.Pair{
		{Key: "general.architecture", Value: c.Architecture},
		{Key: "general.name", Value: fmt.Sprintf("random %d", c.Seed)},
		{Key: "general.quantization_version", Value: uint32(2)},
	}, c.shape(), []ggufwriter.Pair{
		{Key: "tokenizer.ggml.model", Value: tokenizer},
		{Key: "tokenizer.ggml.pre", Value: "gpt-4o"},
		{Key: "tokenizer.ggml.tokens", Value: v.tokens},
		{Key: "tokenizer.ggml.token_type", Value: v.types},
		{Key: "tokenizer.ggml.merges", Value: v.merges},
		{Key: "tokenizer.ggml.bos_token_id", Value: v.id("<|startoftext|>")},
		{Key: "tokenizer.ggml.eos_token_id", Value: v.id("<|return|>")},
		{Key: "tokenizer.ggml.padding_token_id", Value: v.id("<|endoftext|>")},
		{Key: "tokenizer.ggml.add_bos_token", Value: false},
	})
}

// shape returns the metadata of the architecture.
func (c Config) shape() []ggufwriter.Pair {
	a := c.Architecture + "."
	if c.Architecture == "gpt-oss" {
		return []ggufwriter.Pair{
			{Key: a + "block_count", Value: uint32(c.Layers)},
			{Key: a + "context_length", Value: uint32(c.Context)},
			{Key: a + "embedding_length", Value: uint32(c.Width)},
			{Key: a + "feed_forward_length", Value: uint32(c.FeedForward)},
			{Key: a + "expert_feed_forward_length", Value: uint32(c.FeedForward)},
			{Key: a + "attention.head_count", Value: uint32(c.Heads)},
			{Key: a + "attention.head_count_kv", Value: uint32(c.KVHeads)},
			{Key: a + "attention.key_length", Value: uint32(c.HeadSize)},
			{Key: a + "attention.value_length", Value: uint32(c.HeadSize)},
			{Key: a + "attention.sliding_window", Value: uint32(c.Window)},
			{Key: a + "attention.layer_norm_rms_epsilon", Value: float32(1e-5)},
			{Key: a + "expert_count", Value: uint32(c.Experts)},
			{Key: a + "expert_used_count", Value: uint32(c.Used)},
			{Key: a + "rope.freq_base", Value: float32(150000)},
			{Key: a + "rope.scaling.type", Value: "yarn"},
			{Key: a + "rope.scaling.factor", Value: float32(32)},
			{Key: a + "rope.scaling.original_context_length", Value: uint32(4096)},
		}
	}
	pairs := []ggufwriter.Pair{
		{Key: a + "block_count", Value: uint32(c.Layers)},
		{Key: a + "context_length", Value: uint32(c.Context)},
		{Key: a + "embedding_length", Value: uint32(c.Width)},
		{Key: a + "feed_forward_length", Value: uint32(c.FeedForward)},
		{Key: a + "attention.head_count", Value: uint32(c.Heads)},
		{Key: a + "attention.head_count_kv", Value: uint32(c.KVHeads)},
		{Key: a + "attention.key_length", Value: uint32(c.HeadSize)},
		{Key: a + "attention.value_length", Value: uint32(c.HeadSize)},
		{Key: a + "attention.layer_norm_rms_epsilon", Value: float32(1e-5)},
		{Key: a + "rope.freq_base", Value: float32(1000000)},
		{Key: a + "rope.dimension_count", Value: uint32(c.HeadSize)},
	}
	switch c.Architecture {
	case "llama":
		return pairs
	case "qwen3moe":
		return append(pairs, []ggufwriter.Pair{
			{Key: a + "expert_feed_forward_length", Value: uint32(c.FeedForward)},
			{Key: a + "expert_count", Value: uint32(c.Experts)},
			{Key: a + "expert_used_count", Value: uint32(c.Used)},
		}...)
	case "qwen35":
		quarter := int32(c.HeadSize / 4)
		return append(pairs, []ggufwriter.Pair{
			{Key: a + "full_attention_interval", Value: uint32(2)},
			{Key: a + "rope.dimension_sections", Value: []int32{quarter, quarter / 2, quarter / 2, 0}},
			{Key: a + "ssm.conv_kernel", Value: uint32(convolution)},
			{Key: a + "ssm.state_size", Value: uint32(c.HeadSize)},
			{Key: a + "ssm.group_count", Value: uint32(c.KVHeads)},
			{Key: a + "ssm.time_step_rank", Value: uint32(c.Heads)},
			{Key: a + "ssm.inner_size", Value: uint32(c.Heads * c.HeadSize)},
		}...)
	}
	sliding := make([]bool, c.Layers)
	for i := range sliding {
		sliding[i] = i%2 == 0
	}
	return append(pairs, []ggufwriter.Pair{
		{Key: a + "attention.sliding_window", Value: uint32(c.Window)},
		{Key: a + "attention.sliding_window_pattern", Value: sliding},
		{Key: a + "attention.shared_kv_layers", Value: uint32(c.Layers - c.cached())},
		{Key: a + "attention.key_length_swa", Value: uint32(c.HeadSize)},
		{Key: a + "attention.value_length_swa", Value: uint32(c.HeadSize)},
		{Key: a + "rope.freq_base_swa", Value: float32(10000)},
		{Key: a + "embedding_length_per_layer_input", Value: uint32(perLayer)},
		{Key: a + "final_logit_softcapping", Value: float32(30)},
	}...)
}

const (
	convolution = 4  // width of qwen35's convolution in tokens
	perLayer    = 32 // width of gemma4's embeddings for each layer
)

// cached is the number of layers of gemma4 that have a cache of their own.
func (c Config) cached() int {
	if c.Layers >= 4 {
		return c.Layers - 2
	}
	return c.Layers
}

// tensor is a tensor with the standard deviation of its values. 0 means that all values are 1, and a negative number
// that all are this number.
type tensor struct {
	gguf.Tensor
	deviation float64
}

// list collects tensors.
type list struct {
	Config
	tensors []tensor
}

func (l *list) add(name string, t gguf.TensorType, deviation float64, dims ...int) {
	d := make([]int64, len(dims))
	for i, n := range dims {
		d[i] = int64(n)
	}
	if l.Precise {
		t = gguf.F32
	}
	l.tensors = append(l.tensors, tensor{gguf.Tensor{Name: name, Type: t, Dims: d}, deviation})
}

// in keeps the scale of the activations in a product with n inputs.
func in(n int) float64 { return 1 / math.Sqrt(float64(n)) }

func (c Config) tensors() []tensor {
	l := &list{Config: c}
	l.add("token_embd.weight", l.matrix(), 1, c.Width, c.Vocabulary)
	switch c.Architecture {
	case "gpt-oss":
		for i := range c.Layers {
			l.gptOSS(fmt.Sprintf("blk.%d.", i))
		}
	case "llama", "qwen3moe":
		for i := range c.Layers {
			l.plain(fmt.Sprintf("blk.%d.", i))
		}
	case "qwen35":
		for i := range c.Layers {
			l.qwen35(fmt.Sprintf("blk.%d.", i), i%2 == 0)
		}
	case "gemma4":
		l.add("rope_freqs.weight", gguf.F32, 0, c.HeadSize/2)
		l.add("per_layer_token_embd.weight", gguf.Q8_0, 1, perLayer*c.Layers, c.Vocabulary)
		l.add("per_layer_model_proj.weight", gguf.F32, in(c.Width), c.Width, perLayer*c.Layers)
		l.add("per_layer_proj_norm.weight", gguf.F32, 0, perLayer)
		for i := range c.Layers {
			l.gemma4(fmt.Sprintf("blk.%d.", i), i < c.cached())
		}
	}
	l.add("output_norm.weight", gguf.F32, 0, c.Width)
	output := l.matrix()
	if c.Quant == "Q4_K" {
		output = gguf.Q6_K
	}
	l.add("output.weight", output, 3*in(c.Width), c.Width, c.Vocabulary)
	return l.tensors
}

// matrix is the format of most matrices.
func (l *list) matrix() gguf.TensorType {
	if t, ok := quants[l.Quant]; ok {
		return t
	}
	return gguf.Q8_0
}

// quants are the formats that matrices can have.
var quants = map[string]gguf.TensorType{
	"F16": gguf.F16, "BF16": gguf.BF16, "Q8_0": gguf.Q8_0, "Q4_0": 2, "Q4_K": gguf.Q4_K, "Q5_K": 13, "Q6_K": gguf.Q6_K,
	"IQ4_NL": 20, "IQ4_XS": 23, "Q4_1": 3, "Q2_K": 10,
}

// plain is a layer of llama or qwen3moe.
func (l *list) plain(b string) {
	q, kv, m := l.Heads*l.HeadSize, l.KVHeads*l.HeadSize, l.matrix()
	l.add(b+"attn_norm.weight", gguf.F32, 0, l.Width)
	l.add(b+"attn_q.weight", m, in(l.Width), l.Width, q)
	l.add(b+"attn_k.weight", m, in(l.Width), l.Width, kv)
	l.add(b+"attn_v.weight", m, in(l.Width), l.Width, kv)
	l.add(b+"attn_output.weight", m, in(q), q, l.Width)
	l.add(b+"ffn_norm.weight", gguf.F32, 0, l.Width)
	if l.Architecture == "llama" {
		l.feedForward(b)
		return
	}
	l.add(b+"attn_q_norm.weight", gguf.F32, 0, l.HeadSize)
	l.add(b+"attn_k_norm.weight", gguf.F32, 0, l.HeadSize)
	l.add(b+"ffn_gate_inp.weight", gguf.F32, in(l.Width), l.Width, l.Experts)
	l.add(b+"ffn_gate_exps.weight", m, in(l.Width), l.Width, l.FeedForward, l.Experts)
	l.add(b+"ffn_up_exps.weight", m, in(l.Width), l.Width, l.FeedForward, l.Experts)
	l.add(b+"ffn_down_exps.weight", m, in(l.FeedForward), l.FeedForward, l.Width, l.Experts)
}

func (l *list) gptOSS(b string) {
	q, kv := l.Heads*l.HeadSize, l.KVHeads*l.HeadSize
	l.add(b+"attn_norm.weight", gguf.F32, 0, l.Width)
	l.add(b+"attn_q.weight", gguf.Q8_0, in(l.Width), l.Width, q)
	l.add(b+"attn_q.bias", gguf.F32, 0.1, q)
	l.add(b+"attn_k.weight", gguf.Q8_0, in(l.Width), l.Width, kv)
	l.add(b+"attn_k.bias", gguf.F32, 0.1, kv)
	l.add(b+"attn_v.weight", gguf.Q8_0, in(l.Width), l.Width, kv)
	l.add(b+"attn_v.bias", gguf.F32, 0.1, kv)
	l.add(b+"attn_output.weight", gguf.Q8_0, in(q), q, l.Width)
	l.add(b+"attn_output.bias", gguf.F32, 0.1, l.Width)
	l.add(b+"attn_sinks.weight", gguf.F32, 1, l.Heads)
	l.add(b+"post_attention_norm.weight", gguf.F32, 0, l.Width)
	l.add(b+"ffn_gate_inp.weight", gguf.F32, in(l.Width), l.Width, l.Experts)
	l.add(b+"ffn_gate_inp.bias", gguf.F32, 0.1, l.Experts)
	l.add(b+"ffn_gate_exps.weight", gguf.MXFP4, in(l.Width), l.Width, l.FeedForward, l.Experts)
	l.add(b+"ffn_gate_exps.bias", gguf.F32, 0.1, l.FeedForward, l.Experts)
	l.add(b+"ffn_up_exps.weight", gguf.MXFP4, in(l.Width), l.Width, l.FeedForward, l.Experts)
	l.add(b+"ffn_up_exps.bias", gguf.F32, 0.1, l.FeedForward, l.Experts)
	l.add(b+"ffn_down_exps.weight", gguf.MXFP4, in(l.FeedForward), l.FeedForward, l.Width, l.Experts)
	l.add(b+"ffn_down_exps.bias", gguf.F32, 0.1, l.Width, l.Experts)
}

func (l *list) qwen35(b string, recurrent bool) {
	q, kv := l.Heads*l.HeadSize, l.KVHeads*l.HeadSize
	l.add(b+"attn_norm.weight", gguf.F32, 0, l.Width)
	l.add(b+"post_attention_norm.weight", gguf.F32, 0, l.Width)
	if recurrent {
		l.add(b+"attn_qkv.weight", gguf.Q8_0, in(l.Width), l.Width, 2*kv+q)
		l.add(b+"attn_gate.weight", gguf.Q8_0, in(l.Width), l.Width, q)
		l.add(b+"ssm_conv1d.weight", gguf.F32, in(convolution), convolution, 2*kv+q)
		l.add(b+"ssm_dt.bias", gguf.F32, 0.1, l.Heads)
		l.add(b+"ssm_a", gguf.F32, -0.05, l.Heads) // how fast the state fades
		l.add(b+"ssm_beta.weight", gguf.F32, in(l.Width), l.Width, l.Heads)
		l.add(b+"ssm_alpha.weight", gguf.F32, in(l.Width), l.Width, l.Heads)
		l.add(b+"ssm_norm.weight", gguf.F32, 0, l.HeadSize)
		l.add(b+"ssm_out.weight", gguf.Q8_0, in(q), q, l.Width)
	} else {
		l.add(b+"attn_q.weight", gguf.Q8_0, in(l.Width), l.Width, 2*q) // with a gate
		l.add(b+"attn_k.weight", gguf.Q8_0, in(l.Width), l.Width, kv)
		l.add(b+"attn_v.weight", gguf.Q8_0, in(l.Width), l.Width, kv)
		l.add(b+"attn_output.weight", gguf.Q8_0, in(q), q, l.Width)
		l.add(b+"attn_q_norm.weight", gguf.F32, 0, l.HeadSize)
		l.add(b+"attn_k_norm.weight", gguf.F32, 0, l.HeadSize)
	}
	l.feedForward(b)
}

func (l *list) gemma4(b string, cached bool) {
	q, kv := l.Heads*l.HeadSize, l.KVHeads*l.HeadSize
	l.add(b+"attn_norm.weight", gguf.F32, 0, l.Width)
	l.add(b+"attn_q.weight", gguf.Q8_0, in(l.Width), l.Width, q)
	l.add(b+"attn_q_norm.weight", gguf.F32, 0, l.HeadSize)
	if cached {
		l.add(b+"attn_k.weight", gguf.Q8_0, in(l.Width), l.Width, kv)
		l.add(b+"attn_v.weight", gguf.Q8_0, in(l.Width), l.Width, kv)
		// The scores are not scaled, so the keys are: like those of a trained model.
		l.add(b+"attn_k_norm.weight", gguf.F32, in(l.HeadSize), l.HeadSize)
	}
	l.add(b+"attn_output.weight", gguf.Q8_0, in(q), q, l.Width)
	l.add(b+"post_attention_norm.weight", gguf.F32, 0, l.Width)
	l.add(b+"ffn_norm.weight", gguf.F32, 0, l.Width)
	l.feedForward(b)
	l.add(b+"post_ffw_norm.weight", gguf.F32, 0, l.Width)
	l.add(b+"inp_gate.weight", gguf.F32, in(l.Width), l.Width, perLayer)
	l.add(b+"proj.weight", gguf.F32, in(perLayer), perLayer, l.Width)
	l.add(b+"post_norm.weight", gguf.F32, 0, l.Width)
}

func (l *list) feedForward(b string) {
	m := l.matrix()
	l.add(b+"ffn_gate.weight", m, in(l.Width), l.Width, l.FeedForward)
	l.add(b+"ffn_up.weight", m, in(l.Width), l.Width, l.FeedForward)
	l.add(b+"ffn_down.weight", m, in(l.FeedForward), l.FeedForward, l.Width)
}
