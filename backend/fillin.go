package backend

// FillIn are the tokens with which a model fills a gap in a text. The prompt is Before and the text before the gap,
// After and the text after it, and Gap.
type FillIn struct {
	Before, After, Gap Token
	// File goes before each other file, or is NoToken.
	File Token
}

// fillIn are the names of these tokens in the vocabularies of models, in the order of their fields. llama.cpp knows
// them by the same names.
var fillIn = [][3]string{
	{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}, // Qwen, CodeGemma
	{"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},       // StarCoder, Granite
	{"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
	{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},          // DeepSeek
	{"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"}, // GLM
	{"▁<PRE>", "▁<SUF>", "▁<MID>"},                            // Code Llama
	{"<PRE>", "<SUF>", "<MID>"},
}

// FillIn returns the tokens for filling a gap. It reports false if the vocabulary does not have them.
func (v *Vocab) FillIn() (f FillIn, ok bool) {
	for _, names := range fillIn {
		var found [3]bool
		for i, to := range []*Token{&f.Before, &f.After, &f.Gap} {
			*to, found[i] = v.Special(names[i])
		}
		if found != [3]bool{true, true, true} {
			continue
		}
		f.File = NoToken
		for _, name := range []string{"<|file_sep|>", "<|file_separator|>", "<file_sep>"} {
			if t, ok := v.Special(name); ok {
				f.File = t
			}
		}
		return f, true
	}
	return f, false
}
