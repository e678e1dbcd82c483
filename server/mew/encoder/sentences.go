package encoder

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxSentence is about the most bytes of a thought. A longer sentence is cut at a space.
const maxSentence = 2000

// abbreviations end in a full stop that ends no sentence.
var abbreviations = []string{"mr", "mrs", "ms", "dr", "prof", "st", "vs", "cf", "fig", "approx", "etc"}

// sentences cuts text that comes in pieces into sentences. A sentence ends at a line's end, and after a mark that
// ends sentences with white space behind it.
type sentences struct {
	text []byte
	// at is how far text was looked at.
	at int
}

// push adds text and hands the sentences that are complete to emit, without white space around them.
func (s *sentences) push(text string, emit func(string)) {
	s.text = append(s.text, text...)
	for s.at < len(s.text) {
		r, size := utf8.DecodeRune(s.text[s.at:])
		switch {
		case r == '\n':
			s.cut(s.at+size, emit)
			continue
		case strings.ContainsRune(".!?…。！？", r):
			end, known := s.end(s.at + size)
			if !known {
				s.limit(emit)
				return
			}
			if end > 0 && (r != '.' || !s.abbreviated()) {
				s.cut(end, emit)
				continue
			}
		}
		s.at += size
	}
	s.limit(emit)
}

// end returns where a sentence ends whose mark is before i, 0 where it does not; it is not known before the byte
// behind it is there.
func (s *sentences) end(i int) (end int, known bool) {
	wide := s.text[i-1] >= utf8.RuneSelf
	for i < len(s.text) {
		r, size := utf8.DecodeRune(s.text[i:])
		switch {
		case strings.ContainsRune(".!?…。！？\"')]}’”»*_`", r):
			i += size
		case unicode.IsSpace(r) || wide:
			return i, true
		default:
			return 0, true
		}
	}
	return 0, false
}

// abbreviated reports whether the full stop at s.at belongs to the word before it, or to a number that begins a line.
func (s *sentences) abbreviated() bool {
	before := strings.TrimLeft(string(s.text[:s.at]), " \t")
	word := strings.TrimLeft(before[strings.LastIndexAny(before, " \t")+1:], "([\"'")
	digits := strings.Trim(word, "0123456789") == ""
	switch {
	case word == "", digits:
		return word == before && word != ""
	case utf8.RuneCountInString(word) == 1, len(word) <= 4 && strings.Contains(word, ".") &&
		!strings.ContainsAny(word, "0123456789"):
		return true
	}
	return slices.Contains(abbreviations, strings.ToLower(word))
}

// limit cuts a sentence that is too long.
func (s *sentences) limit(emit func(string)) {
	for len(s.text) > maxSentence {
		end := 1 + strings.LastIndexAny(string(s.text[:maxSentence]), " \t")
		if end == 0 {
			for end = maxSentence; !utf8.RuneStart(s.text[end]); end-- {
			}
		}
		s.cut(end, emit)
	}
}

// cut hands over the text before end.
func (s *sentences) cut(end int, emit func(string)) {
	sentence := strings.TrimSpace(string(s.text[:end]))
	s.text = slices.Delete(s.text, 0, end)
	s.at = max(0, s.at-end)
	if sentence != "" {
		emit(sentence)
	}
}

// flush hands over what is left.
func (s *sentences) flush(emit func(string)) { s.cut(len(s.text), emit) }
