package encoder

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxSentence is the maximum length of a thought in bytes. A longer sentence is cut at a space.
const maxSentence = 2000

// abbreviations are words whose full stop does not end a sentence.
var abbreviations = []string{"mr", "mrs", "ms", "dr", "prof", "st", "vs", "cf", "fig", "approx", "etc"}

// sentences cuts text that arrives in pieces into sentences. A sentence ends at the end of a line, or after a
// sentence mark that is followed by white space.
type sentences struct {
	text []byte
	// at is how far text was scanned.
	at int
}

// push adds text and calls emit with each complete sentence, without white space around it.
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

// end returns the end of the sentence whose mark is before i, or 0 if the mark does not end it. known is false until
// the next character has arrived.
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

// limit cuts sentences that are too long.
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

// cut removes the text before end and emits it.
func (s *sentences) cut(end int, emit func(string)) {
	sentence := strings.TrimSpace(string(s.text[:end]))
	s.text = slices.Delete(s.text, 0, end)
	s.at = max(0, s.at-end)
	if sentence != "" {
		emit(sentence)
	}
}

// flush emits the remaining text.
func (s *sentences) flush(emit func(string)) { s.cut(len(s.text), emit) }
