package drafts

const (
	// credit is what drafts may lose a text before they have gained anything, share is what every token adds to that, and
	// savings is the largest gain that is kept. The unit is a step without drafts.
	credit, share, savings = 1, 0.02, 16
)

// Account keeps what drafts gained and lost a text. Odds and costs are estimates, and text changes. The account makes
// sure that a text never takes much longer with drafts than without: at most by a step and 2%. The zero value is that
// of a new text.
type Account struct{ lost float64 }

// Left returns how much more than a step without drafts a step may cost, as a multiple of such a step.
func (a *Account) Left() float64 { return credit - a.lost }

// Note records a step that gave some tokens and cost so many times as much as a step without drafts.
func (a *Account) Note(tokens int, cost float64) {
	a.lost = max(a.lost+cost-(1+share)*float64(tokens), -savings)
}
