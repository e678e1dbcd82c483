package cli

import (
	"strings"

	"runner/hint"
)

// Nearest returns the name that is most like what was typed, or "" if none is. A name is like it if at most a third of
// the letters differ, or if one begins with the other. Of two that are equally near, the one of the same length is
// meant.
func Nearest(typed string, list []string) string {
	best, least := "", (len(typed)+1)/3
	for _, name := range list {
		d := hint.Distance(typed, name)
		if len(typed) > 2 && (strings.HasPrefix(name, typed) || strings.HasPrefix(typed, name+"-")) {
			d = min(d, 1)
		}
		if d < least || d == least && (best == "" || len(name) == len(typed) && len(best) != len(typed)) {
			best, least = name, d
		}
	}
	return best
}
