package mlx

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"runner/backend"
	"runner/backend/backendtest"
)

// makeModel is a program that gives the model of a config.json random weights.
const makeModel = `
import json, os, sys
os.environ["MLX_DISABLE_COMPILE"] = "1"
import mlx.core as mx
from mlx.utils import tree_flatten, tree_map
from mlx_lm.utils import _get_classes
folder = sys.argv[1]
config = json.load(open(folder + "/config.json"))
mx.random.seed(1)
cls, args = _get_classes(config)
model = cls(args.from_dict(config))
model.set_dtype(mx.float32)
weights = {}
for name, v in tree_flatten(model.parameters()):
    if v.ndim > 1:  # strong enough that every token matters
        v = mx.random.normal(v.shape) * (1.0 if "embed" in name else v.shape[-1] ** -0.5)
    weights[name] = v
mx.save_safetensors(folder + "/model.safetensors", weights, {"format": "mlx"})
`

// TestOtherFamilies runs the suite on small random models of other families: one whose cache can always be
// shortened, one with windows and shared embeddings, and one with recurrent layers.
func TestOtherFamilies(t *testing.T) {
	long(t)
	p := python(t)
	shape := map[string]any{"hidden_size": 64, "num_hidden_layers": 4, "intermediate_size": 128, "num_attention_heads": 4,
		"num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-6, "vocab_size": 1536, "rope_theta": 10000.0,
		"max_position_embeddings": 4096, "eos_token_id": 1529}
	for kind, more := range map[string]map[string]any{
		"llama": {"tie_word_embeddings": false},
		"gemma3_text": {"sliding_window": 64, "sliding_window_pattern": 2, "query_pre_attn_scalar": 16,
			"rope_global_base_freq": 1000000.0, "rope_local_base_freq": 10000.0},
		"qwen3_next": {"full_attention_interval": 2, "linear_num_value_heads": 4, "linear_num_key_heads": 2,
			"linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4, "num_experts": 0,
			"num_experts_per_tok": 2, "decoder_sparse_step": 1, "shared_expert_intermediate_size": 64,
			"mlp_only_layers": []int{0, 1, 2, 3}, "moe_intermediate_size": 64, "partial_rotary_factor": 0.25,
			"norm_topk_prob": true, "tie_word_embeddings": false, "attention_bias": false},
	} {
		t.Run(kind, func(t *testing.T) {
			config := map[string]any{"model_type": kind}
			for _, m := range []map[string]any{shape, more} {
				for k, v := range m {
					config[k] = v
				}
			}
			b, err := json.Marshal(config)
			if err != nil {
				t.Fatal(err)
			}
			path := demoFolder(t)
			write(t, path, "config.json", string(b))
			write(t, path, "generation_config.json", "{}")
			script := filepath.Join(t.TempDir(), "make.py")
			write(t, filepath.Dir(script), "make.py", makeModel)
			if out, err := exec.Command(p.Path, "-I", script, path).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			backendtest.Run(t, func(t *testing.T, cfg backend.Config) backend.Model {
				return mustOpen(t, p, path, cfg)
			}, backendtest.Options{Tolerance: 1e-3})
		})
	}
}
