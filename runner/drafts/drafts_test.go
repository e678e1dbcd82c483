package drafts

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"runner/backend"
)

// slow finds the longest end of text that came before and returns its length and the place after it.
func slow(text []backend.Token) (matched, at int) {
	for end := len(text) - 1; end >= least; end-- {
		n := 0
		for n < longest && end-1-n >= 0 && text[end-1-n] == text[len(text)-1-n] {
			n++
		}
		if n >= least && n > matched {
			matched, at = n, end
		}
	}
	return matched, at
}

// TestLookupFindsTheLongestMatch compares the first guess after a miss with a slow search, on texts over a small
// alphabet, which repeat much.
func TestLookupFindsTheLongestMatch(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	fresh, found := 0, 0
	for range 200 {
		l := NewLookup(10)
		var text []backend.Token
		for len(text) < 300 {
			text = append(text, backend.Token(r.IntN(12)))
			if len(text) > 50 && r.IntN(15) == 0 { // copies a part
				from := r.IntN(len(text) - 20)
				text = append(text, text[from:from+20]...)
			}
			before, read := l.at, l.read
			l.Read(text, len(text))
			if l.at == none || l.matched < least || l.matched > longest || l.at == before+len(text)-read {
				continue // there is no match, or it goes on
			}
			matched, at := slow(text)
			if l.matched < least || matched < least {
				t.Fatalf("a match of %d, and %d by a slow search", l.matched, matched)
			}
			for i := range l.matched {
				if text[l.at-1-i] != text[len(text)-1-i] {
					t.Fatalf("token %d before the place %d differs", i, l.at)
				}
			}
			if fresh++; l.matched == matched && l.at == at {
				found++
			}
			if guess, ok := l.Guess(text, 0); !ok || guess != text[l.at] {
				t.Fatalf("guess %d, %t", guess, ok)
			}
		}
	}
	if fresh < 1000 || found < fresh*9/10 {
		t.Errorf("the longest match was found %d times of %d", found, fresh)
	}
}

// TestLookupGoesOnAfterAReplacedToken follows a copy in which a token differs. The next guess is that of the copy.
func TestLookupGoesOnAfterAReplacedToken(t *testing.T) {
	l := NewLookup(0)
	text := []backend.Token{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 40}
	l.Read(text, 100)
	usual := newOdds()
	if got, ok := l.Guess(text, 0); !ok || got != 5 || l.Odds(0) != usual.of(0) {
		t.Errorf("the guess is %d, %t, with odds %.2f", got, ok, l.Odds(0))
	}
}

// TestLookupFollowsAnEditedCopy copies a text of few words, in which short matches are chance, and replaces one token
// in five. Nearly four guesses of five should be right.
func TestLookupFollowsAnEditedCopy(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	text := make([]backend.Token, 1000)
	for i := range text {
		text[i] = backend.Token(r.IntN(8) * r.IntN(8))
	}
	l := NewLookup(len(text))
	l.Read(text, len(text))
	right := 0
	for i := range 1000 {
		next := text[i]
		if r.IntN(5) == 0 {
			next = backend.Token(100 + r.IntN(50))
		}
		if guess, ok := l.Guess(text, 0); ok && guess == next {
			right++
		}
		text = append(text, next)
		l.Read(text, 1)
	}
	if right < 750 {
		t.Errorf("%d guesses of 1000 were right", right)
	}
}

// TestLookupRepeatsALoop follows a text that repeats two tokens: guesses go beyond its end.
func TestLookupRepeatsALoop(t *testing.T) {
	l := NewLookup(0)
	text := []backend.Token{9, 1, 2, 1, 2, 1, 2}
	if !l.Read(text, 100) {
		t.Fatal("not all was read")
	}
	for i := range 8 {
		if got, ok := l.Guess(text, i); !ok || got != backend.Token(1+i%2) {
			t.Errorf("guess %d is %d, %t", i, got, ok)
		}
	}
	if l.Read(append(text, 1, 2), 1) {
		t.Error("one token is all of two")
	}
}

