package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"

	"runner/backend"
)

// Ends names the tokens that begin and end sequences, which tokenizer.json does not name. An empty name means no
// token.
type Ends struct {
	BOS, EOS string
	// AddBOS reports whether prompts start with BOS.
	AddBOS bool
	// EOG names tokens that end generation, in addition to EOS and well-known control tokens.
	EOG []string
}

// file is the part of tokenizer.json that byte-level BPE needs.
type file struct {
	AddedTokens []struct {
		ID      int    `json:"id"`
		Content string `json:"content"`
		Special bool   `json:"special"`
	} `json:"added_tokens"`
	Normalizer   *step `json:"normalizer"`
	PreTokenizer *step `json:"pre_tokenizer"`
	Model        struct {
		Type         string            `json:"type"`
		Vocab        map[string]int    `json:"vocab"`
		Merges       []json.RawMessage `json:"merges"`
		IgnoreMerges bool              `json:"ignore_merges"`
		ByteFallback bool              `json:"byte_fallback"`
	} `json:"model"`
}

// step is a normalizer or pre-tokenizer.
type step struct {
	Type             string `json:"type"`
	PreTokenizers    []step `json:"pretokenizers"`
	Normalizers      []step `json:"normalizers"`
	AddPrefixSpace   bool   `json:"add_prefix_space"`
	UseRegex         *bool  `json:"use_regex"` // true if missing
	IndividualDigits bool   `json:"individual_digits"`
	Behavior         string `json:"behavior"`
	Invert           bool   `json:"invert"`
	Pattern          struct {
		Regex string `json:"Regex"`
	} `json:"pattern"`
}

// maxJSON is the largest size of a tokenizer.json, in bytes. The largest in use have about 35 million.
const maxJSON = 256 << 20

// FromJSON builds a tokenizer from a Hugging Face tokenizer.json with a byte-level BPE model. Special added tokens
// become control tokens, the others user-defined tokens. An NFC normalizer is accepted but not applied, as in
// llama.cpp.
func FromJSON(data []byte, e Ends) (*Tokenizer, error) {
	if len(data) > maxJSON {
		return nil, vocabularyError("tokenizer.json has more than %d bytes", maxJSON)
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, vocabularyError("tokenizer.json: %v", err)
	}
	if f.Model.Type != "BPE" && f.Model.Type != "" || f.Model.ByteFallback || f.Model.Vocab == nil {
		return nil, &Error{ErrModel, fmt.Sprintf("the model is %.40q, not byte-level BPE", f.Model.Type)}
	}
	if n := f.Normalizer; n != nil && n.Type != "NFC" && !(n.Type == "Sequence" && len(n.Normalizers) == 0) {
		return nil, &Error{ErrModel, fmt.Sprintf("the normalizer %.40q would change the text", n.Type)}
	}
	p, err := jsonPattern(f.PreTokenizer)
	if err != nil {
		return nil, err
	}
	c, err := f.vocabulary(e)
	if err != nil {
		return nil, err
	}
	v, err := newVocab(c)
	if err != nil {
		return nil, err
	}
	return build(parts{vocab: v, pattern: p, whole: f.Model.IgnoreMerges, firstWins: true,
		eachMerge: func(yield func(left, right string) error) error {
			for i, raw := range f.Model.Merges {
				left, right, ok := jsonMerge(raw)
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

// maxPadding is the maximum number of unused ids in a vocabulary.
const maxPadding = 1 << 16

// jsonMerge reads "left right" or ["left", "right"].
func jsonMerge(raw json.RawMessage) (left, right string, ok bool) {
	var pair []string
	if json.Unmarshal(raw, &pair) == nil {
		if len(pair) != 2 {
			return "", "", false
		}
		return pair[0], pair[1], pair[0] != "" && pair[1] != ""
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return "", "", false
	}
	return cutMerge(s)
}

func (f *file) vocabulary(e Ends) (backend.VocabConfig, error) {
	var v backend.VocabConfig
	size := 0
	for _, id := range f.Model.Vocab {
		size = max(size, id+1)
	}
	for _, a := range f.AddedTokens {
		size = max(size, a.ID+1)
	}
	if most := len(f.Model.Vocab) + len(f.AddedTokens) + maxPadding; size > most {
		return v, vocabularyError("the largest id is %d, but there can be only %d tokens", size-1, most)
	}
	v.Pieces, v.Kinds = make([]string, size), make([]backend.TokenKind, size)
	for i := range v.Kinds {
		v.Kinds[i] = backend.Unused
	}
	for s, id := range f.Model.Vocab {
		if id < 0 || v.Kinds[id] != backend.Unused {
			return v, vocabularyError("id %d is negative or given twice", id)
		}
		v.Pieces[id], v.Kinds[id] = fromAlphabet(s), backend.Normal
	}
	named := map[string]backend.Token{"": backend.NoToken}
	for _, a := range f.AddedTokens {
		if a.ID < 0 {
			return v, vocabularyError("id %d is negative", a.ID)
		}
		v.Pieces[a.ID], v.Kinds[a.ID] = a.Content, backend.UserDefined
		if a.Special {
			v.Kinds[a.ID] = backend.Control
		}
		named[a.Content] = backend.Token(a.ID)
	}
	v.EOG = ends(&v)
	for _, name := range append([]string{e.BOS, e.EOS}, e.EOG...) {
		if _, ok := named[name]; !ok {
			return v, vocabularyError("%.80q is not an added token", name)
		}
	}
	for _, name := range e.EOG {
		if id := named[name]; id != backend.NoToken {
			v.EOG = append(v.EOG, id)
		}
	}
	v.BOS, v.EOS, v.AddBOS = named[e.BOS], named[e.EOS], e.AddBOS
	return v, nil
}

// jsonPattern recognises the common pre-tokenizers: a byte-level one, alone or after a split or single digits.
func jsonPattern(s *step) (pattern, error) {
	if s == nil {
		return pattern{}, &Error{ErrModel, "there is no pre-tokenizer"}
	}
	steps := []step{*s}
	if s.Type == "Sequence" {
		steps = s.PreTokenizers
	}
	var types []string
	for _, s := range steps {
		types = append(types, s.Type)
	}
	last := len(steps) - 1
	if last < 0 || steps[last].Type != "ByteLevel" || steps[last].AddPrefixSpace {
		return pattern{}, &Error{ErrModel, fmt.Sprintf("the pre-tokenizer is %.80q, not byte-level",
			strings.Join(types, ", "))}
	}
	regex := steps[last].UseRegex == nil || *steps[last].UseRegex
	switch {
	case len(steps) == 1 && regex:
		return gpt2, nil
	case len(steps) == 2 && regex && steps[0].Type == "Digits" && steps[0].IndividualDigits:
		return starcoder, nil
	case len(steps) == 2 && !regex && steps[0].Type == "Split" && !steps[0].Invert && steps[0].Behavior == "Isolated":
		if p, ok := regexps[steps[0].Pattern.Regex]; ok {
			return p, nil
		}
		return pattern{}, patternError(steps[0].Pattern.Regex)
	}
	return pattern{}, &Error{ErrPattern, fmt.Sprintf("the steps %.80q", strings.Join(types, ", "))}
}
