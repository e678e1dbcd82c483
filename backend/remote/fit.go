package remote

import "runner/backend"

// Fit returns a vocabulary without the tokens from n on, for an engine whose model has n tokens. Some tokenizers have a
// few control tokens for which the model has no weights, for instance for images. No text has them, and no engine takes
// them. If one of the tokens from n on is text, or begins or ends generation, the vocabulary is not that of the model
// and is returned as it is.
func Fit(v *backend.Vocab, n int) *backend.Vocab {
	if n <= 0 || v.Len() <= n || int(v.BOS()) >= n || int(v.EOS()) >= n {
		return v
	}
	for t := backend.Token(n); int(t) < v.Len(); t++ {
		if k := v.Kind(t); k != backend.Control && k != backend.Unused || v.EndsGeneration(t) {
			return v
		}
	}
	fitting, err := backend.NewVocab(v.Config(n))
	if err != nil {
		return v // its tokens are those of a valid one, so this does not happen
	}
	return fitting
}