// TestOddsFollowTheText checks that the odds become those of the text, in a text that repeats and in one that does not.
func TestOddsFollowTheText(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, right := range []float64{0, 0.5, 0.8, 1} {
		o := newOdds()
		for range 400 {
			o.note(4, r.Float64() < right)
		}
		if got := o.of(3); math.Abs(got-right) > 0.15 {
			t.Errorf("the odds are %.2f where %.2f of the guesses are right", got, right)
		}
	}
}

// TestBestPays decides as the figures say: on a dense model, on a mixture of experts, and where nothing repeats.
func TestBestPays(t *testing.T) {
	power := func(p float64) (c Costs) {
		for w := 1; w <= 16; w++ {
			c.Note(w, 0, math.Pow(float64(w), p))
		}
		return c
	}
	dense, experts := power(0.05), power(0.55)
	for _, c := range []struct {
		name        string
		costs       *Costs
		odds        float64
		least, most int
	}{
		{"dense, four of five", &dense, 0.8, 5, 15}, {"dense, one of ten", &dense, 0.1, 0, 1},
		{"experts, four of five", &experts, 0.8, 1, 8}, {"experts, nine of ten", &experts, 0.95, 8, 15},
		{"experts, three of ten", &experts, 0.3, 0, 0}, {"nothing known", &Costs{}, 1, 0, 0},
	} {
		if n := c.costs.Best(Most, 1, 0, Most, func(int) float64 { return c.odds }); n < c.least || n > c.most {
			t.Errorf("%s: %d drafts, want %d to %d", c.name, n, c.least, c.most)
		}
	}
}

// TestDraftsPay writes texts with drafts. Steps have the costs that were measured on Zen 4, and nothing is known about
// them at first. The texts are copies of their prompts in which one token of some is another. The bounds are at
// most 2% below what drafts give.
func TestDraftsPay(t *testing.T) {
	dense := map[int]float64{1: 1, 2: 1.03, 4: 1.12, 8: 1.35, 16: 2.2}
	experts := map[int]float64{1: 1, 2: 1.47, 3: 1.77, 4: 2.13, 6: 2.86, 8: 3.3, 16: 5.2}
	for _, c := range []struct {
		name  string
		costs map[int]float64
		one   int // one token of so many is another; where it is one, all are
		least float64
	}{
		{"dense, one of 5", dense, 5, 2.78}, {"dense, one of 30", dense, 30, 5}, {"dense, all", dense, 1, 1},
		{"experts, one of 5", experts, 5, 1.342}, {"experts, one of 30", experts, 30, 2.2},
		{"experts, one of 2", experts, 2, 0.995}, {"experts, all", experts, 1, 1},
	} {
		logs := 0.0
		const texts = 20
		for i := range texts {
			r := rand.New(rand.NewPCG(uint64(i), 5))
			zipf := rand.NewZipf(r, 1.1, 8, 4000)
			text, next := make([]backend.Token, 400), make([]backend.Token, 400)
			for i := range text {
				text[i] = backend.Token(zipf.Uint64())
				if next[i] = text[i]; r.IntN(c.one) == 0 {
					next[i] = backend.Token(zipf.Uint64())
				}
			}
			logs += math.Log(timesAsFast(text, next, c.costs))
		}
		if got := math.Exp(logs / texts); got < c.least {
			t.Errorf("%s: drafts make it %.3f times as fast, which should be at least %.2f", c.name, got, c.least)
		}
	}
}

