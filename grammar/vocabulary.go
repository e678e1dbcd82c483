package grammar

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"runner/backend"
)

// Vocabulary is a model's vocabulary arranged for masks: its tokens' bytes as tries. It is made once for every model,
// takes about 14 bytes a byte of distinct prefix (6 MB for o200k), is immutable and may be shared.
//
// Only tokens of kinds Normal and Byte can be text of a constrained answer. Control tokens and padding never are, nor
// user-defined tokens, which are tags.
type Vocabulary struct {
	vocab    *backend.Vocab
	tokenize func(dst []backend.Token, text string) ([]backend.Token, error)
	slices   [4]slice
	// upTo[n] has the plain tokens of at most n characters, up to the longest.
	upTo    []backend.Mask
	longest int // bytes of the longest token
}

// slice is a part of the vocabulary with a trie of its own.
//
// Plain text is what stands for itself in a JSON string: characters but the quote, the backslash and the controls,
// DEL included. Most tokens are plain, and inside a string all of them are allowed at once, whatever they say, as
// long as the string may still be longer than they are. So they are kept apart, by length.
type slice struct {
	nodes []trieNode
	// chars is the most characters of a token; 0 for the slice of tokens that are not plain text.
	chars int
}

// text is a token with its bytes.
type text struct {
	piece string
	token backend.Token
}

// trieNode is a byte of one or several tokens. The nodes of a trie stand in preorder; below a node come size-1 others.
// Tokens with equal bytes end on neighbours, of which the last has what is below.
type trieNode struct {
	token backend.Token // NoToken where none ends
	size  int32
	depth uint16
	b     byte
}

// The plain slices hold tokens of at most so many characters, and the last plain one all others.
var plainChars = [...]int{10, 30}

const rest = 3

// NewVocabulary arranges v. tokenize gives the usual tokens of a text, as the model was trained with; nil where
// forced text is not asked for.
func NewVocabulary(v *backend.Vocab, tokenize func(dst []backend.Token, text string) ([]backend.Token,
	error)) *Vocabulary {
	out := &Vocabulary{vocab: v, tokenize: tokenize}
	var parts [len(out.slices)][]text
	byChars := map[int][]backend.Token{}
	for t := range backend.Token(v.Len()) {
		if p := v.Piece(t); isText(v, t) {
			i := sliceOf(p)
			parts[i] = append(parts[i], text{p, t})
			out.longest = max(out.longest, len(p))
			if n := utf8.RuneCountInString(p); i < rest {
				byChars[n] = append(byChars[n], t)
				out.slices[i].chars = max(out.slices[i].chars, n)
			}
		}
	}
	most := 0
	for i, texts := range parts {
		out.slices[i].build(texts)
		most = max(most, out.slices[i].chars)
	}
	out.upTo = []backend.Mask{backend.NewMask(v.Len())}
	for n := 1; n <= most; n++ {
		m := out.upTo[n-1]
		if len(byChars[n]) > 0 {
			m = slices.Clone(m)
			for _, t := range byChars[n] {
				m.Set(t)
			}
		}
		out.upTo = append(out.upTo, m)
	}
	return out
}

// isText reports whether t can be part of constrained text. Longer tokens than a trie can hold are left out.
func isText(v *backend.Vocab, t backend.Token) bool {
	k, p := v.Kind(t), v.Piece(t)
	return (k == backend.Normal || k == backend.Byte) && p != "" && len(p) < maxDepth
}

const maxDepth = 1024

// isPlain reports whether a byte can be part of plain text. Forms differ on whether DEL may stand for itself, so it
// is left out.
func isPlain(c byte) bool { return c >= 0x20 && c != '"' && c != '\\' && c != 0x7F }

func sliceOf(p string) int {
	if !utf8.ValidString(p) {
		return rest
	}
	for i := range len(p) {
		if !isPlain(p[i]) {
			return rest
		}
	}
	n := utf8.RuneCountInString(p)
	for i, most := range plainChars {
		if n <= most {
			return i
		}
	}
	return len(plainChars)
}

func (s *slice) build(texts []text) {
	slices.SortFunc(texts, func(a, b text) int {
		return cmp.Or(strings.Compare(a.piece, b.piece), cmp.Compare(a.token, b.token))
	})
	size, last := 0, ""
	for _, t := range texts {
		size += max(len(t.piece)-shared(last, t.piece), 1)
		last = t.piece
	}
	s.nodes = make([]trieNode, 0, size)
	open := make([]int, 0, 64) // the nodes from the root to the last token
	last = ""
	for _, t := range texts {
		p := t.piece
		if p == last {
			s.nodes[len(s.nodes)-1].size = 1
			open[len(open)-1] = len(s.nodes)
			s.nodes = append(s.nodes, trieNode{token: t.token, depth: uint16(len(p) - 1), b: p[len(p)-1]})
			continue
		}
		keep := shared(last, p)
		open = s.close(open, keep)
		for d := keep; d < len(p); d++ {
			open = append(open, len(s.nodes))
			s.nodes = append(s.nodes, trieNode{token: backend.NoToken, depth: uint16(d), b: p[d]})
		}
		s.nodes[len(s.nodes)-1].token = t.token
		last = p
	}
	s.close(open, 0)
}

// close ends the open nodes deeper than keep and returns the others.
func (s *slice) close(open []int, keep int) []int {
	for _, at := range open[min(keep, len(open)):] {
		s.nodes[at].size = int32(len(s.nodes) - at)
	}
	return open[:min(keep, len(open))]
}

// shared returns how many bytes a and b begin with in common.
func shared(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// Len returns the number of tokens, padding included: masks have as many bits.
func (v *Vocabulary) Len() int { return v.vocab.Len() }

// Bytes returns about how much memory the tables take, in bytes.
func (v *Vocabulary) Bytes() int {
	n := 0
	for i := range v.slices {
		n += cap(v.slices[i].nodes) * 12
	}
	for i, m := range v.upTo {
		if i == 0 || &m[0] != &v.upTo[i-1][0] {
			n += len(m) * 8
		}
	}
	return n
}

// find returns the range of nodes below text's last byte in the trie, empty if the path is not there.
func (s *slice) find(text string) (from, to int) {
	from, to = 0, len(s.nodes)
	for d := range len(text) {
		next, end := 0, 0
		for at := from; at < to; at += int(s.nodes[at].size) {
			if s.nodes[at].b == text[d] {
				next, end = at+1, at+int(s.nodes[at].size)
			}
		}
		if from, to = next, end; from >= to {
			return 0, 0
		}
	}
	return from, to
}
