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

// metadata is what the header of a file says besides its tensors.
type metadata struct {
	prefix string // of the keys that are set next
	pairs  []ggufwriter.Pair
}

// set adds a pair. A whole number is stored in 32 bits without a sign.
func (m *metadata) set(key string, value any) {
	if n, ok := value.(int); ok {
		value = uint32(n)
	}
	m.pairs = append(m.pairs, ggufwriter.Pair{Key: m.prefix + key, Value: value})
}

func (c Config) metadata(v *vocabulary) []ggufwriter.Pair {
	m := &metadata{prefix: "general."}
	m.set("architecture", c.Architecture)
	m.set("name", fmt.Sprintf("random %d", c.Seed))
	m.set("quantization_version", 2)
	m.prefix = c.Architecture + "."
	c.shape(m)
	m.prefix = "tokenizer.ggml."
	tokenizer := "gpt2"
	if c.Architecture == "gemma4" {
		tokenizer = "gemma4"
	}
	m.set("model", tokenizer)
	m.set("pre", "gpt-4o")
	m.set("tokens", v.tokens)
	m.set("token_type", v.types)
	m.set("merges", v.merges)
	m.set("bos_token_id", v.id("<|startoftext|>"))
	m.set("eos_token_id", v.id("<|return|>"))
	m.set("padding_token_id", v.id("<|endoftext|>"))
	m.set("add_bos_token", false)
	return m.pairs
}

// shape sets the metadata of the architecture.
func (c Config) shape(m *metadata) {
	gptOSS := c.Architecture == "gpt-oss"
	m.set("block_count", c.Layers)
	m.set("context_length", c.Context)
	m.set("embedding_length", c.Width)
	m.set("feed_forward_length", c.FeedForward)
	if gptOSS {
		m.set("expert_feed_forward_length", c.FeedForward)
	}
	m.set("attention.head_count", c.Heads)
	m.set("attention.head_count_kv", c.KVHeads)
	m.set("attention.key_length", c.HeadSize)
	m.set("attention.value_length", c.HeadSize)
	if gptOSS {
		m.set("attention.sliding_window", c.Window)
	}
	m.set("attention.layer_norm_rms_epsilon", float32(1e-5))
	if gptOSS {
		m.set("expert_count", c.Experts)
		m.set("expert_used_count", c.Used)
		m.set("rope.freq_base", float32(150000))
		m.set("rope.scaling.type", "yarn")
		m.set("rope.scaling.factor", float32(32))
		m.set("rope.scaling.original_context_length", 4096)
		return
	}
	m.set("rope.freq_base", float32(1000000))
	m.set("rope.dimension_count", c.HeadSize)
	switch c.Architecture {
	case "qwen3moe":
		m.set("expert_feed_forward_length", c.FeedForward)
		m.set("expert_count", c.Experts)
		m.set("expert_used_count", c.Used)
	case "qwen35":
		quarter := int32(c.HeadSize / 4)
		m.set("full_attention_interval", 2)
		m.set("rope.dimension_sections", []int32{quarter, quarter / 2, quarter / 2, 0})
		m.set("ssm.conv_kernel", convolution)
		m.set("ssm.state_size", c.HeadSize)
		m.set("ssm.group_count", c.KVHeads)
		m.set("ssm.time_step_rank", c.Heads)
		m.set("ssm.inner_size", c.Heads*c.HeadSize)
	case "gemma4":
		sliding := make([]bool, c.Layers)
		for i := range sliding {
			sliding[i] = i%2 == 0
		}
		m.set("attention.sliding_window", c.Window)
		m.set("attention.sliding_window_pattern", sliding)
		m.set("attention.shared_kv_layers", c.Layers-c.cached())
		m.set("attention.key_length_swa", c.HeadSize)
		m.set("attention.value_length_swa", c.HeadSize)
		m.set("rope.freq_base_swa", float32(10000))
		m.set("embedding_length_per_layer_input", perLayer)
		m.set("final_logit_softcapping", float32(30))
	}
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
	block   string // begins the names of a layer's tensors
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
	l.tensors = append(l.tensors, tensor{gguf.Tensor{Name: l.block + name, Type: t, Dims: d}, deviation})
}

// ones adds n weights of 1.
func (l *list) ones(name string, n int) { l.add(name+".weight", gguf.F32, 0, n) }

func (l *list) bias(name string, dims ...int) { l.add(name+".bias", gguf.F32, 0.1, dims...) }

// product adds a matrix, whose first dimension is that of the inputs, and the bias that it has in gpt-oss.
func (l *list) product(name string, t gguf.TensorType, dims ...int) {
	l.add(name+".weight", t, in(dims[0]), dims...)
	if l.Architecture == "gpt-oss" {
		l.bias(name, dims[1:]...)
	}
}

// in keeps the scale of the activations in a product with n inputs.
func in(n int) float64 { return 1 / math.Sqrt(float64(n)) }

