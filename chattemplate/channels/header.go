package channels

import (
	"slices"
	"strings"

	"runner/chattemplate/channels/harmony"
	"runner/chattemplate/reader"
)

// header is the text between <|start|> and <|message|>, as far as it has been generated.
//
// The text is kept unchanged, in parts that begin at <|start|>, <|channel|> or <|constrain|>. After each token, read
// reads it again. The names of tokens are never searched for in the text.
type header struct {
	text  []byte
	parts []headerPart
	// given says that the role is known without the header, from the prompt or because <|start|> is missing.
	given bool
	// tools names the functions of the request. Their names may have letters that other recipients cannot have.
	tools []string
	// bare says that no <|start|> came. The text is the answer unless it looks like a header.
	bare bool
}

type headerPart struct {
	kind headerKind
	from int
}

type headerKind uint8

const (
	rolePart headerKind = iota
	channelPart
	constrainPart
)

// The limits of a header: the bytes of its text, the number of its parts, and the bytes of its recipient.
const (
	maxHeader      = 512
	maxHeaderParts = 16
	maxName        = 128
)

func (h *header) reset(given, bare bool) {
	h.text, h.parts, h.given, h.bare = h.text[:0], append(h.parts[:0], headerPart{kind: rolePart}), given, bare
}

func (h *header) open(k headerKind) {
	h.parts = append(h.parts, headerPart{kind: k, from: len(h.text)})
}

// blank reports whether only white space has come.
func (h *header) blank() bool { return h.blankBefore(len(h.text)) }

// blankBefore reports whether only white space comes before an offset.
func (h *header) blankBefore(n int) bool {
	for _, c := range h.text[:n] {
		if !reader.IsSpace(c) {
			return false
		}
	}
	return len(h.parts) == 1
}

// fragment reports whether only a single word of the format has come, which is out of place.
func (h *header) fragment() bool {
	text := strings.TrimSpace(string(h.text))
	_, isChannel := bareChannel(text)
	return len(h.parts) == 1 && h.bare && (isChannel || text == assistant)
}

// hasChannel reports whether <|channel|> has come.
func (h *header) hasChannel() bool {
	return slices.ContainsFunc(h.parts, func(p headerPart) bool { return p.kind == channelPart })
}

// reading is the meaning of a header.
type reading struct {
	role, channel, recipient, contentType string
	constrained                           bool // the content type came after <|constrain|>
	// body is the offset of the text that cannot be part of a header; -1 if there is none.
	body int
	// soft is the offset of the first word that is part of the header only if <|message|> follows; -1 if there is none.
	soft int
	// odd is the code of the first harmless irregularity; empty if there is none.
	odd string
}

// word is one word of a header's text.
type word struct {
	text string
	from int
	part headerKind
	// first says that it is the first word of its part, and last that more of it may come.
	first, last bool
	// brace says that a { or [ follows directly.
	brace bool
}

// read returns the meaning of the header. confirmed says that <|message|> has come, and closed that it will not come.
// If closed, words that only <|message|> would make part of the header are text.
func (h *header) read(confirmed, closed bool) reading {
	r := reading{body: -1, soft: -1}
	s := headerReader{h: h, r: &r, roleKnown: h.given}
	for i, p := range h.parts {
		end, open := len(h.text), !closed && !confirmed
		if i+1 < len(h.parts) {
			end, open = h.parts[i+1].from, false
		}
		if p.kind == channelPart {
			if s.channels++; s.channels > 1 {
				s.odd(reader.CodeDoubledChannel)
			}
			s.channelKnown = false
		}
		if !s.part(p, end, open) {
			break
		}
	}
	if r.body >= 0 && r.soft >= 0 {
		if c := h.text[r.body]; (c == '{' || c == '[') && (r.recipient != "" || r.contentType == contentJSON) {
			r.soft = -1
		} else {
			r.body = r.soft
		}
	}
	if r.soft >= 0 && (closed || r.body >= 0) {
		s.saved.body, s.saved.soft = r.soft, r.soft
		return s.saved
	}
	return r
}

