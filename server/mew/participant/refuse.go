package participant

import (
	"context"
	"slices"
	"sync"
	"time"

	"runner/server/mew/envelope"
)

// The limits of refusals. They share the participant's rate with its answers.
const (
	// freeRefusals questions in a row are refused one by one. After them a message refuses all that a participant asked
	// meanwhile, and refusalPause passes before the next. The count starts again after restRefusals without any.
	freeRefusals = 20
	refusalPause = 200 * time.Millisecond
	restRefusals = 5 * time.Second
	// maxRefused is the most questions of one participant that wait to be refused. The oldest are forgotten first.
	maxRefused = 1024
)

// refusals are the questions that are not taken and whose askers have to be told.
type refusals struct {
	mu sync.Mutex
	// ids are the questions by who asked, and askers are those in their order.
	ids    map[string][]string
	askers []string
	wake   chan struct{}
}

func newRefusals() *refusals {
	return &refusals{ids: map[string][]string{}, wake: make(chan struct{}, 1)}
}

// add notes a question that is not taken.
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

// next takes at most a number of questions of one asker, who comes last then.
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

// refuse tells askers that their questions are not taken, until ctx ends.
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
			text := envelope.ChatText{Text: "Too many questions are waiting; ask again later.", Format: "plain"}
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
