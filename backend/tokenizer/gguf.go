package tokenizer

import (
	"fmt"
	"strings"

	"runner/backend"
	"runner/backend/gguf"
)

// FromGGUF builds a tokenizer from a GGUF file's metadata. v is the vocabulary as the engine has read it, or nil for
// the one that the file describes.
func FromGGUF(f *gguf.File, v *backend.Vocab) (*Tokenizer, error) {
	model, _ := f.String("tokenizer.ggml.model")
	if model != "gpt2" && model != "llama" {
		return nil, &Error{ErrModel, fmt.Sprintf("tokenizer.ggml.model is %q, not \"gpt2\" or \"llama\"", model)}
	}
	pre, _ := f.String(PatternKey)
	p, ok := ggufPatterns[pre]
	if !ok && model == "gpt2" {
		return nil, patternError(pre)
	}
	tokens, ok := f.Array("tokenizer.ggml.tokens")
	if !ok || tokens.Type() != gguf.String {
		return nil, vocabularyError("tokenizer.ggml.tokens is missing")
	}
	if v == nil {
		var err error
		if v, err = ggufVocab(f, tokens, model == "llama", model == "llama" || wholeWords[pre]); err != nil {
			return nil, err
		}
	}
	if v.Len() != tokens.Len() {
		return nil, vocabularyError("the file has %d tokens and the engine %d", tokens.Len(), v.Len())
	}
	if model == "llama" {
		return ggufPieces(f, v, tokens)
	}
	merges, ok := f.Array("tokenizer.ggml.merges")
	if !ok || merges.Type() != gguf.String {
		return nil, vocabularyError("tokenizer.ggml.merges is missing")
	}
	return build(parts{vocab: v, pattern: p, whole: wholeWords[pre],
		eachMerge: func(yield func(left, right string) error) error {
			for i := range merges.Len() {
				left, right, ok := cutMerge(merges.String(i))
				if !ok {
					return vocabularyError("merge %d is not two tokens", i)
				}
				if err := yield(fromAlphabet(left), fromAlphabet(right)); err != nil {
					return err
				}
			}
			return nil
		}})
}

// PatternKey is the metadata key with the name of the pattern that splits a text into words.
const PatternKey = "tokenizer.ggml.pre"

// ggufVocab returns the vocabulary that a file describes. addBOS is what its kind does unless the file says otherwise.
func ggufVocab(f *gguf.File, tokens *gguf.Array, pieces, addBOS bool) (*backend.Vocab, error) {
	v := backend.VocabConfig{Pieces: make([]string, tokens.Len()), Kinds: make([]backend.TokenKind, tokens.Len())}
	types, hasTypes := f.Array("tokenizer.ggml.token_type")
	if hasTypes && types.Len() != tokens.Len() {
		return nil, vocabularyError("%d tokens have %d types", tokens.Len(), types.Len())
	}
	for i := range v.Pieces {
		v.Pieces[i] = tokens.String(i)
		if hasTypes {
			n, _ := types.Int(i)
			v.Kinds[i], _ = KindOf(n)
		}
		switch {
		case v.Kinds[i] == backend.Normal && pieces:
			v.Pieces[i] = strings.ReplaceAll(v.Pieces[i], spaceMark, " ")
		case v.Kinds[i] == backend.Normal:
			v.Pieces[i] = fromAlphabet(v.Pieces[i])
		case v.Kinds[i] == backend.Unused:
			v.Pieces[i] = ""
		case v.Kinds[i] == backend.Byte:
			if b, ok := ByteOf(v.Pieces[i]); ok {
				v.Pieces[i] = string([]byte{b})
			}
		}
	}
	v.BOS, v.EOS = idAt(f, "bos", tokens.Len()), idAt(f, "eos", tokens.Len())
	var ok bool
	v.AddBOS, ok = f.Bool("tokenizer.ggml.add_bos_token")
	v.AddBOS = v.BOS != backend.NoToken && (v.AddBOS || !ok && addBOS)
	v.EOG = ends(&v)
	for _, name := range []string{"eot", "eom"} {
		if id := idAt(f, name, tokens.Len()); id != backend.NoToken {
			v.EOG = append(v.EOG, id)
		}
	}
	return newVocab(v)
}

// ggufPieces builds the tokenizer of a vocabulary of SentencePiece.
func ggufPieces(f *gguf.File, v *backend.Vocab, tokens *gguf.Array) (*Tokenizer, error) {
	texts, scores := make([]string, tokens.Len()), make([]float64, tokens.Len())
	list, ok := f.Array("tokenizer.ggml.scores")
	if ok && list.Len() != tokens.Len() {
		return nil, vocabularyError("%d tokens have %d scores", tokens.Len(), list.Len())
	}
	for i := range texts {
		texts[i] = tokens.String(i)
		if ok {
			scores[i], _ = list.Float(i)
		}
	}
	prefix, given := f.Bool("tokenizer.ggml.add_space_prefix")
	return newPieces(v, texts, scores, prefix || !given), nil
}

// cutMerge splits "left right". In the alphabet neither part contains a space.
func cutMerge(s string) (left, right string, ok bool) {
	left, right, ok = strings.Cut(s, " ")
	return left, right, ok && left != "" && right != ""
}

// KindOf converts a value of tokenizer.ggml.token_type; Normal and false for a value that GGUF does not define.
func KindOf(n int64) (kind backend.TokenKind, ok bool) {
	switch n {
	case 1:
		return backend.Normal, true
	case 2, 3: // unknown and control
		return backend.Control, true
	case 4:
		return backend.UserDefined, true
	case 5:
		return backend.Unused, true
	case 6:
		return backend.Byte, true
	}
	return backend.Normal, false
}

// ByteOf returns the byte that a byte token's name stands for, for instance "<0x0A>".
func ByteOf(name string) (b byte, ok bool) {
	if len(name) != len("<0x0A>") {
		return 0, false
	}
	_, err := fmt.Sscanf(name, "<0x%02X>", &b)
	return b, err == nil
}

func idAt(f *gguf.File, name string, n int) backend.Token {
	id, ok := f.Int("tokenizer.ggml." + name + "_token_id")
	if !ok || id < 0 || id >= int64(n) {
		return backend.NoToken
	}
	return backend.Token(id)
}

// endNames are names of control tokens that end generation, from the common model families.
var endNames = map[string]bool{
	"<|eot_id|>": true, "<|im_end|>": true, End: true, "<|return|>": true, "<|call|>": true, "<end_of_turn>": true,
	"<|endoftext|>": true, "<|eom_id|>": true, "<EOT>": true, "_<EOT>": true, "<|end_of_text|>": true,
	"<end_of_utterance>": true,
}

// ends finds the control tokens that end generation.
func ends(v *backend.VocabConfig) []backend.Token {
	only := EndsMessageOnly(v)
	var found []backend.Token
	for i, piece := range v.Pieces {
		if v.Kinds[i] == backend.Control && endNames[piece] && (piece != End || !only) {
			found = append(found, backend.Token(i))
		}
	}
	return found
}

// End is a token that ends the turn in some formats, and only a message in harmony.
const End = "<|end|>"

// EndsMessageOnly reports whether [End] ends only a message. It does where <|return|> and <|channel|> are control
// tokens too, as in harmony.
func EndsMessageOnly(v *backend.VocabConfig) bool {
	has := func(name string) bool {
		for i, piece := range v.Pieces {
			if piece == name && v.Kinds[i] == backend.Control {
				return true
			}
		}
		return false
	}
	return has("<|return|>") && has("<|channel|>")
}
