package runner

import (
	"context"
	"time"

	"runner/backend"
)

// lane is one sequence in the scheduler: first its tokens are fed, then a token is sampled per step. A run's main
// output is a lane, and so is its summary pass.
type lane struct {
	ctx   context.Context
	owner laneOwner
	// seq is nil while the lane has no sequence. A lane that was paused keeps it, unless others need it.
	seq backend.Sequence
	// tokens is the whole sequence: the fed tokens that the engine holds already, then the tokens to feed.
	tokens []backend.Token
	fed    int
	// origins are those of tokens, see origins.go. known is tokens without what is unseen; nil until a guess needs it.
	origins origins
	known   []backend.Token
	// turns names the turns that wrote the unseen tokens, in order. Only sequences of the same turns share such tokens.
	turns []string
	// given is the number of tokens of the prompt.
	given int
	// unseen says that the next token may be unseen, so it is not guessed. marks are those that may open unseen text.
	unseen bool
	marks  *marks
	// strayed are the lengths at which an engine at an address had gone another way, as far as they are not noted yet.
	strayed []int
	// apart says that the engine must compute all of the lane's tokens itself. Otherwise what it shares could show how far
	// the caller's text agrees with unseen text.
	apart bool

	// scoring scores the prompt while it is fed; nil scores nothing.
	scoring *scoring
	// silent means that the lane ends with its prompt: nothing is sampled after it.
	silent bool

	sampling   backend.Sampling
	constraint backend.Constraint
	// hidden, when not nil, sums up hidden states: the lane embeds its tokens and samples nothing.
	hidden []float64
	// piece is the number of the last piece that was embedded. It orders lanes by how recently they were served.
	piece uint64
	// unready means that the constraint does not know yet which tokens may follow, so nothing can be sampled.
	unready bool

	// principal is the caller. Principals do not share prefixes.
	principal string
	// aside means that the lane is no run: it takes no place and waits for nobody. If it belongs to a run, beside is the
	// run's main lane. When that has ended, the lane is the run.
	aside  bool
	beside *lane
	// begun means that the lane continues a run that is under way.
	begun bool
	// running means that the lane is in the steps.
	running bool
	// paused means that the lane's run was paused. pauses, when not nil, is told when that begins and when it ends.
	paused bool
	pauses func(paused bool)
	// stopped means that the engine stopped computing the lane when it was paused, and had to start again.
	stopped bool
	// yielded means that the lane gave its sequence up because the cache was full.
	yielded bool
	// again is the length up to which the lane computes what it had computed before; 0 if it does not. since is when the
	// lane last went on or was paused, and until when others may have its place.
	again        int
	since, until time.Time

	// age orders lanes by admission. The youngest yields first.
	age uint64
	// repeats means that the lane's next tokens may be guessed.
	repeats bool
	guesses guesses

	// unwatch ends the watch on ctx.
	unwatch func() bool
	// awaits is seq if the last step left its input pending and it knows whether a result came; nil otherwise.
	awaits backend.Arriving
	// placed means that nothing more of the lane goes into the step that is being filled: it has an input there, or its
	// result has not come.
	placed bool
	// left is the number of steps that the lane was left out of, since it last took part.
	left int
	// done means that the lane leaves at the end of the step.
	done bool
}

// laneOwner is notified of what happens to a lane, on the scheduler's goroutine.
type laneOwner interface {
	// started is called when the lane gets a sequence, with the number of cached tokens. That is once, unless the lane had
	// to give its sequence up.
	started(l *lane, cached int)
	// accept handles the sampled token. It appends the tokens to feed next to l.tokens, or sets l.done.
	accept(l *lane, out *backend.Output)
	// drafted is called before accept, with how many guesses were fed for the lane, or taken by it.
	drafted(fed, taken int)
	// full is called when the lane cannot continue because the context or the cache is full. It sets l.done.
	full(l *lane)
	// failed is called when the lane ends early. The lane is done.
	failed(l *lane, err error)
}

// isRun reports whether the lane is a run, which takes a place.
func (l *lane) isRun() bool {
	return !l.embeds() && (!l.aside || l.beside != nil && l.beside.done)
}

// embeds reports whether the lane embeds its tokens.
func (l *lane) embeds() bool { return l.hidden != nil }

func (l *lane) pending() int { return len(l.tokens) - l.fed }
