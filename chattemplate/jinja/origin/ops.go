package origin

import (
	"html"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// MapRunes replaces each character by what f returns for it. The argument i is the byte offset of the character.
func MapRunes(t Text, f func(c rune, i int) string) Text {
	var b Builder
	b.buf = make([]byte, 0, len(t.s))
	off := 0
	for s, o := range t.Runs() {
		for i := 0; i < len(s); {
			c, n := utf8.DecodeRuneInString(s[i:])
			if c == utf8.RuneError && n == 1 {
				b.Add(s[i:i+1], o)
			} else {
				b.Add(f(c, off+i), o)
			}
			i += n
		}
		off += len(s)
	}
	return b.Text()
}

// caseASCII applies f to text that is all ASCII. It returns false for other text.
func caseASCII(t Text, f func(string) string) (Text, bool) {
	if !IsASCII(t.s) {
		return t, false
	}
	return Text{s: f(t.s), turns: t.turns, first: t.first}, true
}

// Upper is str.upper.
func Upper(t Text) Text {
	if u, ok := caseASCII(t, strings.ToUpper); ok {
		return u
	}
	upper := cases.Upper(language.Und)
	return MapRunes(t, func(c rune, _ int) string { return upper.String(string(c)) })
}

// Lower is str.lower.
func Lower(t Text) Text {
	if l, ok := caseASCII(t, strings.ToLower); ok {
		return l
	}
	return MapRunes(t, func(c rune, i int) string { return LowerRune(t.s, c, i) })
}

// UpperRune returns the upper case of c, which may have several characters.
func UpperRune(c rune) string { return cases.Upper(language.Und).String(string(c)) }

// titleCase returns a caser for the title case of single characters. It is for one goroutine.
func titleCase() cases.Caser { return cases.Title(language.Und, cases.NoLower) }

// LowerRune returns the lower case of the character c at byte i of s. A sigma at the end of a word has its own form.
func LowerRune(s string, c rune, i int) string {
	switch c {
	case 'İ':
		return "i̇"
	case 'Σ':
		if lastCased(s[:i]) && !firstCased(s[i+len("Σ"):]) {
			return "ς"
		}
		return "σ"
	}
	return string(unicode.ToLower(c))
}

// IsUpper reports whether c is an upper-case character.
func IsUpper(c rune) bool { return unicode.IsUpper(c) || unicode.Is(unicode.Other_Uppercase, c) }

// IsLower reports whether c is a lower-case character.
func IsLower(c rune) bool { return unicode.IsLower(c) || unicode.Is(unicode.Other_Lowercase, c) }

func isCased(c rune) bool { return IsUpper(c) || IsLower(c) || unicode.IsTitle(c) }

// caseIgnorable reports whether the rule for the final sigma skips c when it looks for the end of a word.
func caseIgnorable(c rune) bool {
	return unicode.In(c, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) || strings.ContainsRune("'.:·’‘․", c)
}

func lastCased(s string) bool {
	for len(s) > 0 {
		c, n := utf8.DecodeLastRuneInString(s)
		if !caseIgnorable(c) {
			return isCased(c)
		}
		s = s[:len(s)-n]
	}
	return false
}

func firstCased(s string) bool {
	for _, c := range s {
		if !caseIgnorable(c) {
			return isCased(c)
		}
	}
	return false
}

// Capitalize is str.capitalize: the first character in title case, the rest in lower case.
func Capitalize(t Text) Text {
	title := titleCase()
	return MapRunes(t, func(c rune, i int) string {
		if i == 0 {
			return title.String(string(c))
		}
		return LowerRune(t.s, c, i)
	})
}

// Title is str.title: title case for each letter that does not follow a letter, lower case for the others.
func Title(t Text) Text {
	prev, title := false, titleCase()
	return MapRunes(t, func(c rune, i int) string {
		was := prev
		prev = isCased(c)
		if was {
			return LowerRune(t.s, c, i)
		}
		return title.String(string(c))
	})
}

// Strip removes characters from the ends: those in chars, or white space if chars is nil.
func Strip(t Text, chars *string, left, right bool) Text {
	drop := IsSpace
	if chars != nil {
		drop = func(c rune) bool { return strings.ContainsRune(*chars, c) }
		if len(*chars) > 64 {
			set := map[rune]bool{}
			for _, c := range *chars {
				set[c] = true
			}
			drop = func(c rune) bool { return set[c] }
		}
	}
	i, j := 0, len(t.s)
	if left {
		i = j - len(strings.TrimLeftFunc(t.s, drop))
	}
	if right {
		j = i + len(strings.TrimRightFunc(t.s[i:], drop))
	}
	return t.Slice(i, j)
}

// Split splits at a separator at most n times, or without limit if n < 0. With fromRight it starts at the right end.
func Split(t Text, sep string, n int, fromRight bool) []Text {
	var out []Text
	if !fromRight {
		i := 0
		for n != 0 {
			k := strings.Index(t.s[i:], sep)
			if k < 0 {
				break
			}
			out = append(out, t.Slice(i, i+k))
			i += k + len(sep)
			n--
		}
		return append(out, t.Slice(i, len(t.s)))
	}
	j := len(t.s)
	for n != 0 {
		k := strings.LastIndex(t.s[:j], sep)
		if k < 0 {
			break
		}
		out = append(out, t.Slice(k+len(sep), j))
		j = k
		n--
	}
	out = append(out, t.Slice(0, j))
	slices.Reverse(out)
	return out
}

// SplitSpace splits at runs of white space, which it drops. After n splits the rest is kept as it is; n < 0 sets no
// limit. With fromRight it starts at the right end.
func SplitSpace(t Text, n int, fromRight bool) []Text {
	var out []Text
	if !fromRight {
		t = Strip(t, nil, true, false)
		for t.s != "" {
			k := strings.IndexFunc(t.s, IsSpace)
			if n == 0 || k < 0 {
				return append(out, t)
			}
			out = append(out, t.Slice(0, k))
			t = Strip(t.Slice(k, len(t.s)), nil, true, false)
			n--
		}
		return out
	}
	t = Strip(t, nil, false, true)
	for t.s != "" {
		k := strings.LastIndexFunc(t.s, IsSpace)
		if n == 0 || k < 0 {
			out = append(out, t)
			break
		}
		_, w := utf8.DecodeRuneInString(t.s[k:])
		out = append(out, t.Slice(k+w, len(t.s)))
		t = Strip(t.Slice(0, k), nil, false, true)
		n--
	}
	slices.Reverse(out)
	return out
}

// Replace replaces old by repl at most n times, or everywhere if n < 0. A replacement is Outside unless all the text
// it replaces is Trusted. Otherwise the author of outside text could make the template's own words appear. In Unseen
// text it is Unseen.
func Replace(t Text, old string, repl Text, n int) Text {
	if n == 0 || old != "" && !strings.Contains(t.s, old) {
		return t
	}
	var b Builder
	put := func(i, j int) {
		if t.Trusted(i, j) && (i < j || t.AllTrusted()) {
			b.AddText(repl)
		} else if i < j && t.OriginAt(i) == Unseen {
			b.Add(repl.s, Unseen)
		} else {
			b.Add(repl.s, Outside)
		}
	}
	i := 0
	if old == "" {
		for ; n != 0; n-- {
			put(i, i)
			if i >= len(t.s) {
				break
			}
			_, w := utf8.DecodeRuneInString(t.s[i:])
			b.AddText(t.Slice(i, i+w))
			i += w
		}
		b.AddText(t.Slice(min(i, len(t.s)), len(t.s)))
		return b.Text()
	}
	for ; n != 0; n-- {
		k := strings.Index(t.s[i:], old)
		if k < 0 {
			break
		}
		b.AddText(t.Slice(i, i+k))
		put(i+k, i+k+len(old))
		i += k + len(old)
	}
	b.AddText(t.Slice(i, len(t.s)))
	return b.Text()
}

// lineBreak returns the length of the line break at the start of s, or 0. It knows the line breaks of str.splitlines.
func lineBreak(s string) int {
	switch s[0] {
	case '\r':
		if len(s) > 1 && s[1] == '\n' {
			return 2
		}
		return 1
	case '\n', '\v', '\f', 0x1c, 0x1d, 0x1e:
		return 1
	case 0xc2:
		if strings.HasPrefix(s, "\u0085") {
			return 2
		}
	case 0xe2:
		if strings.HasPrefix(s, "\u2028") || strings.HasPrefix(s, "\u2029") {
			return 3
		}
	}
	return 0
}

// SplitLines is str.splitlines.
func SplitLines(t Text, keepEnds bool) []Text {
	var out []Text
	start := 0
	for i := 0; i < len(t.s); {
		n := lineBreak(t.s[i:])
		if n == 0 {
			i++
			continue
		}
		end := i
		if keepEnds {
			end += n
		}
		out = append(out, t.Slice(start, end))
		i += n
		start = i
	}
	if start < len(t.s) {
		out = append(out, t.Slice(start, len(t.s)))
	}
	return out
}

// Reverse returns the characters of t in reverse order.
func Reverse(t Text) Text {
	var b Builder
	for j := len(t.s); j > 0; {
		_, n := utf8.DecodeLastRuneInString(t.s[:j])
		b.AddText(t.Slice(j-n, j))
		j -= n
	}
	return b.Text()
}

// EscapeHTML replaces &, <, >, ' and " by HTML entities.
func EscapeHTML(t Text) Text {
	return MapRunes(t, func(c rune, _ int) string { return html.EscapeString(string(c)) })
}

// Repeat returns n copies of t in a row.
func Repeat(t Text, n int) Text {
	if len(t.turns) == 0 {
		return Text{s: strings.Repeat(t.s, n), first: t.first}
	}
	var b Builder
	for ; n > 0; n-- {
		b.AddText(t)
	}
	return b.Text()
}
