package sample

import (
	"slices"
	"testing"

	"runner/backend"
	"runner/backend/backendtest"
)

// TestSettingsThatAreOffChangeNothing draws tokens with settings that are off, written in each way, and follows drafts.
func TestSettingsThatAreOffChangeNothing(t *testing.T) {
	const n = 50
	rows := [][]float32{modelLogits(n, 1), modelLogits(n, 2), modelLogits(n, 3)}
	row := func(i int) ([]float32, error) { return rows[i], nil }
	drawn := func(p backend.Sampling, drafts []backend.Draft) (tokens []backend.Token) {
		var out backend.Output
		for seed := range uint64(50) {
			p.Seed = seed
			if err := New(n).Follow(&backend.Input{Sampling: &p, Drafts: drafts}, 9, row, &out); err != nil {
				t.Fatal(err)
			}
			tokens = append(tokens, out.Token)
			for i := range out.More {
				tokens = append(tokens, out.More[i].Token)
			}
		}
		return tokens
	}
	for _, temperature := range []float32{0, 1} {
		p := backend.Sampling{Temperature: temperature}
		var drafts []backend.Draft
		for _, t := range drawn(p, nil)[:2] {
			drafts = append(drafts, backend.Draft{Token: t})
		}
		want := drawn(p, drafts)
		for _, off := range backendtest.Off {
			written := p
			off.Write(&written)
			if got := drawn(written, drafts); !slices.Equal(got, want) {
				t.Errorf("%s at temperature %v changes the tokens", off.Name, temperature)
			}
		}
	}
}
