package participant

import (
	"context"
	"slices"
	"sync"
	"time"

	"runner/server/mew/envelope"
)

// The limits of refusals, which count against the same rate limit as answers.
const (
	// freeRefusals questions in a row are refused one by one. After that, one message refuses all waiting questions of an
	// asker, with refusalPause between messages. The count starts again after restRefusals without a refusal.
	freeRefusals = 20
	refusalPause = 200 * time.Millisecond
	restRefusals = 5 * time.Second
	// maxRefused is the maximum number of one asker's questions that wait to be refused. The oldest are dropped first.
	maxRefused = 1024
)

// refusals are the refused questions whose askers were not told yet.
type refusals struct {
	mu sync.Mutex
	// ids are the questions of each asker. askers are the askers, in order.
	ids    map[string][]string
	askers []string
	wake   chan struct{}
}

func newRefusals() *refusals {
	return &refusals{ids: map[string][]string{}, wake: make(chan struct{}, 1)}
}

// add adds a refused question.
func (r *refusals) add(from, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids[from] == nil {
		r.askers = append(r.askers, from)
	}
	list := append(r.ids[from], id)
	r.ids[from] = list[max(0, len(list)-maxRefused):]
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// next takes up to most questions of the first asker. If more are left, the asker moves to the end.
func (r *refusals) next(most int) (from string, ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.askers) == 0 {
		return "", nil
	}
	from, r.askers = r.askers[0], r.askers[1:]
	all := r.ids[from]
	n := min(most, len(all))
	if n == len(all) {
		delete(r.ids, from)
	} else {
		r.ids[from], r.askers = all[n:], append(r.askers, from)
	}
	return from, slices.Clone(all[:n])
}

// refuse tells askers that their questions are refused, until ctx ends.
func (s *session) refuse(ctx context.Context) {
	count, last := 0, time.Now()
	for {
		select {
		case <-s.refused.wake:
		case <-ctx.Done():
			return
		}
		if now := time.Now(); now.Sub(last) > restRefusals {
			count = 0
		}
		for {
			most := 1
			if count >= freeRefusals {
				most = envelope.MaxIDs
			}
			from, ids := s.refused.next(most)
			if ids == nil {
				break
			}
			text := envelope.Answer("Too many questions are waiting; ask again later.", "plain")
			s.reply(envelope.Chat, []string{from}, ids, "", text)
			if count, last = count+1, time.Now(); count < freeRefusals {
				continue
			}
			select {
			case <-time.After(refusalPause):
			case <-ctx.Done():
				return
			}
		}
	}
}
