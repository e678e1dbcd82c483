package child

// fed says in which pieces a sequence's tokens were fed. A fork has the pieces of its source. So two sequences share
// their first pieces exactly if one was forked from the other or both from a third, whatever tokens they have.
//
// After a crash only such tokens are shared again. If equal tokens were enough, the time of the next step would tell
// one caller how far its text agrees with that of another.
type fed []piece

// piece is a run of tokens that were fed to one sequence, up to the position end.
type piece struct {
	id  uint64
	end int
}

// grow adds the tokens up to the position end to the last piece, or to a new one with an id.
func (f *fed) grow(end int, id uint64) {
	if id != 0 {
		*f = append(*f, piece{id, end})
	}
	(*f)[len(*f)-1].end = end
}

// cut drops the tokens from the position n on.
func (f *fed) cut(n int) {
	kept := 0
	for kept < len(*f) && (kept == 0 && n > 0 || kept > 0 && (*f)[kept-1].end < n) {
		kept++
	}
	if *f = (*f)[:kept]; kept > 0 {
		(*f)[kept-1].end = min((*f)[kept-1].end, n)
	}
}

// shared returns how many tokens two sequences share.
func (f fed) shared(with fed) (n int) {
	for i := range min(len(f), len(with)) {
		if f[i].id != with[i].id {
			return n
		}
		n = min(f[i].end, with[i].end)
		if f[i].end != with[i].end {
			return n
		}
	}
	return n
}
