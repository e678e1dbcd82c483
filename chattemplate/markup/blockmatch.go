package markup

import (
	"runner/chattemplate/reader"
)

// matched says whether a text begins with a pattern.
type matched uint8

const (
	matchNo   matched = iota
	matchWait         // more text is needed to know
	matchYes
)

// maxHead is the maximum number of bytes before the arguments of a call, or after them.
const maxHead = 1024

// found holds what a match found at each place of a pattern, as slices of the text.
type found [KindPlace + 1][]byte

// matchTokens matches a pattern with the beginning of text and returns the length of the match. If a place could end in
// two spots, it ends at the first: then the result does not depend on how much text has come.
func matchTokens(tokens []CallToken, text []byte, inJSON bool, at *found) (int, matched) {
	return matchFrom(tokens, 0, text, inJSON, nil, at)
}

// matchFrom is matchTokens from token i on. If loose is not nil, an argument of that style or the end of its call must
// follow.
func matchFrom(tokens []CallToken, i int, text []byte, inJSON bool, loose *CallStyle,
	at *found) (int, matched) {
	if i == len(tokens) {
		if loose == nil {
			return 0, matchYes
		}
		return 0, max(begins(text, loose.Param), begins(text, endOf(loose)))
	}
	t, n := &tokens[i], 0
	if t.Text != "" && (t.Space != "" || inJSON && (i == 0 || tokens[i-1].Place == NoPlace)) {
		n = len(text) - len(trimSpace(text))
	}
	rest := text[n:]
	if t.Place == NoPlace {
		if r := beginsWith(rest, t.Text); r != matchYes {
			return 0, r
		}
		m, r := matchFrom(tokens, i+1, rest[len(t.Text):], inJSON, loose, at)
		return n + len(t.Text) + m, r
	}
	for size := 1; size <= len(rest) && inPlace(t.Place, rest[size-1]); size++ {
		if m, r := matchFrom(tokens, i+1, rest[size:], inJSON, loose, at); r != matchNo {
			at[t.Place] = rest[:size]
			return n + size + m, r
		}
	}
	if len(rest) == 0 {
		return 0, matchWait
	}
	return 0, matchNo
}

// inPlace reports whether c may stand in a place.
func inPlace(p CallPlace, c byte) bool {
	if p == KeyPlace {
		return c >= ' ' && c != '"' && c != '<' && c != '>'
	}
	word := c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
	return word || p == NamePlace && (c == '.' || c == ':' || c == '/' || c >= 0x80)
}

func trimSpace(text []byte) []byte {
	for len(text) > 0 && reader.IsSpace(text[0]) {
		text = text[1:]
	}
	return text
}

// begins says whether text begins with the first of tokens, after white space.
func begins(text []byte, tokens []CallToken) matched {
	if len(tokens) == 0 {
		return matchNo
	}
	return beginsWith(trimSpace(text), tokens[0].Text)
}

func beginsWith(text []byte, literal string) matched {
	size := min(len(literal), len(text))
	switch {
	case string(text[:size]) != literal[:size]:
		return matchNo
	case size < len(literal):
		return matchWait
	}
	return matchYes
}

// matchHead matches everything before the arguments of a call. It needs to see that the arguments begin. first says
// that the call is the first of its block.
func matchHead(s *CallStyle, text []byte, first bool, at *found) (int, matched) {
	if len(text) > maxHead {
		return 0, matchNo
	}
	n := 0
	if first && s.List != nil {
		var r matched
		if n, r = matchTokens(s.List[:1], text, true, at); r != matchYes {
			return 0, r
		}
	}
	if s.Param != nil {
		m, r := matchFrom(s.Head, 0, text[n:], s.JSON, s, at)
		return n + m, r
	}
	m, r := matchTokens(s.Head, text[n:], s.JSON, at)
	if r != matchYes {
		return 0, r
	}
	rest := trimSpace(text[n+m:])
	switch {
	case len(rest) == 0:
		return 0, matchWait
	case rest[0] != '{':
		return 0, matchNo
	}
	return len(text) - len(rest), matchYes
}

// endOf returns the pattern that ends a call.
func endOf(s *CallStyle) []CallToken {
	if len(s.Tail) > 0 {
		return s.Tail
	}
	return s.Close
}
