package runner

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
)

// claiming is a model whose sequences say that the engine had computed everything. apart says that an input asked for
// a sequence of its own.
type claiming struct {
	*fake.Model
	apart, mixes bool
	// strays are the lengths at which the engine went another way. They are told once.
	strays []int
}

func (c *claiming) Capabilities() backend.Capabilities {
	can := c.Model.Capabilities()
	can.MixesOwners = c.mixes
	return can
}

type claimingSequence struct {
	backend.Sequence
	of *claiming
}

func (c claimingSequence) Strayed() (at []int) {
	at, c.of.strays = c.of.strays, nil
	return at
}

func (claimingSequence) Reused() (int, bool) { return 1 << 20, true }

func (c *claiming) NewSequence() (backend.Sequence, error) {
	s, err := c.Model.NewSequence()
	return claimingSequence{s, c}, err
}

func (c claimingSequence) Fork() (backend.Sequence, error) {
	s, err := c.Sequence.Fork()
	return claimingSequence{s, c.of}, err
}

func (c *claiming) Step(ctx context.Context, inputs []backend.Input, outputs []backend.Output) error {
	inner := slices.Clone(inputs)
	for i := range inner {
		c.apart = c.apart || inner[i].Apart
		inner[i].Sequence = inner[i].Sequence.(claimingSequence).Sequence
	}
	return c.Model.Step(ctx, inner, outputs)
}

