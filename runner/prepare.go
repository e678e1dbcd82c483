package runner

// preparer is a constraint that may need long to compute which tokens can follow. Prepare does about the given amount
// of that work, and at least a little. It returns the amount of work done and whether the constraint is ready. An
// error ends the lane.
type preparer interface {
	Prepare(work int) (used int, ready bool, err error)
}

// prepareWork is the approximate work of all constraints between two steps, in the units of [preparer]: about 2 ms.
const prepareWork = 20_000

// prepare lets the constraints of the lanes that can be sampled now compute which tokens can follow. A lane whose
// constraint is not ready is left out of the step, so that the others can continue. Lanes that were not ready before
// share the work that the other lanes leave, but at least a quarter of the total.
func (s *scheduler) prepare() {
	s.inStep = s.inStep[:0]
	for _, l := range s.active {
		if !l.unready {
			s.inStep = append(s.inStep, l)
		}
	}
	fresh := len(s.inStep)
	for _, l := range s.active {
		if l.unready {
			s.inStep = append(s.inStep, l)
		}
	}
	left := prepareWork
	for _, l := range s.inStep[:fresh] {
		left -= s.prepareLane(l, max(1, min(left, prepareWork/4)))
	}
	late := s.inStep[fresh:]
	for _, l := range late {
		s.prepareLane(l, max(left, prepareWork/4)/len(late))
	}
}

func (s *scheduler) prepareLane(l *lane, work int) (used int) {
	l.unready = false
	p, ok := l.constraint.(preparer)
	if !ok || l.done || l.pending() > s.info.BatchSize {
		return 0
	}
	used, ready, err := p.Prepare(work)
	if err != nil {
		s.fail(l, err)
	}
	l.unready = !ready
	return used
}
