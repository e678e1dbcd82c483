package runner

import (
	"time"

	"runner/backend"
	"runner/runner/drafts"
)

// This file feeds guesses of the next tokens together with a lane's last token. The engine says which of them are
// right. Each right one goes to the lane's owner as if it had been sampled in a step of its own. So the text does not
// depend on guesses; only the number of steps does.

// branch is a copy of a lane's constraint that follows guesses.
type branch interface {
	backend.Constraint
	// Accept advances by a token.
	Accept(t backend.Token)
	preparer
}

// branching is a constraint that can be followed along guesses.
type branching interface {
	backend.Constraint
	// branch returns a copy in the same state, or nil. It may reuse to, an earlier copy.
	branch(to branch) branch
	// jumps returns a number that changes whenever the constraint changes in another way than by a token of the lane.
	jumps() int
}

// guesser guesses for all lanes.
type guesser struct {
	// on says that guesses may be fed, and always that they are even where they do not pay.
	on, always bool
	costs      drafts.Costs
	// making is how long the guesses of the next step took to make.
	making time.Duration
	// crowded is how many of the next steps go without guesses, because the cache had no room for them.
	crowded int
	// foresee returns what guesses for a lane.
	foresee func(*lane) foresight
}

// foresight guesses the tokens that follow a growing text, as [drafts.Lookup] does.
type foresight interface {
	Read(text []backend.Token, most int) bool
	Guess(text []backend.Token, i int) (backend.Token, bool)
	Odds(i int) float64
}

// guesses are those of one lane.
type guesses struct {
	lookup  foresight
	account drafts.Account
	// list are the guesses of the current step. branches are their constraints, whose memory is reused.
	list     []backend.Draft
	branches []branch
	tail     tail
	// sampling and jumps are what the guesses were made for.
	sampling backend.Sampling
	jumps    int
}

const (
	// readAtOnce is how many tokens of a prompt are read for guesses in one step: about a quarter of a millisecond.
	readAtOnce = 8192
	// crowdedSteps is how long a full cache gets no guesses.
	crowdedSteps = 64
	// branchWork is how much may be done in a step to find out what may follow a lane's guesses.
	branchWork = prepareWork / 4
)

func newGuesser(model backend.Model, cfg *Config) guesser {
	can := model.Capabilities()
	return guesser{
		on:      can.Drafts && can.ExactTruncate && !model.Info().WindowOnly && cfg.Drafts != DraftsOff,
		always:  cfg.Drafts == DraftsOn,
		foresee: func(l *lane) foresight { return drafts.NewLookup(cap(l.tokens)) },
	}
}

// guessAll adds guesses to the inputs that decode. A step with guesses takes longer. So that nobody waits for the
// guesses of others, they are fed only where a lane is alone, unless they always are.
func (s *scheduler) guessAll() {
	g, room := &s.guesser, s.info.BatchSize
	if !g.on {
		return
	}
	if g.crowded > 0 {
		g.crowded--
	}
	if g.making = 0; len(s.active) > 1 && !g.always {
		return
	}
	began := time.Now()
	for i := range s.inputs {
		room -= len(s.inputs[i].Tokens)
	}
	for i := range s.inputs {
		if in := &s.inputs[i]; decodes(in) {
			in.Drafts = s.guess(s.inStep[i], len(in.Tokens), min(room, s.targets))
			room -= len(in.Drafts)
			s.targets -= len(in.Drafts)
		}
	}
	g.making = time.Since(began)
}

// decodes reports whether an input decodes: it feeds a sampled token, with those that were forced after it.
func decodes(in *backend.Input) bool { return in.Sampling != nil && len(in.Tokens) <= smallRun }

// noteCost learns from a step in which a single lane decoded.
func (s *scheduler) noteCost(took time.Duration) {
	if len(s.inputs) != 1 || !decodes(&s.inputs[0]) {
		return
	}
	in, g := &s.inputs[0], &s.guesser
	g.costs.Note(len(in.Tokens)+len(in.Drafts), len(s.inStep[0].tokens), float64(took+g.making))
}

// yield gives up guesses for a while if there were any in a step for which the cache had no room.
func (g *guesser) yield(inputs []backend.Input) bool {
	for i := range inputs {
		if len(inputs[i].Drafts) > 0 {
			g.crowded = crowdedSteps
			return true
		}
	}
	return false
}