func (c Config) tensors() []tensor {
	l := &list{Config: c}
	l.add("token_embd.weight", l.matrix(), 1, c.Width, c.Vocabulary)
	if c.Architecture == "gemma4" {
		l.ones("rope_freqs", c.HeadSize/2)
		l.add("per_layer_token_embd.weight", gguf.Q8_0, 1, perLayer*c.Layers, c.Vocabulary)
		l.product("per_layer_model_proj", gguf.F32, c.Width, perLayer*c.Layers)
		l.ones("per_layer_proj_norm", perLayer)
	}
	for i := range c.Layers {
		l.block = fmt.Sprintf("blk.%d.", i)
		l.ones("attn_norm", c.Width)
		switch c.Architecture {
		case "gpt-oss":
			l.attention(gguf.Q8_0, 1)
			l.add("attn_sinks.weight", gguf.F32, 1, c.Heads)
			l.ones("post_attention_norm", c.Width)
			l.experts(gguf.MXFP4)
		case "llama":
			l.attention(l.matrix(), 1)
			l.ones("ffn_norm", c.Width)
			l.feedForward()
		case "qwen3moe":
			l.attention(l.matrix(), 1)
			l.ones("ffn_norm", c.Width)
			l.headNorms()
			l.experts(l.matrix())
		case "qwen35":
			l.qwen35(i%2 == 0)
		case "gemma4":
			l.gemma4(i < c.cached())
		}
	}
	l.block = ""
	l.ones("output_norm", c.Width)
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

// attention adds the matrices of full attention. With two queries one of them is a gate.
func (l *list) attention(t gguf.TensorType, queries int) {
	q, kv := l.Heads*l.HeadSize, l.KVHeads*l.HeadSize
	l.product("attn_q", t, l.Width, queries*q)
	l.product("attn_k", t, l.Width, kv)
	l.product("attn_v", t, l.Width, kv)
	l.product("attn_output", t, q, l.Width)
}

func (l *list) headNorms() {
	l.ones("attn_q_norm", l.HeadSize)
	l.ones("attn_k_norm", l.HeadSize)
}

func (l *list) experts(t gguf.TensorType) {
	l.product("ffn_gate_inp", gguf.F32, l.Width, l.Experts)
	l.product("ffn_gate_exps", t, l.Width, l.FeedForward, l.Experts)
	l.product("ffn_up_exps", t, l.Width, l.FeedForward, l.Experts)
	l.product("ffn_down_exps", t, l.FeedForward, l.Width, l.Experts)
}

func (l *list) feedForward() {
	m := l.matrix()
	l.product("ffn_gate", m, l.Width, l.FeedForward)
	l.product("ffn_up", m, l.Width, l.FeedForward)
	l.product("ffn_down", m, l.FeedForward, l.Width)
}

func (l *list) qwen35(recurrent bool) {
	q, kv := l.Heads*l.HeadSize, l.KVHeads*l.HeadSize
	l.ones("post_attention_norm", l.Width)
	if recurrent {
		l.product("attn_qkv", gguf.Q8_0, l.Width, 2*kv+q)
		l.product("attn_gate", gguf.Q8_0, l.Width, q)
		l.product("ssm_conv1d", gguf.F32, convolution, 2*kv+q)
		l.bias("ssm_dt", l.Heads)
		l.add("ssm_a", gguf.F32, -0.05, l.Heads) // how fast the state fades
		l.product("ssm_beta", gguf.F32, l.Width, l.Heads)
		l.product("ssm_alpha", gguf.F32, l.Width, l.Heads)
		l.ones("ssm_norm", l.HeadSize)
		l.product("ssm_out", gguf.Q8_0, q, l.Width)
	} else {
		l.attention(gguf.Q8_0, 2)
		l.headNorms()
	}
	l.feedForward()
}

func (l *list) gemma4(cached bool) {
	q, kv := l.Heads*l.HeadSize, l.KVHeads*l.HeadSize
	l.product("attn_q", gguf.Q8_0, l.Width, q)
	l.ones("attn_q_norm", l.HeadSize)
	if cached {
		l.product("attn_k", gguf.Q8_0, l.Width, kv)
		l.product("attn_v", gguf.Q8_0, l.Width, kv)
		// The scores are not scaled, so the keys are: like those of a trained model.
		l.product("attn_k_norm", gguf.F32, l.HeadSize)
	}
	l.product("attn_output", gguf.Q8_0, q, l.Width)
	l.ones("post_attention_norm", l.Width)
	l.ones("ffn_norm", l.Width)
	l.feedForward()
	l.ones("post_ffw_norm", l.Width)
	l.product("inp_gate", gguf.F32, l.Width, perLayer)
	l.product("proj", gguf.F32, perLayer, l.Width)
	l.ones("post_norm", l.Width)
}
