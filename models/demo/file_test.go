package demo

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"runner/backend/gguf"
)

// TestFile checks the embedded file against the model card.
func TestFile(t *testing.T) {
	if len(file) > 16<<20 {
		t.Errorf("the model has %d bytes, more than 16 MiB", len(file))
	}
	f, err := gguf.Read(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	if f.Architecture() != "gpt-oss" {
		t.Errorf("architecture %q", f.Architecture())
	}
	for key, want := range map[string]string{
		"general.name": "runner demo", "general.license": "mit", "tokenizer.ggml.model": "gpt2",
		"tokenizer.ggml.pre":        "gpt-4o",
		"gpt-oss.rope.scaling.type": "yarn",
	} {
		if got, _ := f.String(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	for key, want := range map[string]int64{
		"gpt-oss.context_length": 8192, "gpt-oss.attention.sliding_window": 128, "gpt-oss.block_count": 6,
		"gpt-oss.embedding_length":     192,
		"gpt-oss.attention.head_count": 8, "gpt-oss.attention.head_count_kv": 4, "gpt-oss.attention.key_length": 32,
		"gpt-oss.expert_count":      4,
		"gpt-oss.expert_used_count": 2, "gpt-oss.expert_feed_forward_length": 192,
		"gpt-oss.rope.scaling.original_context_length": 4096,
	} {
		if got, _ := f.Int(key); got != want {
			t.Errorf("%s is %d, want %d", key, got, want)
		}
	}
	tokens, ok := f.Array("tokenizer.ggml.tokens")
	if !ok {
		t.Fatal("the file has no tokens")
	}
	names := tokens.Strings()
	if len(names) != 1536 {
		t.Errorf("the vocabulary has %d tokens, want 1536", len(names))
	}
	for _, special := range []string{"<|startoftext|>", "<|endoftext|>", "<|return|>", "<|constrain|>", "<|channel|>",
		"<|start|>",
		"<|end|>", "<|message|>", "<|call|>"} {
		if !slices.Contains(names, special) {
			t.Errorf("the vocabulary lacks %s", special)
		}
	}
	if eos, _ := f.Int("tokenizer.ggml.eos_token_id"); eos < 0 || int(eos) >= len(names) || names[eos] != "<|return|>" {
		t.Errorf("the end-of-sequence token is %d, want <|return|>", eos)
	}
	for _, n := range names {
		if len(n) > 1 && strings.ContainsAny(n, "0123456789") {
			t.Errorf("token %q holds more than one digit", n)
		}
	}
	if template, _ := f.String("tokenizer.chat_template"); !strings.Contains(template, "<|start|>assistant") {
		t.Error("the file has no chat template")
	}
	parameters := int64(0)
	for i := range f.Tensors {
		x := &f.Tensors[i]
		size := int64(1)
		for _, d := range x.Dims {
			size *= d
		}
		parameters += size
		experts := strings.HasSuffix(x.Name, "_exps.weight")
		if experts != (x.Type == gguf.MXFP4) {
			t.Errorf("%s has type %v", x.Name, x.Type)
		}
		if strings.HasSuffix(x.Name, ".weight") && x.Dims[0]%32 != 0 && !strings.Contains(x.Name, "sinks") {
			t.Errorf("%s has rows of %d, not a multiple of 32", x.Name, x.Dims[0])
		}
	}
	if parameters != 4_153_992 {
		t.Errorf("the file holds %d parameters, want 4,153,992", parameters)
	}
}