// atAddress returns a runner of a model that claims.
func atAddress(t *testing.T, cfg fake.Config, rc Config, replies ...fake.Reply) (*Runner, *claiming) {
	t.Helper()
	if cfg.Vocab == nil {
		cfg.Vocab = fake.Harmony()
	}
	cfg.Pace, cfg.Script = func(int, int) time.Duration { return 0 }, fake.Replies(cfg.Vocab, replies...)
	rc.Clock = clock
	claims := &claiming{Model: fake.New(cfg)}
	r, err := New(claims, rc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r, claims
}

// apartFor sends an answer back and goes on. It reports whether the engine had to compute the prompt itself.
func apartFor(t *testing.T, r *Runner, claims *claiming, req generation.Request, answer string) bool {
	t.Helper()
	claims.apart = false
	req.Messages = append(slices.Clone(req.Messages),
		chattemplate.Message{Role: chattemplate.Assistant, Content: answer},
		chattemplate.Message{Role: chattemplate.User, Content: "go on"})
	if g := collect(t.Context(), r, req); g.err != nil {
		t.Fatal(g.err)
	}
	return claims.apart
}

// TestHonestCallersKeepTheirPrompts: an engine at an address may reuse the prompts of a conversation that goes on, also
// when the runner has given its sequences up.
func TestHonestCallersKeepTheirPrompts(t *testing.T) {
	for _, m := range hidingModels {
		r, claims := atAddress(t, m.model(), Config{CallMemory: NewCallMemory(4, 0)},
			fake.Reply{After: m.asked("2+2?"), Say: m.think(secret, m.call)},
			fake.Reply{After: m.result, Say: m.think("so", answering(m, "It is 4."))},
			fake.Reply{After: m.asked("and 3+3?"), Say: m.think("hm", answering(m, "It is 6."))})
		req := user("2+2?")
		req.Tools = addTool
		g := collect(t.Context(), r, req)
		for range 2 {
			back := callBack(req, g.calls[0].ID, "")
			if g := collect(t.Context(), r, back); g.text[reasoning.Answer] != "It is 4." {
				t.Fatalf("%s: %v", m.name, g)
			}
			back.Messages = append(back.Messages, chattemplate.Message{Role: chattemplate.Assistant, Content: "It is 4."},
				chattemplate.Message{Role: chattemplate.User, Content: "and 3+3?"})
			if g := collect(t.Context(), r, back); g.text[reasoning.Answer] != "It is 6." {
				t.Fatalf("%s: %v", m.name, g)
			}
			fixture{Runner: r}.evict(t)
		}
		if claims.apart {
			t.Errorf("%s: an honest prompt is computed again", m.name)
		}
	}
}

// TestEnginesAtAddressesObey: an engine that compares tokens alone says that it had a prompt. The figure is passed on
// only as far as the runner's own rule goes, and where the caller's text meets hidden text, the engine must not reuse
// anything.
func TestEnginesAtAddressesObey(t *testing.T) {
	for _, v := range views {
		cfg, replies := marked()
		r, claims := atAddress(t, cfg, Config{}, replies...)
		if g := collect(t.Context(), r, marking(v)); g.err != nil || claims.apart {
			t.Fatalf("%v, apart: %t", g.err, claims.apart)
		}
		open := v.may == reasoning.VisibilityFull
		for i := range 4 {
			if i == 2 { // what the runner keeps no longer, the engine may still have
				f := fixture{Runner: r}
				f.evict(t)
			}
			claims.apart = false
			back := collect(t.Context(), r, between(v, secret))
			if all := back.result.Usage.Cached == back.result.Usage.Prompt; all != open || claims.apart == open {
				t.Errorf("%s, guess %d: %d of %d tokens are cached, apart: %t", v.name, i, back.result.Usage.Cached,
					back.result.Usage.Prompt, claims.apart)
			}
		}
	}
}

// TestEnginesAtAddressesAreRemembered: hidden text that an engine may still have stays apart from guesses of it when
// the runner is replaced, when too much is to be remembered, and for other principals if the engine mixes them.
func TestEnginesAtAddressesAreRemembered(t *testing.T) {
	v := views[0]
	for name, c := range map[string]struct {
		mixes bool
		other string // the principal that guesses
		most  int
		again bool // another runner
		apart bool
	}{
		"the same runner":                    {most: maxCrossings, apart: true},
		"the next runner":                    {most: maxCrossings, again: true, apart: true},
		"too many places":                    {most: 1, again: true, apart: true},
		"another principal":                  {most: maxCrossings, other: "other"},
		"another principal, mixed":           {most: maxCrossings, other: "other", mixes: true, apart: true},
		"another principal, mixed, later":    {most: maxCrossings, other: "other", mixes: true, again: true, apart: true},
		"another principal, mixed, too many": {most: 1, other: "other", mixes: true, again: true, apart: true},
	} {
		past := NewCrossings()
		past.most = c.most
		begin := func() (*Runner, *claiming) {
			cfg, replies := marked()
			cfg.Pace = func(int, int) time.Duration { return 0 }
			cfg.Script = fake.Replies(cfg.Vocab, replies...)
			claims := &claiming{Model: fake.New(cfg), mixes: c.mixes}
			r, err := New(claims, Config{Clock: clock, Crossings: past})
			if err != nil {
				t.Fatal(err)
			}
			return r, claims
		}
		r, claims := begin()
		if g := collect(t.Context(), r, marking(v)); g.err != nil || claims.apart {
			t.Fatalf("%s: %v, apart: %t", name, g.err, claims.apart)
		}
		if c.again {
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			r, claims = begin()
		}
		req := between(v, secret)
		req.Principal = c.other
		if g := collect(t.Context(), r, req); g.err != nil || claims.apart != c.apart {
			t.Errorf("%s: %v, apart: %t", name, g.err, claims.apart)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTextAfterAnAnswerMeetsNothing: an engine at an address goes on after an answer that a limit has cut, and may
// think there. A caller that goes on in the answer itself, with a guess, must not meet that. One that sends it back as
// it was keeps its prompt.
func TestTextAfterAnAnswerMeetsNothing(t *testing.T) {
	for _, v := range views {
		r, claims := atAddress(t, fake.Config{}, Config{},
			fake.Reply{After: ask("2+2?"), Say: finalTag + "It is 4. And so on."},
			fake.Reply{After: ask("go on"), Say: finalTag + "No.<|return|>"})
		req := user("2+2?")
		req.MaySee, req.Visibility, req.Effort = v.may, v.asked, reasoning.EffortNone
		req.MaxTokens = 8
		first := collect(t.Context(), r, req)
		if first.err != nil || claims.apart {
			t.Fatalf("%v, apart: %t", first.err, claims.apart)
		}
		answer := first.text[reasoning.Answer]
		for more, want := range map[string]bool{"": false, "<think>guess": v.may != reasoning.VisibilityFull} {
			if got := apartFor(t, r, claims, req, answer+more); got != want {
				t.Errorf("%s, %q: apart: %t", v.name, answer+more, got)
			}
		}
	}
}

// TestTextOfAnotherWayMeetsNothing: an engine at an address had gone on with other tokens than the runner took, because
// of a form or of forced tokens. A caller's text that leaves the answer there must not meet them. The answer itself may
// come back.
func TestTextOfAnotherWayMeetsNothing(t *testing.T) {
	for _, v := range views {
		r, claims := atAddress(t, fake.Config{}, Config{},
			fake.Reply{After: ask("2+2?"), Say: finalTag + "It is 4.<|return|>"},
			fake.Reply{After: ask("go on"), Say: finalTag + "No.<|return|>"})
		req := user("2+2?")
		req.MaySee, req.Visibility, req.Effort = v.may, v.asked, reasoning.EffortNone
		first := collect(t.Context(), r, req)
		if first.err != nil {
			t.Fatal(first.err)
		}
		if err := r.sched.do(t.Context(), func() {
			whole := fake.Decode(claims.Vocab(), r.sched.cache.idle[0].seq.Tokens())
			until, _, _ := strings.Cut(whole, " is 4.")
			claims.strays = []int{len(fake.Encode(claims.Vocab(), until))}
		}); err != nil {
			t.Fatal(err)
		}
		if second := collect(t.Context(), r, req); second.err != nil {
			t.Fatal(second.err)
		}
		for text, want := range map[string]bool{"It is 4.": false, "It was": v.may != reasoning.VisibilityFull, "No": false} {
			if got := apartFor(t, r, claims, req, text); got != want {
				t.Errorf("%s, %q: apart: %t", v.name, text, got)
			}
		}
	}
}

// TestTokensThatAreNotFedMeetNothing ends a lane before the engine was fed its last tokens, which were forced. The
// engine may have gone on after those that it was fed.
func TestTokensThatAreNotFedMeetNothing(t *testing.T) {
	claims := &claiming{Model: fake.New(fake.Config{Vocab: fake.Harmony()})}
	c := prefixCache{model: claims, gone: NewCrossings()}
	begin := func(tokens ...backend.Token) *lane {
		seq, err := claims.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(seq.Close)
		return &lane{seq: seq, tokens: tokens, origins: slices.Repeat(origins{chattemplate.Seen}, len(tokens))}
	}
	l := begin(1, 2, 3, 4, 5)
	l.fed = 3
	c.release(l)
	for _, x := range []struct {
		tokens []backend.Token
		met    bool
	}{{[]backend.Token{1, 2, 3, 9}, true}, {[]backend.Token{1, 2, 9}, false}, {[]backend.Token{1, 2, 3, 4, 9}, false},
		{[]backend.Token{1, 2, 3, 4, 5, 9}, true}} {
		if met := c.gone.cross("", begin(x.tokens...)); met != x.met {
			t.Errorf("%v: %t", x.tokens, met)
		}
	}
}