// guess returns at most most guesses of the tokens that follow a lane's, of which the step has width.
func (s *scheduler) guess(l *lane, width, most int) []backend.Draft {
	g, all := &l.guesses, &s.guesser
	if !l.repeats || most <= 0 {
		return nil
	}
	text := l.text()
	if g.lookup == nil {
		g.lookup = all.foresee(l)
	}
	if !g.lookup.Read(text, readAtOnce) || l.unseen || all.crowded > 0 {
		return nil
	}
	most = min(most, drafts.Most, s.info.ContextSize-len(l.tokens))
	if !all.always {
		length := len(l.tokens)
		if all.costs.Stale(width, length) {
			return nil
		}
		most = all.costs.Best(most, width, length, g.account.Left(), g.lookup.Odds)
	}
	if s.write(l, most) == 0 {
		return nil
	}
	g.sampling = l.sampling
	return g.list
}

// write writes n guesses to the lane's list, or fewer if nothing can follow one of them, and returns how many.
func (s *scheduler) write(l *lane, n int) int {
	g := &l.guesses
	g.list = g.list[:0]
	constraint := l.constraint
	from, can := l.constraint.(branching)
	if can {
		g.jumps = from.jumps()
	} else if l.constraint != nil {
		return 0
	}
	text, work := l.text(), branchWork
	if l.origins != nil {
		g.tail.begin(l.marks, text)
	}
	for i := range n {
		t, ok := g.lookup.Guess(text, i)
		if !ok || s.model.Vocab().EndsGeneration(t) {
			break
		}
		if l.origins != nil && g.tail.marks(l.marks, t) {
			break // unseen text may follow
		}
		if constraint != nil {
			if !constraint.Allows(t) {
				break
			}
			b := g.branch(i, from)
			if b == nil {
				break
			}
			b.Accept(t)
			used, ready, err := b.Prepare(max(1, work))
			if work -= used; err != nil || !ready || work <= 0 {
				break
			}
			constraint = b
			if next, ok := b.(branching); ok {
				from = next
			}
		}
		g.list = append(g.list, backend.Draft{Token: t, Constraint: constraint})
	}
	return len(g.list)
}

// branch returns a copy of a constraint for the i-th guess.
func (g *guesses) branch(i int, from branching) branch {
	if i == len(g.branches) {
		g.branches = append(g.branches, nil)
	}
	b := from.branch(g.branches[i])
	if b != nil {
		g.branches[i] = b
	}
	return b
}

// taken gives a lane the tokens that a step sampled for it. It takes what follows the guesses that are right as long as
// the lane goes on as they were made for, and removes the other guesses from the sequence. Only what the lane takes
// counts as a gain.
func (s *scheduler) taken(l *lane, in *backend.Input, out *backend.Output) error {
	base := l.fed
	if fed := len(in.Drafts); fed > 0 {
		s.counts.drafted.Add(int64(fed))
		l.owner.drafted(fed, 0)
	}
	l.owner.accept(l, out)
	is, tokens := 0, 1 // the guesses that the lane's tokens have in common, and how many results it took
	for !l.done {
		grown := len(l.tokens) - base
		for is < min(grown, len(out.More)) && l.tokens[base+is] == in.Drafts[is].Token {
			is++
		}
		if is == 0 || is < grown || !l.guesses.hold(l, is) {
			break
		}
		tokens++
		s.counts.accepted.Add(1)
		l.owner.drafted(0, 1)
		l.owner.accept(l, &out.More[is-1])
		if len(l.tokens)-base == grown {
			break
		}
	}
	l.guesses.account.Note(tokens, s.guesser.costs.Times(len(in.Tokens), len(in.Drafts), base))
	is = max(0, min(is, len(l.tokens)-base-1)) // the last token is sampled from, or is the end
	if l.fed = base + is; is < len(out.More) && l.seq != nil {
		_, err := l.seq.Truncate(l.fed)
		return err
	}
	return nil
}

// hold reports whether the token after n guesses is sampled as the guesses expected.
func (g *guesses) hold(l *lane, n int) bool {
	if (l.constraint == nil) != (g.list[0].Constraint == nil) {
		return false
	}
	if b, ok := l.constraint.(branching); ok && b.jumps() != g.jumps {
		return false
	}
	return sameSampling(&l.sampling, &g.sampling, n)
}

// sameSampling reports whether a samples and reports as b does when the penalties also count n further tokens.
func sameSampling(a, b *backend.Sampling, n int) bool {
	return (!a.Penalises() || len(a.Seen) == len(b.Seen)+n) && a.TopLogprobs == b.TopLogprobs && a.Same(b)
}
