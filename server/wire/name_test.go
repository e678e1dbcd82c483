package wire

import "testing"

func TestNamed(t *testing.T) {
	var cards []Card
	for _, name := range []string{"demo", "tagged:latest", "other:q4", "both", "both:latest"} {
		cards = append(cards, Card{Name: name})
	}
	for asked, want := range map[string]string{
		"demo": "demo", "demo:latest": "demo", "tagged": "tagged:latest", "tagged:latest": "tagged:latest",
		"other:q4": "other:q4",
		"both":     "both", "both:latest": "both:latest", "demo:q4": "", "other": "",
		"demo:latest:latest": "", "": "", ":latest": "",
	} {
		got := ""
		if i := Named(cards, asked); i >= 0 {
			got = cards[i].Name
		}
		if got != want {
			t.Errorf("%q is %q, want %q", asked, got, want)
		}
	}
}

// TestFolded: a name in another case is found where it means one model.
func TestFolded(t *testing.T) {
	cards := []Card{{Name: "Demo"}, {Name: "both"}, {Name: "Both:latest"}}
	for asked, want := range map[string]int{"demo": 0, "DEMO:latest": 0, "BOTH": -1, "dem": -1, "": -1} {
		if got := Folded(cards, asked); got != want {
			t.Errorf("%q is %d, want %d", asked, got, want)
		}
	}
}
