package wire

import (
	"slices"
	"strings"
)

// latest is the tag of a model's name without one, as clients of Ollama write it.
const latest = ":latest"

// BareName is a model's name without the tag latest. Names with the same bare name are one model's, unless there are
// two.
func BareName(name string) string { return strings.TrimSuffix(name, latest) }

// Named returns the place of the model called name among cards, or -1. The tag latest may be left out or added.
func Named(cards []Card, name string) int {
	if i := slices.IndexFunc(cards, func(c Card) bool { return c.Name == name }); i >= 0 {
		return i
	}
	return slices.IndexFunc(cards, func(c Card) bool { return BareName(c.Name) == BareName(name) })
}