// timesAsFast returns how many times as fast next follows text with drafts as without. costs are those of steps.
func timesAsFast(text, next []backend.Token, costs map[int]float64) float64 {
	var exact, learned Costs
	for width, cost := range costs {
		exact.at[0].of[width] = cost
	}
	text = append(slices.Clone(text), next[0])
	l := NewLookup(len(text))
	var a Account
	total := 0.0
	for done := 1; done < len(next); {
		l.Read(text, len(text))
		n := 0
		if !learned.Stale(1, 0) {
			n = learned.Best(min(Most, len(next)-done-1), 1, 0, a.Left(), l.Odds)
		}
		right := 0
		for right < n {
			if guess, _ := l.Guess(text, right); guess != next[done+right] {
				break
			}
			right++
		}
		cost := exact.Of(1+n, 0)
		learned.Note(1+n, 0, cost)
		a.Note(1+right, learned.Times(1, n, 0))
		total += cost
		text = append(text, next[done:done+right+1]...)
		done += right + 1
	}
	return float64(len(next)-1) / total
}

// TestCostsOfUnknownWidths lie between those of known ones, and grow beyond them as before.
func TestCostsOfUnknownWidths(t *testing.T) {
	var c Costs
	c.Note(1, 0, 10)
	if got := c.Of(8, 0); math.Abs(got-31) > 1 {
		t.Errorf("eight cost %.1f before anything is known but one", got)
	}
	c.Note(4, 0, 20)
	if got := c.Of(2, 0); got <= 10 || got >= 20 {
		t.Errorf("two cost %.1f", got)
	}
	if got := c.Of(16, 0); math.Abs(got-40) > 0.01 {
		t.Errorf("sixteen cost %.1f", got)
	}
	for range 100 {
		c.Note(4, 0, 11)
	}
	c.Note(4, 0, 1000)
	if got := c.Of(4, 0); got > 14 {
		t.Errorf("one outlier made four cost %.1f", got)
	}
}

// TestMeasuredCosts gives the shape of a dense model, whose steps then cost more than when they were measured.
func TestMeasuredCosts(t *testing.T) {
	var c Costs
	c.Measure([len(Widths)]float64{101, 102, 104, 108, 116})
	if got := c.Of(1, 0); got != 0 {
		t.Errorf("a step costs %.1f before a real one was seen", got)
	}
	c.Note(1, 0, 202)
	for w, want := range map[int]float64{1: 202, 2: 204, 8: 216, 16: 232, 12: 224, 32: 240} {
		if got := c.Of(w, 0); math.Abs(got-want) > 6 {
			t.Errorf("%d cost %.1f, want %.0f", w, got, want)
		}
	}
	c.Note(8, 0, 250)
	if got := c.Of(16, 0); math.Abs(got-250*116/108.0) > 0.01 {
		t.Errorf("sixteen cost %.1f where eight cost 250", got)
	}
	if got := c.Of(4, 0); got <= 202 || got >= 250 {
		t.Errorf("four cost %.1f between 202 and 250", got)
	}
}

// TestMeasuredCostsNeverFall gives costs of which a narrow one is too high, and only those of narrow widths.
func TestMeasuredCostsNeverFall(t *testing.T) {
	var c Costs
	c.Measure([len(Widths)]float64{100, 50, 150})
	c.Note(1, 0, 10)
	for w, want := range map[int]float64{1: 10, 2: 10, 4: 15} {
		if got := c.Of(w, 0); math.Abs(got-want) > 0.01 {
			t.Errorf("%d cost %.1f, want %.0f", w, got, want)
		}
	}
	if got := c.Of(16, 0); got < 15 || got > 46 {
		t.Errorf("sixteen cost %.1f", got)
	}
}

// TestCostsAreForgotten checks that a width that once seemed too dear is tried again.
func TestCostsAreForgotten(t *testing.T) {
	var c Costs
	c.Measure([len(Widths)]float64{1, 100, 100})
	c.Note(2, 0, 1000)
	for range 2 * longAgo {
		c.Note(1, 0, 10)
	}
	if got := c.Of(2, 0); math.Abs(got-10*math.Pow(2, growth)) > 0.01 {
		t.Errorf("two cost %.1f after a long time without", got)
	}
	if got := c.Of(1, 0); got != 10 {
		t.Errorf("one costs %.1f", got)
	}
}