// headerReader is the state of one read.
type headerReader struct {
	h            *header
	r            *reading
	roleKnown    bool
	channelKnown bool
	wantName     bool // the last word was "to=" alone
	types        int
	channels     int
	saved        reading // as it was before the first soft word
}

func (s *headerReader) odd(code string) {
	if s.r.odd == "" {
		s.r.odd = code
	}
}

// softly records that the word at an offset is part of the header only if <|message|> follows. It saves the reading
// without that word.
func (s *headerReader) softly(at int) {
	if s.r.soft < 0 {
		s.saved = *s.r
		s.r.soft = at
	}
}

// part reads the words of one part and reports whether the header can go on after it.
func (s *headerReader) part(p headerPart, end int, open bool) bool {
	first := true
	for at := p.from; at < end; {
		c := s.h.text[at]
		if reader.IsSpace(c) {
			at++
			continue
		}
		if c == '{' || c == '[' {
			s.r.body = at
			return false
		}
		to := at
		for to < end && !reader.IsSpace(s.h.text[to]) && s.h.text[to] != '{' && s.h.text[to] != '[' {
			to++
		}
		w := word{
			text: string(s.h.text[at:to]), from: at, part: p.kind, first: first,
			last: open && to == end, brace: to < end && !reader.IsSpace(s.h.text[to]),
		}
		if !s.word(w) {
			if s.r.body < 0 {
				s.r.body = at
			}
			return false
		}
		first = false
		at = to
	}
	return true
}

// word reads one word and reports whether it can be part of a header.
func (s *headerReader) word(w word) bool {
	switch {
	case s.wantName:
		s.wantName = false
		return s.name(w, w.text, 0)
	case strings.HasPrefix(w.text, to):
		if w.text == to {
			s.wantName = !w.last
			s.softly(w.from)
			s.odd(reader.CodeMalformedHeader)
			return true
		}
		return s.name(w, w.text[len(to):], len(to))
	case w.last && strings.HasPrefix(to, w.text):
		s.softly(w.from)
		return true
	case w.part == rolePart && !s.roleKnown:
		return s.role(w)
	case w.part == rolePart && !s.channelKnown && s.bareWord(w):
		return true
	case w.part == channelPart && !s.channelKnown:
		return s.channel(w)
	case w.part == constrainPart && w.first:
		if !isWord(w.text) {
			return false
		}
		s.r.contentType, s.r.constrained = w.text, true
		return true
	}
	return s.contentType(w)
}

// name reads the recipient.
func (s *headerReader) name(w word, name string, skip int) bool {
	n := 0
	for n < len(name) && isNameByte(name[n]) {
		n++
	}
	if n > maxName {
		n = 0
	}
	if n < len(name) {
		n = max(n, s.offered(w, name))
	}
	if n == 0 {
		return false
	}
	if s.h.bare && !s.h.given {
		s.softly(w.from)
	}
	s.r.recipient = name[:n]
	if n < len(name) {
		s.r.body = w.from + skip + n
		return false
	}
	return true
}

// offered returns how many bytes of name are the name of an offered function or the beginning of one.
func (s *headerReader) offered(w word, name string) int {
	own := strings.TrimPrefix(name, functions)
	n := 0
	for _, t := range s.h.tools {
		if strings.HasPrefix(own, t) || w.last && strings.HasPrefix(t, own) {
			n = max(n, min(len(t), len(own)))
		}
	}
	if n == 0 {
		return 0
	}
	return len(name) - len(own) + n
}

// role reads the author. A channel without <|channel|> may be attached to it.
func (s *headerReader) role(w word) bool {
	s.roleKnown = true
	if s.h.bare {
		s.softly(w.from)
		if _, ok := bareChannel(w.text); ok || w.last && beginsChannel(w.text) {
			return s.bareWord(w)
		}
		if w.last && strings.HasPrefix(assistant, w.text) {
			return true
		}
		if !strings.HasPrefix(w.text, assistant) {
			return false
		}
	}
	if rest, ok := strings.CutPrefix(w.text, assistant); ok && rest != "" && rest[0] != ':' {
		if c, ok := bareChannel(rest); ok {
			s.r.role, s.r.channel, s.channelKnown = assistant, c, true
			s.odd(reader.CodeMissingChannel)
			return true
		}
		if w.last && beginsChannel(rest) {
			s.softly(w.from)
			return true
		}
	}
	if !isWord(w.text) {
		return false
	}
	if name, _, _ := strings.Cut(w.text, ":"); !isRole(name) {
		s.softly(w.from)
	}
	s.r.role = w.text
	return true
}

