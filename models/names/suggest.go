package names

import (
	"cmp"
	"slices"
	"strings"

	"runner/hint"
)

// Suggest returns up to most of the names that text may have meant, the nearest first: well-known models and others,
// which are names that the caller knows. A name is near if it is nearly spelled as text, or has all parts of text.
func Suggest(text string, most int, others ...string) []string {
	type candidate struct {
		name         string
		misses, rest int
	}
	var near []candidate
	seen := map[string]bool{}
	consider := func(name string, spellings ...string) {
		if seen[name] {
			return
		}
		best := candidate{name: name, misses: -1}
		for _, s := range spellings {
			if misses, rest, ok := compare(text, s); ok && (best.misses < 0 || misses < best.misses ||
				misses == best.misses && rest < best.rest) {
				best.misses, best.rest = misses, rest
			}
		}
		if best.misses >= 0 {
			seen[name] = true
			near = append(near, best)
		}
	}
	for _, name := range others {
		consider(name, name, plainRepo(name))
	}
	for _, k := range known {
		series, _, _ := strings.Cut(k.Name, ":")
		consider(k.Name, k.Name, series, k.Repo, plainRepo(k.Repo))
	}
	slices.SortStableFunc(near, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.misses, b.misses), cmp.Compare(a.rest, b.rest))
	})
	var names []string
	for _, c := range near[:min(most, len(near))] {
		names = append(names, c.name)
	}
	return names
}

// maxCompared limits the work on one name.
const maxCompared = 96

// compare returns the number of letters that differ, and of parts of name that text does not have. It reports false if
// they are not alike.
func compare(text, name string) (misses, rest int, ok bool) {
	if len(text) > maxCompared || len(name) > maxCompared {
		return 0, 0, false
	}
	a, b := squash(text), squash(name)
	if misses = hint.Distance(a, b); misses <= max(1, len(a)/5) && misses < len(a) {
		return misses, 0, true
	}
	have := parts(name)
	misses = 0
	for _, p := range parts(text) {
		best, at := len(p), -1
		for i, h := range have {
			if d := hint.Distance(p, h); d < best && d <= len(p)/4 {
				best, at = d, i
			}
		}
		if at < 0 {
			return 0, 0, false
		}
		misses += best
		have = slices.Delete(have, at, at+1)
	}
	return misses + 1, len(have), true // an equal spelling is nearer than equal parts
}

// parts splits a name at the marks between its parts and between letters and digits: llama3.2:3b is llama, 3, 2, 3, b.
func parts(name string) []string {
	var all []string
	start, kind := 0, -1
	lower := strings.ToLower(name)
	for i := 0; i <= len(lower); i++ {
		k := -1
		if i < len(lower) {
			switch c := lower[i]; {
			case c >= '0' && c <= '9':
				k = 0
			case !strings.ContainsRune("-_:./ ", rune(c)):
				k = 1
			}
		}
		if k != kind {
			if kind >= 0 {
				all = append(all, lower[start:i])
			}
			start, kind = i, k
		}
	}
	return all
}
