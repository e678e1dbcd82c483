package runner

import "time"

// pace says how much of a text is embedded between two steps of runs. Runs go first: a text gets as much of the
// time as a run, and all of them together no more than half. Time, not tokens, is what it counts, since a piece of
// a text can take as long as many decoding steps.
type pace struct {
	// owed is the time that texts may take now. It is below zero while the runs catch up.
	owed time.Duration
	// perToken is about how long a token of a piece takes; 0 before the first.
	perToken time.Duration
}

const (
	// leastPiece and mostPiece bound a piece in tokens. Smaller ones waste most of a pass over the weights, and
	// with longer ones memory is spent on outputs, which the engine gives for each token.
	leastPiece, mostPiece = 16, 128
	// pieceTime is how long a piece may take at least, and where nothing is generated: a run that comes meanwhile
	// waits for it.
	pieceTime = 20 * time.Millisecond
)

// after counts the time that the last step of runs took, 0 for no step, and returns how many tokens of a text to
// embed now.
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

// took says how long a piece of n tokens took.
func (p *pace) took(n int, long time.Duration) {
	p.owed -= long
	each := long / time.Duration(max(n, 1))
	if p.perToken == 0 {
		p.perToken = each
	}
	p.perToken = (3*p.perToken + each) / 4
}
