package runner

import "time"

// pace decides how much of a text is embedded between two steps of runs. Runs go first. A text gets as much time as a
// run, and all texts together get at most half of the time. pace counts time, not tokens, because a piece of a text
// can take as long as many decoding steps.
type pace struct {
	// owed is the time that texts may use now. It is negative while the runs catch up.
	owed time.Duration
	// perToken is the approximate time for a token of a piece; 0 before the first piece.
	perToken time.Duration
}

const (
	// leastPiece and mostPiece limit a piece in tokens. Smaller pieces waste most of a pass over the weights. Longer ones
	// need much memory, because the engine returns an output for each token.
	leastPiece, mostPiece = 16, 128
	// pieceTime is the time that a piece may always take. While nothing is generated, a piece may not take longer,
	// because a run that arrives meanwhile must wait for it.
	pieceTime = 20 * time.Millisecond
)

// after adds the time of the last step of runs, 0 if there was none. It returns how many tokens of a text to embed
// now.
func (p *pace) after(step time.Duration, runs, texts int) int {
	if step == 0 {
		p.owed = 0
		return p.size(pieceTime)
	}
	p.owed += step
	if runs > texts {
		p.owed += step*time.Duration(texts)/time.Duration(runs) - step
	}
	if p.owed <= 0 {
		return 0
	}
	p.owed = min(p.owed, step)
	return p.size(max(step, pieceTime))
}

func (p *pace) size(long time.Duration) int {
	if p.perToken == 0 {
		return leastPiece
	}
	return int(min(max(long/p.perToken, leastPiece), mostPiece))
}

// took records that a piece of n tokens took the given time.
func (p *pace) took(n int, long time.Duration) {
	p.owed -= long
	each := long / time.Duration(max(n, 1))
	if p.perToken == 0 {
		p.perToken = each
	}
	p.perToken = (3*p.perToken + each) / 4
}
