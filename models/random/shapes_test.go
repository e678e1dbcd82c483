package random

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"runner/backend/gguf"
)

// counting counts bytes.
type counting int64

func (c *counting) Write(b []byte) (int, error) {
	*c += counting(len(b))
	return len(b), nil
}

// TestSizes: a file is as large as Size says, and some more for the vocabulary.
func TestSizes(t *testing.T) {
	for _, name := range Shapes() {
		c, ok := Shape(name)
		if !ok {
			t.Fatal("no shape ", name)
		}
		c.Layers, c.Experts, c.Vocabulary = 1, min(c.Experts, 2), 4096
		var written counting
		if err := Write(io.Writer(&written), c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if more := int64(written) - c.Size(); more < 0 || more > 1<<20 {
			t.Errorf("%s: the file has %d bytes more than the %d of its weights", name, more, c.Size())
		}
	}
}

// TestShapesHaveTheirSize: the shapes are as large as the models that they are named after. Sizes are in GB.
func TestShapesHaveTheirSize(t *testing.T) {
	for name, want := range map[string]float64{"gpt-oss-20b": 12.1, "gpt-oss-120b": 63.4, "qwen3-30b-a3b": 17.3,
		"llama-3.1-8b": 4.6} {
		c, _ := Shape(name)
		if got := float64(c.Size()) / 1e9; got < 0.95*want || got > 1.05*want {
			t.Errorf("%s has %.2f GB, want about %.1f", name, got, want)
		}
	}
}

// beginning is a writer that keeps the first bytes. It fails when it has enough.
type beginning struct{ bytes.Buffer }

func (b *beginning) Write(p []byte) (int, error) {
	if b.Len() > 10<<20 {
		return 0, errEnough
	}
	return b.Buffer.Write(p)
}

// TestShapesAreWhatTheySay reads the header of each whole shape and compares it with what the makers of the models
// publish. A shape with fewer layers has all else.
func TestShapesAreWhatTheySay(t *testing.T) {
	type facts struct {
		architecture                                           string
		layers, width, heads, kvHeads, headSize, feed, trained int64
		experts, used, vocabulary                              int64
		billions                                               float64
		// formats are those of the embeddings, the keys, the second layer's up matrix, and the output.
		formats string
	}
	for name, want := range map[string]facts{
		"gpt-oss-20b": {"gpt-oss", 24, 2880, 64, 8, 64, 2880, 131072, 32, 4, 201088, 20.9, "Q8_0 Q8_0 MXFP4 Q8_0"},
		"gpt-oss-120b": {"gpt-oss", 36, 2880, 64, 8, 64, 2880, 131072, 128, 4, 201088, 116.8,
			"Q8_0 Q8_0 MXFP4 Q8_0"},
		"qwen3-30b-a3b": {"qwen3moe", 48, 2048, 32, 4, 128, 768, 40960, 128, 8, 151936, 30.5, "Q4_K Q4_K Q4_K Q6_K"},
		"llama-3.1-8b":  {"llama", 32, 4096, 32, 8, 128, 14336, 131072, 0, 0, 128256, 8.03, "Q4_K Q4_K Q4_K Q6_K"},
	} {
		whole, ok := Shape(name)
		if !ok {
			t.Errorf("no shape is called %s", name)
			continue
		}
		for _, layers := range []int64{want.layers, 2} {
			c, want := whole, want
			if layers != want.layers {
				c.Layers, c.Vocabulary = int(layers), 4096
				want.layers, want.vocabulary = layers, 4096
			}
			f := headerOf(t, c)
			key := func(name string) int64 {
				n, _ := f.Int(want.architecture + "." + name)
				return n
			}
			format := func(names ...string) string {
				for _, name := range names {
					if tensor, ok := f.Tensor(name); ok {
						return tensor.Type.String()
					}
				}
				return "none"
			}
			tokens, _ := f.Array("tokenizer.ggml.tokens")
			got := facts{architecture: f.Architecture(), layers: key("block_count"), width: key("embedding_length"),
				heads: key("attention.head_count"), kvHeads: key("attention.head_count_kv"), feed: key("feed_forward_length"),
				trained: key("context_length"), experts: key("expert_count"), used: key("expert_used_count"),
				vocabulary: int64(tokens.Len()), billions: want.billions,
				formats: strings.Join([]string{format("token_embd.weight"), format("blk.0.attn_k.weight"),
					format("blk.1.ffn_up_exps.weight", "blk.1.ffn_up.weight"), format("output.weight")}, " ")}
			if k, ok := f.Tensor("blk.0.attn_k.weight"); ok {
				got.headSize = k.Dims[1] / want.kvHeads
			}
			if got != want {
				t.Errorf("%s with %d layers is %+v, want %+v", name, layers, got, want)
			}
			_, last := f.Tensor(fmt.Sprintf("blk.%d.attn_k.weight", layers-1))
			_, more := f.Tensor(fmt.Sprintf("blk.%d.attn_k.weight", layers))
			if !last || more {
				t.Errorf("%s has other tensors than those of %d layers", name, layers)
			}
			if b := float64(f.Parameters()) / 1e9; c.Layers == whole.Layers && math.Abs(b/want.billions-1) > 0.01 {
				t.Errorf("%s has %.2f billion parameters, want %.2f", name, b, want.billions)
			}
		}
	}
}

// headerOf returns the header of a model's file, without the making of its weights.
func headerOf(t *testing.T, c Config) *gguf.File {
	t.Helper()
	var b beginning
	if err := Write(&b, c); !errors.Is(err, errEnough) {
		t.Fatalf("%d bytes, %v", b.Len(), err)
	}
	f, err := gguf.Read(bytes.NewReader(b.Bytes()), c.Size()+int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return f
}
