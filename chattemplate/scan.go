package chattemplate

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"runner/backend"
	"runner/chattemplate/jinja"
)

// scanner turns rendered text into tokens. The name of a special token becomes that token only if every byte of it is
// trusted. If two names begin at the same place, the longer one wins. Some tokenizers strip white space next to a
// special token (lstrip and rstrip in tokenizer.json). The scanner keeps it: templates contain the white space that the
// model was trained with.
type scanner struct {
	vocab *backend.Vocab
	// lengths has, for each first byte, the lengths of the special tokens that begin with it, longest first.
	lengths [256][]int
	// guarded are the user-defined tokens that the template itself writes, such as <think> or <tool_call>. Tokenizers
	// also match user-defined tokens in plain text, so the scanner cuts them in two where they come from outside text.
	guarded []string
}

func newScanner(vocab *backend.Vocab, source string) *scanner {
	s := &scanner{vocab: vocab}
	for text, t := range vocab.Specials {
		if vocab.Kind(t) == backend.UserDefined {
			if !isMark(text) || !strings.Contains(source, text) {
				continue
			}
			s.guarded = append(s.guarded, text)
		}
		if l := &s.lengths[text[0]]; !slices.Contains(*l, len(text)) {
			*l = append(*l, len(text))
		}
	}
	for i := range s.lengths {
		slices.SortFunc(s.lengths[i], func(a, b int) int { return b - a })
	}
	slices.Sort(s.guarded)
	return s
}

// isMark reports whether a user-defined token marks structure. Others are ordinary text, such as a run of spaces.
func isMark(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return len(text) > 2 && !unicode.IsSpace(r) && !unicode.IsLetter(r) && !unicode.IsDigit(r) &&
		strings.ContainsFunc(text, unicode.IsLetter)
}

// write adds the tokens of a rendered text, from byte i on, to a prompt.
func (s *scanner) write(b *Builder, text jinja.Text, i int) {
	whole, plain := text.String(), i
	for i < len(whole) {
		token, n := s.match(text, whole, i)
		if n == 0 {
			i++
			continue
		}
		s.plain(b, text, plain, i)
		b.Control(token)
		i += n
		plain = i
	}
	s.plain(b, text, plain, len(whole))
}

// match returns the special token that begins at byte i, and its length, which is 0 if there is none.
func (s *scanner) match(text jinja.Text, whole string, i int) (backend.Token, int) {
	for _, n := range s.lengths[whole[i]] {
		if i+n > len(whole) {
			continue
		}
		token, ok := s.vocab.Special(whole[i : i+n])
		if ok && (s.vocab.Kind(token) == backend.Control || slices.Contains(s.guarded, whole[i:i+n])) &&
			text.Trusted(i, i+n) {
			return token, n
		}
	}
	return backend.NoToken, 0
}

// plain adds text[from:to], which contains no special token.
func (s *scanner) plain(b *Builder, text jinja.Text, from, to int) {
	for len(s.guarded) > 0 {
		at := -1
		for _, g := range s.guarded {
			if i := strings.Index(text.String()[from:to], g); i >= 0 && (at < 0 || i < at) {
				at = i
			}
		}
		if at < 0 {
			break
		}
		_, n := utf8.DecodeRuneInString(text.String()[from+at:])
		addRuns(b, text.Slice(from, from+at+n))
		b.flush()
		from += at + n
	}
	addRuns(b, text.Slice(from, to))
}

// addRuns adds text with its origins.
func addRuns(b *Builder, text jinja.Text) {
	for run, o := range text.Runs() {
		b.add(run, originOf[o])
	}
}

var originOf = [...]Origin{jinja.Outside: Seen, jinja.Trusted: FromTemplate, jinja.Unseen: Unseen}