// bareWord reads a word between the role and the channel.
func (s *headerReader) bareWord(w word) bool {
	if w.text == assistant || w.last && strings.HasPrefix(assistant, w.text) {
		s.softly(w.from)
		s.odd(reader.CodeMalformedHeader)
		return true
	}
	if c, ok := bareChannel(w.text); ok {
		s.softly(w.from)
		s.odd(reader.CodeMissingChannel)
		s.r.channel, s.channelKnown = c, true
		return true
	}
	if w.last && beginsChannel(w.text) {
		s.softly(w.from)
		return true
	}
	return false
}

// channel reads the word after <|channel|>. More words may be attached to it.
func (s *headerReader) channel(w word) bool {
	s.channelKnown = true
	rest, known := w.text, false
	for rest != "" {
		c, tail, ok := cutChannel(rest)
		if !ok {
			break
		}
		if known || c != rest[:len(c)] {
			s.odd(reader.CodeMalformedHeader)
		}
		s.r.channel, rest, known = c, tail, true
	}
	switch {
	case known && rest == "":
		return true
	case known && (rest == contentJSON || rest == contentCode || w.last && (strings.HasPrefix(contentJSON, rest) ||
		strings.HasPrefix(contentCode, rest))):
		s.r.contentType = rest
		s.types++
		s.odd(reader.CodeMalformedHeader)
		return true
	case known && strings.HasPrefix(rest, to):
		s.odd(reader.CodeMalformedHeader)
		at := len(w.text) - len(rest)
		return s.word(word{text: rest, from: w.from + at, part: w.part, last: w.last, brace: w.brace})
	case known && w.last && strings.HasPrefix(to, rest):
		return true
	case !isWord(w.text):
		s.r.channel = ""
		return false
	}
	s.r.channel = ""
	s.softly(w.from)
	s.r.channel = w.text
	return true
}

// contentType reads a word that is neither role, channel nor recipient.
func (s *headerReader) contentType(w word) bool {
	if c, ok := bareChannel(w.text); ok && w.part == channelPart {
		s.softly(w.from)
		s.odd(reader.CodeMalformedHeader)
		s.r.channel = c
		return true
	}
	if s.types > 0 || !isWord(w.text) || w.part == rolePart && s.r.recipient == "" {
		return false
	}
	s.types++
	if s.r.recipient == "" || w.text != contentJSON && w.text != contentCode {
		s.softly(w.from)
	}
	if s.r.contentType == "" {
		s.r.contentType = w.text
	}
	return true
}

// bareChannel returns the channel whose name text is.
func bareChannel(text string) (string, bool) {
	c, rest, ok := cutChannel(text)
	return c, ok && rest == ""
}

// cutChannel cuts a channel's name, in upper or lower case, from the beginning of text.
func cutChannel(text string) (channel, rest string, ok bool) {
	for _, c := range harmony.DefaultChannels {
		if len(text) >= len(c) && strings.EqualFold(text[:len(c)], c) {
			return c, text[len(c):], true
		}
	}
	return "", text, false
}

// beginsChannel reports whether text is the beginning of a channel's name.
func beginsChannel(text string) bool {
	for _, c := range harmony.DefaultChannels {
		if len(text) <= len(c) && strings.EqualFold(c[:len(text)], text) {
			return true
		}
	}
	return false
}

func isRole(name string) bool {
	switch name {
	case assistant, "system", "developer", "user", "tool":
		return true
	}
	return false
}

// isNameByte reports whether c may be part of a recipient.
func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' ||
		c == ':' || c == '/'
}

// isWord reports whether text may be a role, an unknown channel or a content type.
func isWord(text string) bool {
	if len(text) == 0 || len(text) > 64 {
		return false
	}
	for i := range len(text) {
		if !isNameByte(text[i]) && text[i] != '+' {
			return false
		}
	}
	return true
}
