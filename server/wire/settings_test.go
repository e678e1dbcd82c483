package wire

import (
	"encoding/json"
	"maps"
	"math"
	"testing"

	"runner/backend"
	"runner/generation"
)

// common are fields that several bodies share.
type common struct {
	Temperature *float64 `json:"temperature" sets:"Sampling.Temperature"`
	TopP        *float64 `json:"top_p" sets:"Sampling.TopP"`
	MinP        *float64 `json:"min_p" sets:"Sampling.MinP"`
	Penalty     *float64 `json:"repeat_penalty" sets:"Sampling.RepetitionPenalty"`
	Other       *float64 `json:"other_penalty" sets:"Sampling.RepetitionPenalty"`
}

type settingsBody struct {
	common
	TopK   *int64   `json:"top_k" sets:"Sampling.TopK"`
	Max    *int     `json:"max" sets:"MaxTokens"`
	Seed   *uint64  `json:"seed" sets:"Seed"`
	Budget *int     `json:"budget" of:"Budget"`
	Stop   []string `json:"stop" of:"Stop"`
	Form   *string  `json:"form" of:"Form,ResponseFormat"`
	Else   *int     `json:"else"`
}

func TestSet(t *testing.T) {
	seed := uint64(7)
	before := generation.Request{MaxTokens: 5, Budget: 3, Seed: &seed, Stop: []string{"x"},
		Sampling: backend.Sampling{Temperature: 0.7, TopP: 0.5, TopK: 4, MinP: 0.25, RepetitionPenalty: 1.5}}
	for _, c := range []struct {
		text   string
		change func(*generation.Request)
	}{
		{`{}`, func(*generation.Request) {}},
		{`{"temperature":null,"max":null,"seed":null}`, func(*generation.Request) {}},
		{`{"temperature":0,"min_p":0.1}`, func(q *generation.Request) { q.Sampling.Temperature, q.Sampling.MinP = 0, 0.1 }},
		{`{"top_k":-1}`, func(q *generation.Request) { q.Sampling.TopK = 0 }},
		{`{"top_k":9,"max":4294967296}`, func(q *generation.Request) { q.Sampling.TopK, q.MaxTokens = 9, math.MaxInt32 }},
		{`{"other_penalty":1.2}`, func(q *generation.Request) { q.Sampling.RepetitionPenalty = 1.2 }},
		{`{"budget":9,"stop":["y"],"else":1}`, func(*generation.Request) {}}, // only named
	} {
		var body settingsBody
		if err := json.Unmarshal([]byte(c.text), &body); err != nil {
			t.Fatal(err)
		}
		got, want := before, before
		Set(&got, &body)
		if c.change(&want); !got.Alike(&want) || got.MaxTokens != want.MaxTokens || got.Budget != want.Budget {
			t.Errorf("%s: %+v, want %+v", c.text, got, want)
		}
	}
	seed = 9
	q := generation.Request{}
	if Set(&q, &settingsBody{Seed: &seed}); q.Seed == nil || *q.Seed != 9 {
		t.Errorf("the seed is %v", q.Seed)
	}
	for _, v := range []float64{0, 1e-300, math.Copysign(0, -1), 0.5, 1} { // 0 keeps only the best token
		q := generation.Request{}
		if Set(&q, &common{TopP: &v}); !(q.Sampling.TopP > 0 && q.Sampling.TopP <= 1) {
			t.Errorf("top_p %v gives %v", v, q.Sampling.TopP)
		}
	}
}

func TestNames(t *testing.T) {
	want := map[string]string{"Sampling.Temperature": "a.temperature", "Sampling.TopP": "a.top_p",
		"Sampling.MinP": "a.min_p", "Sampling.RepetitionPenalty": "a.repeat_penalty", "Sampling.TopK": "a.top_k",
		"MaxTokens": "a.max", "Seed": "a.seed", "Budget": "own", "Stop": "a.stop", "Form": "a.form",
		"ResponseFormat": "a.form", "Tokens": "input"}
	got := Names[settingsBody]("a.", map[string]string{"Budget": "own", "Tokens": "input"})
	if !maps.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	defer func() {
		if recover() == nil {
			t.Error("a tag names a field that a request does not have")
		}
	}()
	Names[struct {
		A *int `json:"a" sets:"Missing"`
	}]("", nil)
}
