package chattemplate

import (
	"maps"
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
//
// Tokenizers match user-defined tokens in plain text. Most of these are text, such as runs of spaces and tags of HTML,
// and stay so. Some are marks of the template's own, such as <think> or <tool_call>. Those are guarded: like control
// tokens, they come only from the template. The template's text, what it renders in probes and in the prompt at hand,
// and the family's marks show which ones these are.
type scanner struct {
	// marks are the user-defined tokens that the template may use as marks.
	marks names
	// special are the control tokens and the guarded marks.
	special names
	guarded names
}

func newScanner(vocab *backend.Vocab, source string) *scanner {
	s := &scanner{}
	for text, t := range vocab.Specials {
		if vocab.Kind(t) == backend.Control {
			s.special.add(text, t)
		} else if isMark(text) {
			s.marks.add(text, t)
		}
	}
	s.guard(source)
	return s
}

// isMark reports whether a user-defined token may mark structure. Others are ordinary text, such as a run of spaces or
// a word.
func isMark(text string) bool {
	alphanumeric := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	sign := func(r rune, _ int) bool { return !alphanumeric(r) && !unicode.IsSpace(r) }
	return len(text) > 2 && strings.ContainsFunc(text, alphanumeric) &&
		(sign(utf8.DecodeRuneInString(text)) || sign(utf8.DecodeLastRuneInString(text)))
}

// guard guards the marks that are in a text of the template or its family.
func (s *scanner) guard(text string) {
	for name, t := range s.marks.tokens {
		if strings.Contains(text, name) {
			s.special.add(name, t)
			s.guarded.add(name, t)
		}
	}
}

// learned returns a scanner that guards the marks that the template wrote in a text as well.
func (s *scanner) learned(text jinja.Text) *scanner {
	whole, out := text.String(), s
	for i := range len(whole) {
		_, n := s.marks.at(whole, i, text.Trusted)
		if n == 0 || out.guarded.has(whole[i:i+n]) {
			continue
		}
		if out == s {
			out = &scanner{marks: s.marks, special: s.special.clone(), guarded: s.guarded.clone()}
		}
		out.guard(whole[i : i+n])
	}
	return out
}

// write adds the tokens of a rendered text, from byte i on, to a prompt.
func (s *scanner) write(b *Builder, text jinja.Text, i int) {
	s = s.learned(text)
	for name, t := range s.guarded.tokens {
		b.guarded.add(name, t)
	}
	whole, plain := text.String(), i
	for i < len(whole) {
		token, n := s.special.at(whole, i, text.Trusted)
		if n == 0 {
			i++
			continue
		}
		addRuns(b, text.Slice(plain, i))
		b.Control(token)
		i += n
		plain = i
	}
	addRuns(b, text.Slice(plain, len(whole)))
}

// names are names of tokens that are looked for in texts. The zero value has none.
type names struct {
	tokens map[string]backend.Token
	// lengths has, for each first byte, the lengths of the names that begin with it, longest first.
	lengths [256][]int
}

func (n *names) add(name string, t backend.Token) {
	if n.tokens == nil {
		n.tokens = map[string]backend.Token{}
	}
	n.tokens[name] = t
	l := &n.lengths[name[0]]
	if i, found := slices.BinarySearchFunc(*l, len(name), func(a, b int) int { return b - a }); !found {
		*l = slices.Insert(slices.Clone(*l), i, len(name))
	}
}

func (n *names) has(name string) bool {
	_, ok := n.tokens[name]
	return ok
}

func (n *names) clone() names { return names{maps.Clone(n.tokens), n.lengths} }

// at returns the longest name at byte i of a text that takes accepts, as its token and its length. The length is 0 if
// there is none.
func (n *names) at(text string, i int, takes func(from, to int) bool) (backend.Token, int) {
	for _, l := range n.lengths[text[i]] {
		if i+l > len(text) {
			continue
		}
		if t, ok := n.tokens[text[i:i+l]]; ok && takes(i, i+l) {
			return t, l
		}
	}
	return backend.NoToken, 0
}

// addRuns adds text with its origins.
func addRuns(b *Builder, text jinja.Text) {
	for run, o := range text.Runs() {
		b.add(run, originOf[o])
	}
}

var originOf = [...]Origin{jinja.Outside: Seen, jinja.Trusted: FromTemplate, jinja.Unseen: Unseen}
