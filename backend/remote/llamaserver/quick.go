package llamaserver

import "runner/backend"

// quick reads the two values of an event that most events are read for: its only token, and how many tokens there were.
// ok is false for any other event, such as the last one; then the event is to be decoded as a whole. It allocates
// nothing.
//
// Members that it does not know are skipped, and their text is not checked.
func quick(data []byte) (token backend.Token, predicted int, ok bool) {
	s := scan{data: data}
	if !s.next('{') {
		return 0, 0, false
	}
	var hasToken, hasCount bool
	for {
		name, fine := s.text()
		if !fine || !s.next(':') {
			return 0, 0, false
		}
		switch string(name) {
		case "tokens":
			n, fine := s.only()
			if token, hasToken = backend.Token(n), fine && !hasToken; !hasToken {
				return 0, 0, false
			}
		case "tokens_predicted":
			n, fine := s.number()
			if predicted, hasCount = n, fine && !hasCount; !hasCount {
				return 0, 0, false
			}
		case "stop":
			if !s.word("false") {
				return 0, 0, false
			}
		case "index", "id_slot", "tokens_evaluated":
			if _, fine := s.number(); !fine {
				return 0, 0, false
			}
		case "content":
			if _, fine := s.text(); !fine {
				return 0, 0, false
			}
		default:
			return 0, 0, false
		}
		if !s.next(',') {
			return token, predicted, s.next('}') && s.at == len(s.data) && hasToken && hasCount
		}
	}
}

// scan reads JSON without spaces, as the server writes it.
type scan struct {
	data []byte
	at   int
}

// next skips a byte.
func (s *scan) next(b byte) bool {
	if s.at < len(s.data) && s.data[s.at] == b {
		s.at++
		return true
	}
	return false
}

// word skips a word.
func (s *scan) word(w string) bool {
	if end := s.at + len(w); end <= len(s.data) && string(s.data[s.at:end]) == w {
		s.at = end
		return true
	}
	return false
}

// text reads a string. Its escapes are left as they are.
func (s *scan) text() ([]byte, bool) {
	if !s.next('"') {
		return nil, false
	}
	for begin := s.at; s.at < len(s.data); s.at++ {
		switch s.data[s.at] {
		case '"':
			s.at++
			return s.data[begin : s.at-1], true
		case '\\':
			s.at++
		}
	}
	return nil, false
}

// number reads a whole number of at most nine digits.
func (s *scan) number() (n int, ok bool) {
	negative := s.next('-')
	begin := s.at
	for s.at < len(s.data) && s.data[s.at] >= '0' && s.data[s.at] <= '9' && s.at-begin < 9 {
		n = 10*n + int(s.data[s.at]-'0')
		s.at++
	}
	if negative {
		n = -n
	}
	return n, s.at > begin
}

// only reads a list of one number.
func (s *scan) only() (n int, ok bool) {
	if !s.next('[') {
		return 0, false
	}
	n, ok = s.number()
	return n, ok && s.next(']')
}
