package backend

import "context"

// Paced is a model whose sequences do not wait for one another, because its engine puts steps together itself.
type Paced interface {
	Model
	// Ready receives a value when a step may have results that the last step did not have. The channel never closes and
	// holds at most one value. It may be received from any goroutine.
	Ready() <-chan struct{}
}

// Pausing is a sequence of a [Paced] model.
type Pausing interface {
	Sequence
	// Pause ends what the engine computes for the sequence. An input that was pending is given up; another one may
	// follow.
	Pause()
}

// Arriving is a sequence of a [Paced] model that knows whether something came for it. So a step need not look at the
// sequences that wait.
type Arriving interface {
	Sequence
	// Arrived reports whether a step may have a result for the input that the last step left pending. If it is false, a
	// step would leave the same input pending again. Ready receives a value when it becomes true. It may be called
	// between steps.
	Arrived() bool
}

// Reusing is a sequence that may say how much of a prompt was not computed again. An engine at an address may reuse
// more than the sequence was given, and an engine that was started again less.
type Reusing interface {
	Sequence
	// Reused returns how many tokens before the last result the engine did not have to compute. ok is false if it did not
	// say so. It may say more than the sequence shares with others of the same owner, because an engine compares tokens
	// only: do not pass that on.
	Reused() (tokens int, ok bool)
}

// Straying is a sequence at an engine that computes ahead.
type Straying interface {
	Sequence
	// Strayed returns the lengths of the sequence at which the engine had gone on with other tokens than the sequence,
	// since it was last called. The engine may still have what it computed there, and nobody has read it.
	Strayed() []int
}

// StepAll runs a step until every input has its result. It serves callers that have no use for single results. When ctx
// ends, every sequence of the step is as long as before the call. The same holds after an error, unless it wraps
// ErrBroken.
func StepAll(ctx context.Context, m Model, inputs []Input, outputs []Output) error {
	p, ok := m.(Paced)
	if !ok || !m.Capabilities().Paced {
		return m.Step(ctx, inputs, outputs)
	}
	before := make([]int, len(inputs))
	for i := range inputs {
		if inputs[i].Sequence != nil {
			before[i] = len(inputs[i].Sequence.Tokens())
		}
	}
	left := make([]Input, len(inputs))
	copy(left, inputs)
	at := make([]int, len(inputs)) // the places of left in inputs
	for i := range at {
		at[i] = i
	}
	results := outputs
	for {
		err := m.Step(ctx, left, results)
		if err == nil && len(left) > 0 {
			left, at = keepPending(left, at, results, outputs)
			if len(left) > 0 {
				results = make([]Output, len(left))
				select {
				case <-p.Ready():
				case <-ctx.Done():
					err = ctx.Err()
				}
			}
		}
		if err != nil {
			undo(inputs, before)
			return placed(err, at)
		}
		if len(left) == 0 {
			return nil
		}
	}
}

// keepPending copies results to outputs and returns the inputs that have none.
func keepPending(left []Input, at []int, results, outputs []Output) ([]Input, []int) {
	var still []Input
	var places []int
	for i := range left {
		if results[i].Pending {
			still, places = append(still, left[i]), append(places, at[i])
		} else {
			outputs[at[i]] = results[i]
		}
	}
	return still, places
}

// undo makes sequences as long as they were.
func undo(inputs []Input, before []int) {
	for i := range inputs {
		if q, ok := inputs[i].Sequence.(Pausing); ok {
			q.Pause()
			_, _ = q.Truncate(before[i]) // of a sequence that is closed, nothing is left
		}
	}
}

// placed returns an error with the place of its input in the whole step.
func placed(err error, at []int) error {
	if e, ok := err.(*InputError); ok && e.Index < len(at) { //nolint:errorlint // models return it bare
		return &InputError{Index: at[e.Index], Err: e.Err}
	}
	return err
}
