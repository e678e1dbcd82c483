package backendtest

import (
	"fmt"

	"runner/backend"
)

// Off has each way to write that a setting of [backend.Sampling] is off. None of them changes what is drawn, what is
// sent to an engine, or whether an engine takes the request. Tests of whatever reads a sampling go through all.
var Off = append(offs(), []Offs{
	{"nothing", func(*backend.Sampling) {}},
	{"a window without penalties", func(s *backend.Sampling) { s.PenaltyWindow = 5 }},
	{"tokens seen without penalties", func(s *backend.Sampling) { s.Seen = []backend.Token{1, 2, 1} }},
	{"an empty bias", func(s *backend.Sampling) { s.Bias = []backend.TokenBias{} }},
	{"a bias of 0", func(s *backend.Sampling) { s.Bias = []backend.TokenBias{{Token: 1}, {Token: 2}} }},
	{"all", func(s *backend.Sampling) {
		for _, off := range offs() {
			off.Write(s)
		}
		s.PenaltyWindow, s.Seen, s.Bias = 7, []backend.Token{3}, []backend.TokenBias{{Token: 3}}
	}},
}...)

// Offs is a way to write that a setting is off.
type Offs struct {
	Name  string
	Write func(*backend.Sampling)
}

// offs has each setting with 0, and with the other value that means the same.
func offs() (all []Offs) {
	for i, x := range new(backend.Sampling).Settings() {
		for _, v := range []float32{0, x.Off} {
			if x.Effect != backend.Heat && x.Effect != backend.Detail {
				all = append(all, Offs{fmt.Sprint(x.Name, " ", v), func(s *backend.Sampling) {
					if to := s.Settings()[i]; to.Int != nil {
						*to.Int = int(v)
					} else {
						*to.Float = v
					}
				}})
			}
		}
	}
	return all
}
