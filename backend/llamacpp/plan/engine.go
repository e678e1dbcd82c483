package plan

import (
	"maps"
	"strings"
)

// Engine is what a plan depends on about an engine.
type Engine struct {
	Version string
	// Folder is where the engine's libraries are. It is empty for the compiled-in engine.
	Folder string
	// Kernels names the instructions of the runner's own kernels, and Formats are the formats of weights that they read.
	// Both are empty if only the engine's kernels run.
	Kernels string
	Formats []string
	// Generative are the architectures that generate text token by token. Others are the rest.
	Generative, Others map[string]bool
}

// BuiltIn describes the compiled-in engine, without the runner's own kernels.
func BuiltIn() Engine {
	return Engine{Version: builtinVersion, Generative: architectures, Others: others}
}

// builtinVersion is the commit of llama.cpp in the Go module.
const builtinVersion = "ec98e2002 (December 2025)"

// InFolder describes the engine in a folder, which has a list of architectures.
func InFolder(folder, version string, list []string) Engine {
	e := Engine{Folder: folder, Version: version, Generative: map[string]bool{},
		Others: set(notTokenByToken + notTokenByTokenNew)}
	for _, name := range list {
		if name != "unknown" && !e.Others[name] {
			e.Generative[name] = true
		}
	}
	return e
}

// Unlisted gives an engine in a folder that lists no architectures those of the compiled-in engine.
func (e *Engine) Unlisted() {
	maps.Copy(e.Generative, architectures)
	delete(e.Generative, "solar") // only Ollama's llama.cpp has it
}

// architectures are the entries of LLM_ARCH_NAMES in this version of llama.cpp that generate text token by token.
// others are the rest. A test compares both with the engine.
var architectures, others = set(generative), set(notTokenByToken)

func set(names string) map[string]bool {
	m := map[string]bool{}
	for _, name := range strings.Fields(names) {
		m[name] = true
	}
	return m
}

const notTokenByToken = `
clip bert nomic-bert nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 t5 t5encoder wavtokenizer-dec gemma-embedding
dream llada llada-moe rnd1 gptj (unknown)
`

const generative = `
llama llama4 deci falcon grok gpt2 gptneox mpt baichuan starcoder refact bloom stablelm qwen qwen2 qwen2moe
qwen2vl qwen3 qwen3moe qwen3next qwen3vl qwen3vlmoe phi2 phi3 phimoe plamo plamo2 codeshell orion internlm2
minicpm minicpm3 gemma gemma2 gemma3 gemma3n starcoder2 mamba mamba2 jamba falcon-h1 xverse command-r cohere2
dbrx olmo olmo2 olmoe openelm arctic deepseek deepseek2 chatglm glm4 glm4moe bitnet jais nemotron nemotron_h
nemotron_h_moe exaone exaone4 rwkv6 rwkv6qwen2 rwkv7 arwkv7 granite granitemoe granitehybrid chameleon solar
plm bailingmoe bailingmoe2 dots1 arcee afmoe ernie4_5 ernie4_5-moe hunyuan-moe hunyuan-dense smollm3 gpt-oss
lfm2 lfm2moe smallthinker seed_oss grovemoe apertus minimax-m2 cogvlm pangu-embedded mistral3
`

// notTokenByTokenNew are architectures of later versions of llama.cpp that do not generate text token by token, or
// only together with another model.
const notTokenByTokenNew = `
modern-bert eurobert llama-embed gemma4-assistant eagle3 dflash qwen3tts pockettts
`
