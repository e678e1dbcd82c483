package grammar

import (
	"context"
	"sync"

	"runner/backend"
)

// Follower follows a text byte by byte and says what may come next, for people who look at a text while it grows. It
// needs no model's vocabulary. It is for one goroutine at a time.
type Follower struct {
	m    *Matcher
	lost bool
}

// bytesOnly is a vocabulary with a token for each byte.
var bytesOnly = sync.OnceValues(func() (*Vocabulary, error) {
	c := backend.VocabConfig{Pieces: make([]string, 256), BOS: backend.NoToken, EOS: backend.NoToken}
	for i := range c.Pieces {
		c.Pieces[i] = string([]byte{byte(i)})
	}
	v, err := backend.NewVocab(c)
	if err != nil {
		return nil, err
	}
	return NewVocabulary(v, nil), nil
})

// NewFollower returns a follower at the beginning of a text that has the form of a source.
func NewFollower(ctx context.Context, src Source) (*Follower, error) {
	v, err := bytesOnly()
	if err != nil {
		return nil, err
	}
	g, err := Compile(ctx, src.Plain(), v)
	if err != nil {
		return nil, err
	}
	return &Follower{m: g.Matcher()}, nil
}

// Write takes the next piece of the text. After a piece that the form does not admit, Next reports nothing.
func (f *Follower) Write(piece string) {
	if !f.lost && piece != "" && !f.m.AcceptText(piece) {
		f.lost = true
	}
}

// Next returns the printable ASCII characters, spaces and line ends that may come next, in the order of their codes.
// other says that others may come too, and end that the text may be complete.
func (f *Follower) Next() (ascii string, other, end bool) {
	if f.lost {
		return "", false, false
	}
	var list []byte
	for b := range byte(0x7f) {
		if (b >= ' ' || b == '\n') && f.m.AllowsText(string(rune(b))) {
			list = append(list, b)
		}
	}
	for b := 0x80; b < 0x100 && !other; b++ {
		other = f.m.AllowsText(string([]byte{byte(b)}))
	}
	return string(list), other, f.m.Done()
}
