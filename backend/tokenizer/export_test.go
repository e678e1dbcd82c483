package tokenizer

import "runner/backend"

// Merges calls yield for every merge, in no particular order, with its rank and the bytes of the two tokens that it
// joins.
func (t *Tokenizer) Merges(yield func(rank int, left, right string) bool) {
	for _, e := range t.merges.table {
		if e.key != noPair && !yield(int(e.rank), t.vocab.Piece(backend.Token(e.key>>32)),
			t.vocab.Piece(backend.Token(uint32(e.key)))) {
			return
		}
	}
}
