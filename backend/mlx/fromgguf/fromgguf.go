// Package fromgguf converts GGUF files of gpt-oss models to folders that MLX or vLLM loads.
//
// The weights stay exact. MXFP4 blocks keep their bits in another order, and all other formats become float32. The
// package serves tests and comparisons between engines, not large models: it holds a whole tensor in memory.
package fromgguf

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"runner/backend/gguf"
)

// Convert reads the GGUF file from and writes a model to the folder to, which it makes.
func Convert(from, to string) error { return convert(from, to, false) }

func convert(from, to string, plain bool) error {
	f, err := gguf.Open(from)
	if err != nil {
		return err
	}
	if a := f.Architecture(); a != "gpt-oss" {
		return fmt.Errorf("%s has the architecture %q, and only gpt-oss can be converted", from, a)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	write := writeTensors
	if plain {
		write = plainTensors
	}
	if err := write(f, from, filepath.Join(to, "model.safetensors")); err != nil {
		return err
	}
	template, _ := f.String("tokenizer.chat_template")
	vocab, err := tokenizerJSON(f)
	if err != nil {
		return err
	}
	cfg, err := config(f)
	if err != nil {
		return err
	}
	if plain {
		delete(cfg, "quantization")
		cfg["torch_dtype"] = "float32"
	}
	for name, content := range map[string]any{"config.json": cfg, "tokenizer.json": vocab,
		"tokenizer_config.json":  tokenizerConfig(f),
		"generation_config.json": map[string]any{"eos_token_id": cfg["eos_token_id"]}} {
		b, err := json.Marshal(content)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), append(b, '\n'), 0o644)
		}
		if err != nil {
			return err
		}
	}
	if template == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(to, "chat_template.jinja"), []byte(template), 0o644)
}

// config returns the contents of config.json.
func config(f *gguf.File) (map[string]any, error) {
	var missing error
	number := func(key string) int64 {
		n, ok := f.Int("gpt-oss." + key)
		if !ok {
			missing = fmt.Errorf("the file has no gpt-oss.%s", key)
		}
		return n
	}
	float := func(key string, otherwise float64) float64 {
		if v, ok := f.Float("gpt-oss." + key); ok {
			return v
		}
		return otherwise
	}
	tokens, ok := f.Array("tokenizer.ggml.tokens")
	if !ok {
		return nil, errors.New("the file has no vocabulary")
	}
	layers := number("block_count")
	var types []string
	for i := range layers {
		types = append(types, [...]string{"sliding_attention", "full_attention"}[i%2])
	}
	eos, _ := f.Int("tokenizer.ggml.eos_token_id")
	ends := []int64{eos}
	for i, s := range tokens.Strings() {
		if s == "<|call|>" {
			ends = append(ends, int64(i))
		}
	}
	c := map[string]any{
		"model_type": "gpt_oss", "architectures": []string{"GptOssForCausalLM"}, "num_hidden_layers": layers,
		"num_local_experts": number("expert_count"), "num_experts_per_tok": number("expert_used_count"),
		"vocab_size": tokens.Len(), "hidden_size": number("embedding_length"),
		"intermediate_size": number("expert_feed_forward_length"), "head_dim": number("attention.key_length"),
		"num_attention_heads": number("attention.head_count"), "num_key_value_heads": number("attention.head_count_kv"),
		"sliding_window": number("attention.sliding_window"), "rope_theta": float("rope.freq_base", 150000),
		"rms_norm_eps": float("attention.layer_norm_rms_epsilon", 1e-5), "layer_types": types,
		"rope_scaling": map[string]any{"rope_type": "yarn", "factor": float("rope.scaling.factor", 1), "beta_fast": 32.0,
			"beta_slow": 1.0, "original_max_position_embeddings": number("rope.scaling.original_context_length")},
		"max_position_embeddings": number("context_length"), "eos_token_id": ends, "tie_word_embeddings": false,
	}
	for i := range f.Tensors {
		if f.Tensors[i].Type == gguf.MXFP4 {
			c["quantization"] = map[string]any{"group_size": 32, "bits": 4, "mode": "mxfp4"}
			break
		}
	}
	return c, missing
}

// The token types of GGUF that become added tokens.
const (
	controlType     = 3
	userDefinedType = 4
)

// Parts of the regular expressions below.
const (
	upper = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	lower = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	short = `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`
)

// patterns are the regular expressions that split text, by GGUF's name.
var patterns = map[string]string{
	"gpt-4o": `[^\r\n\p{L}\p{N}]?` + upper + `*` + lower + `+` + short +
		`|[^\r\n\p{L}\p{N}]?` + upper + `+` + lower + `*` + short +
		`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
}

// tokenizerJSON returns the contents of tokenizer.json.
func tokenizerJSON(f *gguf.File) (map[string]any, error) {
	tokens, okT := f.Array("tokenizer.ggml.tokens")
	kinds, okK := f.Array("tokenizer.ggml.token_type")
	merges, okM := f.Array("tokenizer.ggml.merges")
	if !okT || !okK || !okM || kinds.Len() != tokens.Len() {
		return nil, errors.New("the file's vocabulary is not byte-level BPE")
	}
	pre, _ := f.String("tokenizer.ggml.pre")
	pattern, ok := patterns[pre]
	if !ok {
		return nil, fmt.Errorf("the pre-tokenizer %q cannot be converted", pre)
	}
	vocab, added := map[string]int{}, []map[string]any{}
	for i, s := range tokens.Strings() {
		k, _ := kinds.Int(i)
		if k == controlType || k == userDefinedType {
			added = append(added, map[string]any{"id": i, "content": s, "special": k == controlType, "single_word": false,
				"lstrip": false, "rstrip": false, "normalized": false})
			continue
		}
		vocab[s] = i
	}
	return map[string]any{"version": "1.0", "truncation": nil, "padding": nil, "normalizer": nil, "post_processor": nil,
		"added_tokens": added,
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": []any{
			map[string]any{"type": "Split", "pattern": map[string]any{"Regex": pattern}, "behavior": "Isolated",
				"invert": false},
			map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}}},
		"decoder": map[string]any{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
		"model":   map[string]any{"type": "BPE", "vocab": vocab, "merges": merges.Strings(), "byte_fallback": false},
	}, nil
}

// tokenizerConfig returns the contents of tokenizer_config.json.
func tokenizerConfig(f *gguf.File) map[string]any {
	c := map[string]any{"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false}
	tokens, _ := f.Array("tokenizer.ggml.tokens")
	for _, n := range []string{"bos", "eos", "padding"} {
		if id, ok := f.Int("tokenizer.ggml." + n + "_token_id"); ok && id >= 0 && int(id) < tokens.Len() {
			c[map[string]string{"bos": "bos_token", "eos": "eos_token", "padding": "pad_token"}[n]] = tokens.String(int(id))
		}
	}
	if n, ok := f.Int("gpt-oss.context_length"); ok {
		c["model_max_length"] = n
	}
	return c
}
