package plan

import (
	"errors"
	"fmt"
	"strings"

	"runner/backend"
	"runner/backend/gguf"
	"runner/backend/tokenizer"
)

// A byte-level vocabulary comes with a rule by which a text is split into words, the pre-tokenizer. A file names it,
// and every engine has a list of names in its code. The compiled-in engine splits by its default rule if it does not
// find the name, and says so in its log only. Its list is here, and a test compares it with the engine's source. An
// engine from a folder refuses the file, with a message that unknownMessage is in.

// ErrPretokenizer is in the errors about models whose pre-tokenizer the engine does not know.
var ErrPretokenizer = errors.New("unknown pre-tokenizer")

const unknownMessage = "unknown pre-tokenizer type"

var knownPretokenizers = set(`
default llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 deepseek-llm deepseek-coder
deepseek-v3 falcon mpt starcoder gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum
jina-v1-en jina-v2-code roberta-bpe refact command-r qwen2 deepseek-r1-qwen kormo stablelm2 olmo dbrx smaug-bpe
poro-chat glm4 chatglm-bpe viking jais tekken smollm codeshell bloom gpt3-finnish exaone exaone4 chameleon
minerva-7b megrez gpt-4o llama4 superbpe trillion granite-docling bailingmoe bailingmoe2 llada-moe seed-coder
hunyuan hunyuan-dense kimi-k2 grok-2 afmoe minimax-m2
`)

// pretokenizer returns the name that a file gives its pre-tokenizer, and whether its vocabulary needs one.
func pretokenizer(f *gguf.File) (name string, needed bool) {
	kind, _ := f.String("tokenizer.ggml.model")
	name, _ = f.String(tokenizer.PatternKey)
	return name, kind == "gpt2"
}

// CheckPretokenizer refuses a file whose pre-tokenizer is not in the engine's list. Engines from folders have no list
// here.
func (e *Engine) CheckPretokenizer(path string, f *gguf.File) error {
	name, needed := pretokenizer(f)
	if !needed || name == "" || e.Folder != "" || knownPretokenizers[name] {
		return nil
	}
	return e.UnknownPretokenizer(path, f)
}

// UnknownPretokenizer refuses a file whose pre-tokenizer the engine does not know.
func (e *Engine) UnknownPretokenizer(path string, f *gguf.File) error {
	name, _ := pretokenizer(f)
	other := "use a newer one with --engine"
	if e.Folder != "" {
		other = "use a newer one"
	}
	return &backend.LoadError{Path: path, Reason: backend.LoadUnknownPretokenizer,
		Detail: fmt.Sprintf("unknown pre-tokenizer %.40q, so texts would become other tokens than in training", name),
		Advice: "this engine is llama.cpp " + e.Version + "; " + other + ", or load the model all the same, with worse " +
			"answers, with --any-pretokenizer",
		Err: errors.Join(ErrPretokenizer, ErrNewer)}
}

// RefusesPretokenizer reports whether an engine's message says that it does not know the file's pre-tokenizer.
func RefusesPretokenizer(message string) bool { return strings.Contains(message, unknownMessage) }

// DefaultSplit says why the engine splits texts by its default rule, or nothing if the file asks for the rule in use.
// unknown reports that the engine does not know the rule that the file names.
func DefaultSplit(f *gguf.File, unknown bool) string {
	name, needed := pretokenizer(f)
	switch {
	case unknown:
		return fmt.Sprintf("the engine does not know the model's pre-tokenizer %.40q", name)
	case needed && name == "":
		return "the model's file does not name a pre-tokenizer"
	}
	return ""
}
