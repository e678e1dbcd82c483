// Package roofline estimates how fast a model can generate on this machine's processor.
//
// Generating a token reads all weights that take part in it once. So the speed is at most the bandwidth of the memory
// divided by the bytes that a token reads. A run is slower than this limit where the processor computes slower than the
// memory delivers, or where other programs use either. A GPU has memory of its own, which is faster.
package roofline

import (
	"strconv"
	"strings"

	"runner/backend/gguf"
	"runner/backend/safetensors"
)

// LeastPerToken is how many bytes a token must read for an estimate. Fewer may lie in the caches of the processor, and
// then the speed of memory says nothing.
const LeastPerToken = 64 << 20

// Share is a fraction of the weights: Used of All experts work on a token. The zero value means all.
type Share struct{ Used, All int64 }

// of returns the share of a number of bytes.
func (s Share) of(bytes int64) int64 {
	if s.Used <= 0 || s.All <= s.Used {
		return bytes
	}
	return bytes / s.All * s.Used
}

// GGUF returns how many bytes of a model's weights a token reads. parts are the headers of all files, the first of
// which has the metadata.
func GGUF(parts []*gguf.File) int64 {
	if len(parts) == 0 {
		return 0
	}
	number := func(key string) int64 {
		n, _ := parts[0].Int(parts[0].Architecture() + "." + key)
		return n
	}
	experts := Share{number("expert_used_count"), number("expert_count")}
	layers := number("block_count") - number("nextn_predict_layers") // those that guess further tokens are not used
	var w weights
	for _, p := range parts {
		for _, t := range p.Tensors {
			if layer, ok := layerOf(t.Name); ok && layers > 0 && layer >= layers {
				continue
			}
			w.add(t.Name, t.Size, experts)
		}
	}
	return w.total()
}

// layerOf returns the number of the layer that a tensor of a GGUF file belongs to.
func layerOf(name string) (int64, bool) {
	rest, ok := strings.CutPrefix(name, "blk.")
	if !ok {
		return 0, false
	}
	number, _, _ := strings.Cut(rest, ".")
	n, err := strconv.ParseInt(number, 10, 64)
	return n, err == nil
}

// weights counts the bytes that a token reads.
type weights struct {
	read int64
	// table is the size of the embedding table. A token reads one row of it, unless it is also the output matrix.
	table  int64
	output bool
}

func (w *weights) add(name string, bytes int64, experts Share) {
	switch {
	case strings.HasPrefix(name, "per_layer_token_embd") || strings.Contains(name, "embed_tokens_per_layer"):
	case strings.HasPrefix(name, "token_embd.") || strings.Contains(name, "embed_tokens."):
		w.table += bytes
	case strings.Contains(name, "_exps.") || strings.Contains(name, ".experts.") ||
		strings.Contains(name, ".switch_mlp."):
		w.read += experts.of(bytes)
	default:
		w.output = w.output || strings.HasPrefix(name, "output.") || strings.Contains(name, "lm_head.")
		w.read += bytes
	}
}

func (w *weights) total() int64 {
	if w.output {
		return w.read
	}
	return w.read + w.table
}

// Safetensors is [GGUF] for a model whose weights are files of safetensors. experts is what its configuration says.
func Safetensors(files []string, experts Share) (int64, error) {
	var w weights
	for _, path := range files {
		h, err := safetensors.Read(path)
		if err != nil {
			return 0, err
		}
		for name, bytes := range h.Tensors {
			w.add(name, bytes, experts)
		}
	}
	return w.total(), nil
}
