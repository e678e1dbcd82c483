package random

import (
	"maps"
	"slices"
)

// shapes are the shapes of models that many people run, in the formats that they mostly have.
var shapes = map[string]Config{
	// Full20B has 12 GB.
	"gpt-oss-20b": Full20B,
	"gpt-oss-120b": {Layers: 36, Width: 2880, Heads: 64, KVHeads: 8, HeadSize: 64, Experts: 128, Used: 4,
		FeedForward: 2880, Vocabulary: 201088, Window: 128, Context: 131072},
	"qwen3-30b-a3b": {Architecture: "qwen3moe", Quant: "Q4_K", Layers: 48, Width: 2048, Heads: 32, KVHeads: 4,
		HeadSize: 128, Experts: 128, Used: 8, FeedForward: 768, Vocabulary: 151936, Context: 40960},
	"llama-3.1-8b": {Architecture: "llama", Quant: "Q4_K", Layers: 32, Width: 4096, Heads: 32, KVHeads: 8,
		HeadSize: 128, FeedForward: 14336, Vocabulary: 128256, Context: 131072},
}

// Full20B is the shape of gpt-oss-20b.
var Full20B = Config{Layers: 24, Width: 2880, Heads: 64, KVHeads: 8, HeadSize: 64, Experts: 32, Used: 4,
	FeedForward: 2880, Vocabulary: 201088, Window: 128, Context: 131072}

// Shapes lists the names that Shape knows.
func Shapes() []string { return slices.Sorted(maps.Keys(shapes)) }

// Shape returns the shape of a known model.
func Shape(name string) (Config, bool) {
	c, ok := shapes[name]
	return c, ok
}

// Size returns how many bytes the weights of a model take. Its file has a few megabytes more.
func (c Config) Size() (bytes int64) {
	for _, t := range c.withDefaults().tensors() {
		elements, size := t.Type.Block()
		bytes += t.Elements() / elements * size
	}
	return bytes
}
