package wire

import (
	"slices"
	"strings"
)

// latest is the tag that Ollama's clients add to the name of a model without a tag.
const latest = ":latest"

// BareName returns a model's name without the tag latest. Names with the same bare name mean the same model, unless two
// models have them.
func BareName(name string) string { return strings.TrimSuffix(name, latest) }

// Named returns the index of the model called name among cards, or -1. The tag latest may be added or left out.
func Named(cards []Card, name string) int {
	if i := slices.IndexFunc(cards, func(c Card) bool { return c.Name == name }); i >= 0 {
		return i
	}
	return slices.IndexFunc(cards, func(c Card) bool { return BareName(c.Name) == BareName(name) })
}

// Folded returns the index of the only model among cards that is called name in any case, or -1.
func Folded(cards []Card, name string) int {
	found := -1
	for i, c := range cards {
		if strings.EqualFold(BareName(c.Name), BareName(name)) {
			if found >= 0 {
				return -1
			}
			found = i
		}
	}
	return found
}
