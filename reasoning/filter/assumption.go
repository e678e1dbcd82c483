package filter

import (
	"slices"
	"strings"

	"runner/reasoning"
)

const (
	// maxAssumptions is the maximum number of assumptions in a turn, and maxAssumption that of bytes in one.
	maxAssumptions = 3
	maxAssumption  = 600
)

// The two phrases that begin an assumption. The second counts only if a reason follows.
const (
	assumePhrase   = "i assume "
	assumingPhrase = "i am assuming that "
)

// assumptionReader finds "I assume X (because Y)." and "I am assuming that X because Y." in text that comes in pieces.
// A sentence ends at a full stop before white space or at the end of the text.
type assumptionReader struct {
	text []byte // from the beginning of a phrase on
	// phrase is the length of the phrase at the beginning of text, or 0 if it is not complete yet.
	phrase int
	// stopped means that the last byte was a full stop, and inWord that it was part of a word.
	stopped, inWord bool
	found           []string
}

// next reads text up to the end of an assumption. It returns how many bytes it read.
func (r *assumptionReader) next(text string) (int, *reasoning.Assumption) {
	if len(r.found) == maxAssumptions {
		return len(text), nil
	}
	for i := range len(text) {
		if a := r.step(text[i]); a != nil {
			return i + 1, a
		}
	}
	return len(text), nil
}

// finish ends the text.
func (r *assumptionReader) finish() *reasoning.Assumption {
	var a *reasoning.Assumption
	if r.phrase > 0 && r.stopped {
		a = r.take()
	}
	r.reset()
	r.inWord = false
	return a
}

func (r *assumptionReader) reset() { r.text, r.phrase, r.stopped = r.text[:0], 0, false }

func (r *assumptionReader) step(c byte) *reasoning.Assumption {
	inWord := r.inWord
	r.inWord = c >= '0' && c <= '9' || lower(c) >= 'a' && lower(c) <= 'z' || c == '\'' || c >= 0x80
	if r.phrase > 0 {
		return r.sentence(c)
	}
	if len(r.text) > 0 {
		r.text = append(r.text, lower(c))
		if isSpace(c) {
			r.text[len(r.text)-1] = ' '
		}
		switch text := string(r.text); {
		case text == assumePhrase || text == assumingPhrase:
			r.phrase = len(text)
		case strings.HasPrefix(assumePhrase, text) || strings.HasPrefix(assumingPhrase, text):
		default:
			r.reset()
		}
	}
	if len(r.text) == 0 && !inWord && lower(c) == 'i' {
		r.text = append(r.text, 'i')
	}
	return nil
}

// sentence reads a byte after the phrase.
func (r *assumptionReader) sentence(c byte) *reasoning.Assumption {
	switch {
	case r.stopped && isSpace(c):
		a := r.take()
		r.reset()
		return a
	case len(r.text) >= maxAssumption, (c == '\n' || c == '\r') && r.text[len(r.text)-1] == '\n':
		r.reset()
		return nil
	}
	r.stopped = c == '.'
	r.text = append(r.text, c)
	return nil
}

// take parses the sentence. It returns nil if the sentence is not an assumption, or repeats one.
func (r *assumptionReader) take() *reasoning.Assumption {
	body := strings.Join(strings.Fields(strings.TrimRight(string(r.text[r.phrase:]), ".")), " ")
	said, because := body, ""
	if at := strings.Index(strings.ToLower(body), "because "); at > 0 && len(strings.ToLower(body)) == len(body) {
		switch lead := body[:at]; {
		case strings.HasSuffix(lead, " (") && strings.HasSuffix(body, ")"):
			said, because = lead[:len(lead)-2], body[at+len("because "):len(body)-1]
		case strings.HasSuffix(lead, " "):
			said, because = strings.TrimRight(lead, ", "), body[at+len("because "):]
		}
	}
	if r.phrase == len(assumePhrase) {
		said = strings.TrimPrefix(said, "that ")
	}
	said, because = strings.TrimSpace(said), strings.TrimSpace(because)
	if said == "" || because == "" && r.phrase == len(assumingPhrase) || slices.Contains(r.found, said) {
		return nil
	}
	r.found = append(r.found, said)
	return &reasoning.Assumption{Text: said, Because: because}
}
