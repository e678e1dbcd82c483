package runner

import (
	"bytes"
	"slices"
	"strings"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/reader"
	"runner/reasoning"
)

// This file keeps what a caller wrote apart from text that the caller must not see.
//
// A caller learns how much of a prompt was cached, how long the first token took and how many guesses were right. If a
// word that the caller wrote could meet a hidden word there, the caller could find the hidden text word by word. So
// each token of a lane has an origin, and [shared] alone says which tokens one sequence may take from another.
//
// A caller that may see all reasoning has nothing to find out. Its lanes have no origins, and all rules are open.

// capped reports whether there is reasoning that the caller of a request may not see, whatever it asks for.
func capped(may, asked reasoning.Visibility) bool { return max(may, asked) < reasoning.VisibilityFull }

// origins are the origins of a lane's tokens. Nil means that all are seen.
type origins []chattemplate.Origin

func (o origins) at(i int) chattemplate.Origin {
	if i >= len(o) {
		return chattemplate.Seen
	}
	return o[i]
}

// newOrigins returns the origins of a prompt's tokens, with room for more.
func newOrigins(p *chattemplate.Prompt, room int) origins {
	o := append(make(origins, 0, room), p.Origins[:min(len(p.Origins), len(p.Tokens))]...)
	for len(o) < len(p.Tokens) {
		o = append(o, chattemplate.FromTemplate)
	}
	return o
}

// shared returns how many of their first tokens, at most limit, two sequences may share. apart says that they would
// share more if they had the same tokens.
//
// An unseen token meets an unseen token only, and only of the same turn: related says that the sequences have unseen
// tokens of the same turns. It may also meet one of the template that follows unseen text, because
// the marks after the reasoning count as unseen where the model wrote them. A stretch of unseen tokens is shared as a
// whole or not at all, so that nobody learns how far two hidden texts agree.
func shared(a, b []backend.Token, of, with origins, related bool, limit int) (n int, apart bool) {
	most := min(len(a), len(b), limit)
	if of == nil && with == nil {
		return commonPrefix(a, b, limit), false
	}
	lastA, lastB := chattemplate.Seen, chattemplate.Seen // of the newest token that is not the template's
	for i := range most {
		x, y := of.at(i), with.at(i)
		if x != chattemplate.FromTemplate {
			lastA = x
		}
		if y != chattemplate.FromTemplate {
			lastB = y
		}
		hidden := x == chattemplate.Unseen || y == chattemplate.Unseen
		if hidden && (!related || lastA != chattemplate.Unseen || lastB != chattemplate.Unseen) {
			return n, true
		}
		if a[i] != b[i] {
			return n, false
		}
		if hidden && (of.unseen(a, i+1) || with.unseen(b, i+1)) {
			continue // in the middle of hidden text
		}
		n = i + 1
	}
	return n, false
}

// related reports whether a lane has unseen tokens of the same turns as a sequence, as far as both have any. The lane's
// own turn counts once it has written something.
func (l *lane) related(to []string) bool {
	of := l.turns
	if len(of) > 0 && len(l.tokens) == l.given {
		of = of[:len(of)-1]
	}
	n := min(len(of), len(to))
	return slices.Equal(of[:n], to[:n])
}

// turnsOf returns the names of the turns whose unseen parts stand in the turn's messages, and a name for the turn
// itself. A turn has the name of its first call, which the caller sends back with it. The job's own name comes first if
// it has a loop, because a prompt that comes from the model belongs to no call.
func (t *turn) turnsOf() (names []string) {
	if t.job.loop != nil {
		names = append(names, t.job.name)
	}
	for i := range t.req.Messages {
		m := &t.req.Messages[i]
		if m.Unseen&chattemplate.UnseenReasoning == 0 || m.Reasoning == "" {
			continue
		}
		name := t.job.name // if there is no call, no other sequence has the turn's name
		if len(m.ToolCalls) > 0 && m.ToolCalls[0].ID != "" {
			name = m.ToolCalls[0].ID
		}
		names = append(names, name)
	}
	return append(names, t.job.name)
}

// nameTurn names the turn by its first call.
func (t *turn) nameTurn(call string) {
	if n := len(t.lane.turns); n > 0 && t.lane.turns[n-1] == t.job.name && call != "" {
		t.lane.turns[n-1] = call
	}
}

// unseen reports whether the token at i is there and unseen.
func (o origins) unseen(tokens []backend.Token, i int) bool {
	return i < len(tokens) && o.at(i) == chattemplate.Unseen
}

// push appends a token.
func (l *lane) push(t backend.Token, of chattemplate.Origin) {
	l.tokens = append(l.tokens, t)
	if l.origins == nil {
		return
	}
	l.origins = append(l.origins, of)
	if l.known != nil {
		l.known = append(l.known, known(t, of))
	}
}

// known returns the token as guesses may see it.
func known(t backend.Token, of chattemplate.Origin) backend.Token {
	if of == chattemplate.Unseen {
		return backend.NoToken
	}
	return t
}

