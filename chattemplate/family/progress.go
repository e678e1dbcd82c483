package family

import (
	"runner/backend"
	"runner/chattemplate/hold"
	"runner/chattemplate/reader"
)

// Progress moves a turn on, token by token: first the constraint, then the reader, then the place. Families embed it in
// their turns.
type Progress struct {
	reader.Reader
	hold.Now
	// Place is the place of the next token. Moved is called after each token that leads to another place, with the new
	// state. It chooses the constraint and sets Place.
	Place reader.Place
	Moved func(st reader.State, t backend.Token)
}

// Push implements reader.Reader.
func (p *Progress) Push(t backend.Token) { p.PushOutput(t, nil) }

// Weighs implements Turn. Nothing is weighed.
func (p *Progress) Weighs() int { return 0 }

// Chosen implements Turn. It returns the sampled token.
func (p *Progress) Chosen(out *backend.Output) backend.Token { return out.Token }

// PushOutput implements reader.Reader.
func (p *Progress) PushOutput(t backend.Token, out *backend.Output) {
	if p.Accept(t); p.Place == reader.PlaceAnswer && p.Answers() {
		p.BeginAnswer()
	}
	p.Reader.PushOutput(t, out)
	p.moveOn(t)
}

// Force implements Turn.
func (p *Progress) Force(t backend.Token) {
	p.Jump()
	p.Reader.Force(t)
	p.moveOn(t)
}

// moveOn follows the reader to the place after a token.
func (p *Progress) moveOn(t backend.Token) {
	if st := p.State(); st.Place != p.Place {
		p.Moved(st, t)
	}
}
