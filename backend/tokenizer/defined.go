package tokenizer

import (
	"slices"

	"runner/backend"
)

// defined finds the user-defined tokens in a text. They are matched before everything else.
type defined struct {
	ids map[string]backend.Token
	// lengths has, for each first byte, the lengths of the tokens that begin with it, longest first. all has those of
	// all tokens.
	lengths [256][]int
	all     []int
	// firstWins reports that of tokens that overlap in a text the first counts, as in Hugging Face's library. Otherwise
	// the longest counts, as in llama.cpp. Among tokens of one length the first counts there too.
	firstWins bool
}

func newDefined(v *backend.Vocab, firstWins bool) defined {
	d := defined{ids: map[string]backend.Token{}, firstWins: firstWins}
	for text, id := range v.Specials {
		if v.Kind(id) != backend.UserDefined {
			continue
		}
		d.ids[text] = id
		d.lengths[text[0]] = append(d.lengths[text[0]], len(text))
		d.all = append(d.all, len(text))
	}
	longestFirst := func(lengths []int) []int {
		slices.SortFunc(lengths, func(a, b int) int { return b - a })
		return slices.Compact(lengths)
	}
	for i := range d.lengths {
		d.lengths[i] = longestFirst(d.lengths[i])
	}
	d.all = longestFirst(d.all)
	return d
}

// split calls yield for each user-defined token in the text, and with NoToken for each text between them, in order.
func (d *defined) split(text string, yield func(part string, id backend.Token) error) error {
	done := 0
	token := func(from, to int) error {
		if done < from {
			if err := yield(text[done:from], backend.NoToken); err != nil {
				return err
			}
		}
		done = to
		return yield(text[from:to], d.ids[text[from:to]])
	}
	for i := 0; i < len(text); {
		n := d.at(text[i:])
		if n == 0 {
			i++
			continue
		}
		end := i + n
		for j := i + 1; j < end && !d.firstWins; j++ {
			end = max(end, j+d.at(text[j:]))
		}
		if err := d.overlapping(text, i, end, d.all, token); err != nil {
			return err
		}
		i = end
	}
	if done < len(text) {
		return yield(text[done:], backend.NoToken)
	}
	return nil
}

// at returns the length of the longest token that begins the text, or 0.
func (d *defined) at(text string) int {
	for _, n := range d.lengths[text[0]] {
		if n <= len(text) {
			if _, ok := d.ids[text[:n]]; ok {
				return n
			}
		}
	}
	return 0
}

// overlapping calls token for the tokens in text[from:to], where several may overlap: those of the first of the lengths
// are taken first.
func (d *defined) overlapping(text string, from, to int, lengths []int, token func(from, to int) error) error {
	for k, n := range lengths {
		for i := from; i+n <= to; {
			if _, ok := d.ids[text[i:i+n]]; !ok {
				i++
				continue
			}
			if err := d.overlapping(text, from, i, lengths[k+1:], token); err != nil {
				return err
			}
			if err := token(i, i+n); err != nil {
				return err
			}
			i += n
			from = i
		}
	}
	return nil
}
