package grammar

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"runner/backend"
)

// Vocabulary is a model's vocabulary arranged for masks: the bytes of its tokens as tries. Make it once per model. It
// takes about 14 bytes for each byte of a distinct prefix (6 MB for o200k). It is immutable and may be shared.
//
// Only tokens of kinds Normal and Byte can be text of a constrained answer. Control tokens and padding cannot, and
// neither can user-defined tokens, because some of them are marks.
type Vocabulary struct {
	vocab    *backend.Vocab
	tokenize func(dst []backend.Token, text string) ([]backend.Token, error)
	slices   [4]slice
	// upTo[n] has the plain tokens of at most n characters.
	upTo    []backend.Mask
	longest int // bytes of the longest token
}

// slice is a part of the vocabulary with its own trie.
//
// Plain text is text that stands for itself in a JSON string: all characters except the quote, the backslash, the
// control characters and DEL. Most tokens are plain. Inside a string all of them are allowed at once, whatever they
// say, as long as the string may still be longer than they are. So they are stored apart, by length.
type slice struct {
	nodes []trieNode
	// chars is the maximum number of characters of a token. It is 0 for the slice of tokens that are not plain text.
	chars int
}

// text is a token with its bytes.
type text struct {
	piece string
	token backend.Token
}

// trieNode is one byte of one or several tokens. The nodes of a trie are in preorder, and the size-1 nodes after a node
// are below it. Tokens with equal bytes end on neighbouring nodes. The last of these has the nodes below it.
type trieNode struct {
	token backend.Token // NoToken if none ends here
	size  int32
	depth uint16
	b     byte
}

// The character limits of the plain slices. A last slice holds the longer plain tokens.
var plainChars = [...]int{10, 30}

const rest = 3

// NewVocabulary arranges v. tokenize splits a text into the tokens that the model was trained with. It may be nil if
// forced text is not needed.
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

// isText reports whether t can be part of constrained text. It excludes tokens that are too long for a trie.
func isText(v *backend.Vocab, t backend.Token) bool {
	k, p := v.Kind(t), v.Piece(t)
	return (k == backend.Normal || k == backend.Byte) && p != "" && len(p) < maxDepth
}

const maxDepth = 1024

// isPlain reports whether a byte can be part of plain text. It excludes DEL, because forms differ on whether DEL may
// stand for itself.
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

// close closes the open nodes deeper than keep and returns the others.
func (s *slice) close(open []int, keep int) []int {
	for _, at := range open[min(keep, len(open)):] {
		s.nodes[at].size = int32(len(s.nodes) - at)
	}
	return open[:min(keep, len(open))]
}

// shared returns the length of the common prefix of a and b.
func shared(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// Len returns the number of tokens, including padding. A mask has as many bits.
func (v *Vocabulary) Len() int { return v.vocab.Len() }

// Bytes returns the approximate size of the tables, in bytes.
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

// find returns the range of nodes below the last byte of text. The range is empty if the trie has no such path.
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
