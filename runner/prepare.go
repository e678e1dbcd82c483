package runner

// preparer is a constraint that may take long to find out what can come next. Prepare does about so much of that
// work, at least a little, and reports how much it did and whether all is known. An error ends the lane.
type preparer interface {
	Prepare(work int) (used int, ready bool, err error)
}

// prepareWork is the work, as [preparer] counts it, that constraints do between two steps, all together and about:
// some 2 ms.
const prepareWork = 20_000

// prepare lets constraints find out what may come next in the lanes that can be sampled now. A lane whose
// constraint is not ready stays out of the step, so that the others go on. Those that were not ready before share
// what the rest leaves, or a quarter.
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
