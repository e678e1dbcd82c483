package jinja

import "runner/chattemplate/jinja/origin"

// Text is a string that knows the origin of each byte, see package origin.
type Text = origin.Text

// Origin says where a byte came from.
type Origin = origin.Origin

// The origins.
const (
	Outside = origin.Outside
	Trusted = origin.Trusted
	Unseen  = origin.Unseen
)

// NewText returns s with one origin for all its bytes.
func NewText(s string, o Origin) Text { return origin.NewText(s, o) }
