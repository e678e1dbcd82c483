package cli

import "strings"

// Nearest returns the name that is most like what was typed, or "" if none is. A name is like it if at most a third of
// the letters differ, or if one begins with the other. Of two that are equally near, the one of the same length is
// meant.
func Nearest(typed string, names []string) string {
	best, least := "", (len(typed)+1)/3
	for _, name := range names {
		d := distance(typed, name)
		if len(typed) > 2 && (strings.HasPrefix(name, typed) || strings.HasPrefix(typed, name+"-")) {
			d = min(d, 1)
		}
		if d < least || d == least && (best == "" || len(name) == len(typed) && len(best) != len(typed)) {
			best, least = name, d
		}
	}
	return best
}

// distance counts the bytes that must be added, removed, replaced or swapped with the next to make a into b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range len(b) + 1 {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
