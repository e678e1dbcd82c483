// Package random writes models with random weights in the shape of gpt-oss: GGUF files that an engine loads and runs
// like a real model, with meaningless output. They are for tests of backends and for benchmarks. Their size ranges from
// a megabyte to that of the real model. The same Config always gives the same file.
package random

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"

	"runner/backend/gguf"
	"runner/models/random/ggufwriter"
)

// Config is the shape of a model. A zero field means the default, which is for a tiny model.
type Config struct {
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
	// Precise stores every weight as F32. An engine then rounds nothing, and two orders of the same sum differ only in
	// their last bits. Otherwise experts are MXFP4 and the other matrices Q8_0, as usual.
	Precise bool
	// Seed chooses the weights.
	Seed uint64
}

// Full20B is the shape of gpt-oss-20b. The file has 12 GB.
var Full20B = Config{Layers: 24, Width: 2880, Heads: 64, KVHeads: 8, HeadSize: 64, Experts: 32, Used: 4,
	FeedForward: 2880, Vocabulary: 201088, Window: 128, Context: 131072}

func (c Config) withDefaults() Config {
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
	vocab, err := newVocabulary(c.Vocabulary)
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
	const a = "gpt-oss."
	return []ggufwriter.Pair{
		{Key: "general.architecture", Value: "gpt-oss"},
		{Key: "general.name", Value: fmt.Sprintf("random %d", c.Seed)},
		{Key: "general.quantization_version", Value: uint32(2)},
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
		{Key: "tokenizer.ggml.model", Value: "gpt2"},
		{Key: "tokenizer.ggml.pre", Value: "gpt-4o"},
		{Key: "tokenizer.ggml.tokens", Value: v.tokens},
		{Key: "tokenizer.ggml.token_type", Value: v.types},
		{Key: "tokenizer.ggml.merges", Value: v.merges},
		{Key: "tokenizer.ggml.bos_token_id", Value: v.id("<|startoftext|>")},
		{Key: "tokenizer.ggml.eos_token_id", Value: v.id("<|return|>")},
		{Key: "tokenizer.ggml.padding_token_id", Value: v.id("<|endoftext|>")},
		{Key: "tokenizer.ggml.add_bos_token", Value: false},
	}
}

// tensor is a tensor with the standard deviation of its values. 0 means that all values are 1.
type tensor struct {
	gguf.Tensor
	deviation float64
}

func (c Config) tensors() []tensor {
	var list []tensor
	add := func(name string, t gguf.TensorType, deviation float64, dims ...int) {
		d := make([]int64, len(dims))
		for i, n := range dims {
			d[i] = int64(n)
		}
		if c.Precise {
			t = gguf.F32
		}
		list = append(list, tensor{gguf.Tensor{Name: name, Type: t, Dims: d}, deviation})
	}
	in := func(n int) float64 { return 1 / math.Sqrt(float64(n)) } // keeps the scale of the activations
	q, kv := c.Heads*c.HeadSize, c.KVHeads*c.HeadSize
	add("token_embd.weight", gguf.Q8_0, 1, c.Width, c.Vocabulary)
	for l := range c.Layers {
		b := fmt.Sprintf("blk.%d.", l)
		add(b+"attn_norm.weight", gguf.F32, 0, c.Width)
		add(b+"attn_q.weight", gguf.Q8_0, in(c.Width), c.Width, q)
		add(b+"attn_q.bias", gguf.F32, 0.1, q)
		add(b+"attn_k.weight", gguf.Q8_0, in(c.Width), c.Width, kv)
		add(b+"attn_k.bias", gguf.F32, 0.1, kv)
		add(b+"attn_v.weight", gguf.Q8_0, in(c.Width), c.Width, kv)
		add(b+"attn_v.bias", gguf.F32, 0.1, kv)
		add(b+"attn_output.weight", gguf.Q8_0, in(q), q, c.Width)
		add(b+"attn_output.bias", gguf.F32, 0.1, c.Width)
		add(b+"attn_sinks.weight", gguf.F32, 1, c.Heads)
		add(b+"post_attention_norm.weight", gguf.F32, 0, c.Width)
		add(b+"ffn_gate_inp.weight", gguf.F32, in(c.Width), c.Width, c.Experts)
		add(b+"ffn_gate_inp.bias", gguf.F32, 0.1, c.Experts)
		add(b+"ffn_gate_exps.weight", gguf.MXFP4, in(c.Width), c.Width, c.FeedForward, c.Experts)
		add(b+"ffn_gate_exps.bias", gguf.F32, 0.1, c.FeedForward, c.Experts)
		add(b+"ffn_up_exps.weight", gguf.MXFP4, in(c.Width), c.Width, c.FeedForward, c.Experts)
		add(b+"ffn_up_exps.bias", gguf.F32, 0.1, c.FeedForward, c.Experts)
		add(b+"ffn_down_exps.weight", gguf.MXFP4, in(c.FeedForward), c.FeedForward, c.Width, c.Experts)
		add(b+"ffn_down_exps.bias", gguf.F32, 0.1, c.Width, c.Experts)
	}
	add("output_norm.weight", gguf.F32, 0, c.Width)
	add("output.weight", gguf.Q8_0, 3*in(c.Width), c.Width, c.Vocabulary)
	return list
}
