package server

import (
	"maps"
	"slices"
	"sync"

	"runner/reasoning"
	"runner/server/wire"
)

// usage counts what each API key has used since the server started. The keys are those of the configuration, so their
// number is limited. Its methods may be called by several goroutines at once.
type usage struct {
	mu   sync.Mutex
	keys map[string]*wire.KeyFigures
}

func (u *usage) count(key string, used reasoning.Usage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.keys == nil {
		u.keys = map[string]*wire.KeyFigures{}
	}
	k := u.keys[key]
	if k == nil {
		k = &wire.KeyFigures{ID: key}
		u.keys[key] = k
	}
	k.Runs++
	k.Prompt += int64(used.Prompt)
	k.Completion += int64(used.Completion + used.Summary)
}

// list returns the figures of all keys that have used something, sorted by id.
func (u *usage) list() []wire.KeyFigures {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := []wire.KeyFigures{}
	for _, id := range slices.Sorted(maps.Keys(u.keys)) {
		list = append(list, *u.keys[id])
	}
	return list
}

// Figures says what the server does. Only operators may see it.
func (s *Server) Figures() wire.Figures {
	held, _ := goMemory()
	f := wire.Figures{
		Uptime: s.cfg.Clock().Sub(s.began).Seconds(), Requests: int(s.inFlight.Load()),
		Memory: held, Models: []wire.ModelFigures{},
		Keys: s.usage.list(),
	}
	if s.cfg.Memory != nil {
		f.Available, _ = s.cfg.Memory()
	}
	for _, card := range s.cards {
		r := s.cfg.Pool.Loaded(card.Name)
		card = s.describe(card, r)
		m := wire.ModelFigures{Name: card.Name, Loaded: r != nil, Size: card.Size, Context: card.Context}
		if r != nil {
			stats := r.Stats()
			m.Waiting, m.Active, m.Idle = stats.Waiting, stats.Active, stats.Idle
			m.Steps, m.Tokens, m.Memory, m.Crashes = stats.Steps, stats.Tokens, stats.Engine.Memory, stats.Engine.Crashes
		}
		f.Models = append(f.Models, m)
	}
	return f
}
