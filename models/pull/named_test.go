package pull_test

import (
	"errors"
	"strings"
	"testing"

	"runner/models/cache"
	"runner/models/catalog"
	"runner/models/hub"
	"runner/models/hub/hubtest"
	"runner/models/names"
	"runner/models/pull"
)

// A name means a repository in any case and with or without -GGUF, also with a quantization. If a repository exists and
// lacks the quantization, the error says what it has, and not that another repository does not exist.
func TestNamedPlans(t *testing.T) {
	h := hubtest.Start(t)
	h.Add(hubtest.Repo{ID: "Org/Tiny-GGUF", Files: []hubtest.File{{Path: "tiny-Q4_K_M.gguf", Content: content(1, 1000)},
		{Path: "tiny-Q8_0.gguf", Content: content(2, 2000)}}})
	// The makers' own repository has the weights that the quantized one was made of.
	h.Add(hubtest.Repo{ID: "Org/Both", Files: []hubtest.File{{Path: "config.json", Content: []byte("{}")},
		{Path: "model.safetensors", Content: content(3, 3000)}}})
	h.Add(hubtest.Repo{ID: "Org/Both-GGUF", Files: []hubtest.File{{Path: "both-Q8_0.gguf", Content: content(4, 1500)}}})
	h.Add(hubtest.Repo{ID: "Org/Original", Files: []hubtest.File{{Path: "config.json", Content: []byte("{}")},
		{Path: "model.safetensors", Content: content(5, 3000)}}})
	for name, want := range map[string]string{
		"org/tiny:Q8_0":            "Org/Tiny-GGUF:Q8_0",
		"ORG/TINY-gguf:q4_k_m":     "Org/Tiny-GGUF:Q4_K_M",
		"org/tiny/tiny-Q8_0.gguf":  "Org/Tiny-GGUF:Q8_0",
		"hf.co/oRG/tINY:q8_0":      "Org/Tiny-GGUF:Q8_0",
		"org/both":                 "Org/Both",
		"org/both:q8_0":            "Org/Both-GGUF:Q8_0",
		"org/tiny:Q2_K":            `Org/Tiny-GGUF: no GGUF file matches "Q2_K"; there is Q4_K_M, Q8_0`,
		"ORG/tiny-GGUF:Q2_K":       `Org/Tiny-GGUF: no GGUF file matches "Q2_K"; there is Q4_K_M, Q8_0`,
		"org/both:Q2_K":            `Org/Both-GGUF: no GGUF file matches "Q2_K"; there is Q8_0`,
		"org/original:Q2_K":        `Org/Original: there is no GGUF file, so none matches "Q2_K"`,
		"org/none:Q2_K":            "org/none: the hub has no such repository",
		"https://hf.co/org/absent": "org/absent: the hub has no such repository",
	} {
		n, err := names.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := pull.NewPlan(t.Context(), client(t, h), cache.At(t.TempDir()), n, 0)
		if err == nil {
			if got := p.Model.Spelled(); got != want {
				t.Errorf("%s means %s, want %s", name, got, want)
			}
			continue
		}
		file, asked := (*catalog.Error)(nil), (*hub.Error)(nil)
		if !strings.HasPrefix(err.Error(), want) || !errors.As(err, &file) && !errors.As(err, &asked) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}
