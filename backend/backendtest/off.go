package backendtest

import "runner/backend"

// Off has each way to write that a setting of [backend.Sampling] is off. None of them changes what is drawn, what is
// sent to an engine, or whether an engine takes the request. Tests of whatever reads a sampling go through all.
var Off = []struct {
	Name  string
	Write func(*backend.Sampling)
}{
	{"nothing", func(*backend.Sampling) {}},
	{"top-k", func(s *backend.Sampling) { s.TopK = 0 }},
	{"top-p 0", func(s *backend.Sampling) { s.TopP = 0 }},
	{"top-p 1", func(s *backend.Sampling) { s.TopP = 1 }},
	{"min-p", func(s *backend.Sampling) { s.MinP = 0 }},
	{"typical-p 0", func(s *backend.Sampling) { s.TypicalP = 0 }},
	{"typical-p 1", func(s *backend.Sampling) { s.TypicalP = 1 }},
	{"repetition penalty 0", func(s *backend.Sampling) { s.RepetitionPenalty = 0 }},
	{"repetition penalty 1", func(s *backend.Sampling) { s.RepetitionPenalty = 1 }},
	{"presence penalty", func(s *backend.Sampling) { s.PresencePenalty = 0 }},
	{"frequency penalty", func(s *backend.Sampling) { s.FrequencyPenalty = 0 }},
	{"a window without penalties", func(s *backend.Sampling) { s.PenaltyWindow = 5 }},
	{"tokens seen without penalties", func(s *backend.Sampling) { s.Seen = []backend.Token{1, 2, 1} }},
	{"an empty bias", func(s *backend.Sampling) { s.Bias = []backend.TokenBias{} }},
	{"a bias of 0", func(s *backend.Sampling) { s.Bias = []backend.TokenBias{{Token: 1}, {Token: 2}} }},
	{"all", func(s *backend.Sampling) {
		s.TopP, s.TypicalP, s.RepetitionPenalty, s.PenaltyWindow = 1, 1, 1, 7
		s.Seen, s.Bias = []backend.Token{3}, []backend.TokenBias{{Token: 3}}
	}},
}