// TestCostsFollowTheLength gives a model on which the width matters more the longer a text is. Each length has its own
// costs, and one at which a width was never seen takes the ratio of the nearest at which it was.
func TestCostsFollowTheLength(t *testing.T) {
	var c Costs
	for _, length := range []int{100, 3000} {
		for range first {
			c.Note(1, length, 10)
			c.Note(8, length, 10+float64(length)/10)
		}
	}
	for _, want := range []struct {
		length int
		cost   float64
	}{{0, 20}, {511, 20}, {2048, 310}, {4095, 310}} {
		if got := c.Of(8, want.length); math.Abs(got-want.cost) > 0.01 {
			t.Errorf("eight tokens of a text of %d cost %.1f, want %.0f", want.length, got, want.cost)
		}
	}
	if got := c.Of(8, 600); got != 0 || !c.Stale(1, 600) || c.Stale(1, 100) {
		t.Errorf("eight tokens cost %.1f at a length of which nothing is known", got)
	}
	c.Note(1, 600, 20)
	if got := c.Of(8, 600); math.Abs(got-40) > 0.01 {
		t.Errorf("eight tokens cost %.1f, want twice as much as one, as at the nearest length", got)
	}
	c.Note(1, 1<<30, 20)
	if got := c.Of(8, 1<<30); math.Abs(got-620) > 0.01 {
		t.Errorf("eight tokens cost %.1f, want 31 times as much as one, as at the nearest length", got)
	}
}

// TestAFirstOutlierCountsLittle slows the first step of a width down. The width must be tried again.
func TestAFirstOutlierCountsLittle(t *testing.T) {
	var c Costs
	for range first {
		c.Note(1, 0, 10)
	}
	c.Note(3, 0, 500)
	if got := c.Best(Most, 1, 0, Most, func(int) float64 { return 1 }); got == 0 {
		t.Error("one slow step keeps all guesses away")
	}
	dear := c
	if dear.Note(3, 0, 490); dear.Of(3, 0) != 490 {
		t.Errorf("three cost %.1f, although they were seen to cost 490 twice", dear.Of(3, 0))
	}
	if c.Note(3, 0, 12); c.Of(3, 0) != 12 {
		t.Errorf("three cost %.1f, want 12", c.Of(3, 0))
	}
}

// TestAccountLimitsLosses writes texts with drafts that are never right, or never taken, although the odds say that all
// are. Without an account each step would cost twice as much or more.
func TestAccountLimitsLosses(t *testing.T) {
	for _, text := range []int{64, 512, 4000} {
		for _, power := range []float64{0.01, 0.3, 0.55, 1} {
			var c Costs
			var a Account
			total := 0.0
			for range text {
				n := 0
				if !c.Stale(1, 0) {
					n = c.Best(Most, 1, 0, a.Left(), func(int) float64 { return 1 })
				}
				cost := math.Pow(float64(1+n), power)
				c.Note(1+n, 0, cost)
				a.Note(1, c.Times(1, n, 0))
				total += cost
			}
			if most := 1.025*float64(text) + 2; total > most {
				t.Errorf("%d tokens cost %.1f steps without drafts where a width costs its power %.2f", text, total, power)
			}
		}
	}
}

// TestAccountForgetsOldGains checks that a text that once gained much cannot lose it all.
func TestAccountForgetsOldGains(t *testing.T) {
	var a Account
	for range 1000 {
		a.Note(16, 2)
	}
	if got := a.Left(); got != credit+savings {
		t.Errorf("a step may cost %.1f steps more", got)
	}
}

func BenchmarkLookup(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	text := make([]backend.Token, 100_000)
	for i := range text {
		text[i] = backend.Token(r.IntN(1000))
	}
	for b.Loop() {
		l := NewLookup(len(text))
		l.Read(text, len(text))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(text)), "ns/token")
}