// text returns the tokens from which guesses are taken: all of them, or with NoToken for those that are unseen.
func (l *lane) text() []backend.Token {
	if l.origins == nil {
		return l.tokens
	}
	if l.known == nil {
		l.known = make([]backend.Token, 0, cap(l.tokens))
		for i, t := range l.tokens {
			l.known = append(l.known, known(t, l.origins.at(i)))
		}
	}
	return l.known
}

// originOf returns the origin of a token that the model wrote. before and after are the reader's states around it.
func (t *turn) originOf(tok backend.Token, before, after *reader.State) chattemplate.Origin {
	l, s := t.lane, &t.sight
	if l.origins == nil {
		return chattemplate.Seen
	}
	if before.Early {
		t.early++
		return chattemplate.Unseen // until it is known what it is
	}
	from, to := s.partOf(before), s.partOf(after)
	if from != partReasoning && to != partReasoning {
		if from == partHeader || t.r.model.Vocab().Kind(tok) == backend.Control {
			return chattemplate.FromTemplate
		}
		return chattemplate.Seen
	}
	if t.r.model.Vocab().Kind(tok) == backend.Control {
		return chattemplate.FromTemplate
	}
	if from != partReasoning {
		t.hideSteering(before)
		if s.marks.ends(tok) {
			return chattemplate.FromTemplate
		}
		return chattemplate.Unseen
	}
	// The white space that opens the reasoning is the template's in a later prompt.
	if len(l.tokens) > l.given && l.origins.at(len(l.tokens)-1) == chattemplate.FromTemplate &&
		strings.TrimSpace(t.r.model.Vocab().Piece(tok)) == "" {
		return chattemplate.FromTemplate
	}
	return chattemplate.Unseen
}

// settleEarly notes whether the text at the beginning of the turn was reasoning.
func (t *turn) settleEarly(thought bool) {
	l := t.lane
	if thought {
		t.reasoned = len(l.tokens)
	} else if l.origins != nil {
		for i := len(l.tokens) - t.early; i < len(l.tokens); i++ {
			if l.origins[i] = chattemplate.Seen; l.known != nil {
				l.known[i] = l.tokens[i]
			}
		}
	}
	t.early = 0
}

// hideSteering marks the tokens at the beginning of a turn as unseen once they turn out to be reasoning. before is the
// state before the token that showed it.
func (t *turn) hideSteering(before *reader.State) {
	if !before.Steering || before.Place == reader.PlaceHeader {
		return
	}
	l := t.lane
	for i := len(l.tokens) - 1; i >= l.given && l.origins[i] == chattemplate.FromTemplate; i-- {
		if tok := l.tokens[i]; !t.sight.marks.is(tok) && !t.sight.marks.within(tok) {
			if l.origins[i] = chattemplate.Unseen; l.known != nil {
				l.known[i] = backend.NoToken
			}
		}
	}
}

// ends reports whether a token's text, without the space around it, is the end of a mark. It compares pieces: the same
// piece counts where no mark stands. White space is part of none.
func (m *marks) ends(t backend.Token) bool {
	piece := strings.TrimSpace(m.vocab.Piece(t))
	return piece != "" && slices.ContainsFunc(m.tags, func(tag string) bool { return strings.HasSuffix(tag, piece) })
}

// within reports whether a token's text is a part of a mark. It compares pieces as ends does.
func (m *marks) within(t backend.Token) bool {
	piece := strings.TrimSpace(m.vocab.Piece(t))
	return piece != "" && slices.ContainsFunc(m.tags, func(tag string) bool { return strings.Contains(tag, piece) })
}

// guessable reports whether tokens of a turn may be guessed at all. Where hidden text can open without a mark, a guess
// could reach into it.
func (t *turn) guessable() bool {
	if !capped(t.job.req.MaySee, t.job.req.Visibility) {
		return true
	}
	return t.strategy != reasoning.StrategyJSON && t.strategy != reasoning.StrategyTool && !t.sight.hides &&
		!t.sight.reasons && t.job.loop == nil
}

// tail is the end of a text with guesses after it. It finds marks that are spelled in several tokens.
type tail struct{ text []byte }

// begin starts after the newest tokens of a text.
func (b *tail) begin(m *marks, text []backend.Token) {
	b.text = b.text[:0]
	for _, t := range text[max(0, len(text)-16):] {
		if t != backend.NoToken {
			b.text = append(b.text, m.vocab.Piece(t)...)
		}
	}
}

// marks reports whether a guess completes a mark of the format.
func (b *tail) marks(m *marks, t backend.Token) bool {
	if t == backend.NoToken || m.is(t) {
		return true
	}
	before := len(b.text)
	b.text = append(b.text, m.vocab.Piece(t)...)
	for _, tag := range m.tags {
		if i := bytes.LastIndex(b.text, []byte(tag)); i >= 0 && i+len(tag) > before {
			return true
		}
	}
	return false
}
