package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Operations on texts. Each keeps the origin of the bytes it keeps; what it puts in place of a byte has that byte's
// origin.

// mapRunes replaces each character by what f returns for it.
func mapRunes(t Text, f func(c rune, i int) string) Text {
	var b builder
	b.buf = make([]byte, 0, len(t.s))
	off := 0
	for s, o := range t.Runs() {
		for i := 0; i < len(s); {
			c, n := utf8.DecodeRuneInString(s[i:])
			if c == utf8.RuneError && n == 1 {
				b.add(s[i:i+1], o)
			} else {
				b.add(f(c, off+i), o)
			}
			i += n
		}
		off += len(s)
	}
	return b.text()
}

// caseASCII maps a text by a table for ASCII alone; false when it holds more.
func caseASCII(t Text, f func(string) string) (Text, bool) {
	if !isASCII(t.s) {
		return t, false
	}
	return Text{s: f(t.s), ends: t.ends, first: t.first}, true
}

func upper(t Text) Text {
	if u, ok := caseASCII(t, strings.ToUpper); ok {
		return u
	}
	return mapRunes(t, func(c rune, _ int) string { return upperRune(c) })
}

func lower(t Text) Text {
	if l, ok := caseASCII(t, strings.ToLower); ok {
		return l
	}
	return mapRunes(t, func(c rune, i int) string { return lowerRune(t.s, c, i) })
}

func upperRune(c rune) string {
	if s, ok := upperSpecial[c]; ok {
		return s
	}
	return string(unicode.ToUpper(c))
}

func titleRune(c rune) string {
	if s, ok := titleSpecial[c]; ok {
		return s
	}
	if s, ok := upperSpecial[c]; ok && unicode.ToTitle(c) == c && !unicode.IsTitle(c) {
		return s
	}
	return string(unicode.ToTitle(c))
}

// lowerRune returns the lower case of the character c at byte i of s; a sigma at the end of a word has its own.
func lowerRune(s string, c rune, i int) string {
	switch c {
	case 'İ':
		return "i̇"
	case 'Σ':
		before, _ := lastCased(s[:i])
		after := firstCased(s[i+len("Σ"):])
		if before && !after {
			return "ς"
		}
		return "σ"
	}
	return string(unicode.ToLower(c))
}

func isUpperRune(c rune) bool { return unicode.IsUpper(c) || unicode.Is(unicode.Other_Uppercase, c) }

func isLowerRune(c rune) bool { return unicode.IsLower(c) || unicode.Is(unicode.Other_Lowercase, c) }

func isCased(c rune) bool { return isUpperRune(c) || isLowerRune(c) || unicode.IsTitle(c) }

// caseIgnorable reports characters that do not end a word for the final sigma.
func caseIgnorable(c rune) bool {
	return unicode.In(c, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) || strings.ContainsRune("'.:·’‘․", c)
}

func lastCased(s string) (bool, int) {
	for len(s) > 0 {
		c, n := utf8.DecodeLastRuneInString(s)
		if !caseIgnorable(c) {
			return isCased(c), len(s)
		}
		s = s[:len(s)-n]
	}
	return false, 0
}

func firstCased(s string) bool {
	for _, c := range s {
		if !caseIgnorable(c) {
			return isCased(c)
		}
	}
	return false
}

// capitalize makes the first character title case and the rest lower case.
func capitalize(t Text) Text {
	return mapRunes(t, func(c rune, i int) string {
		if i == 0 {
			return titleRune(c)
		}
		return lowerRune(t.s, c, i)
	})
}

// title is str.title: title case for what follows no letter.
func title(t Text) Text {
	prev := false
	return mapRunes(t, func(c rune, i int) string {
		was := prev
		prev = isCased(c)
		if was {
			return lowerRune(t.s, c, i)
		}
		return titleRune(c)
	})
}

func swapcase(t Text) Text {
	return mapRunes(t, func(c rune, i int) string {
		switch {
		case isUpperRune(c):
			return lowerRune(t.s, c, i)
		case isLowerRune(c):
			return upperRune(c)
		}
		return string(c)
	})
}

// strip takes away characters at the ends: those in chars, or white space when chars is nil.
func strip(t Text, chars *string, left, right bool) Text {
	drop := isSpace
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
	return t.slice(i, j)
}

// splitOn splits at a separator, at most n times (all times when n < 0), from the right if asked.
func splitOn(t Text, sep string, n int, fromRight bool) []Text {
	var out []Text
	if !fromRight {
		i := 0
		for n != 0 {
			k := strings.Index(t.s[i:], sep)
			if k < 0 {
				break
			}
			out = append(out, t.slice(i, i+k))
			i += k + len(sep)
			n--
		}
		return append(out, t.slice(i, len(t.s)))
	}
	j := len(t.s)
	for n != 0 {
		k := strings.LastIndex(t.s[:j], sep)
		if k < 0 {
			break
		}
		out = append(out, t.slice(k+len(sep), j))
		j = k
		n--
	}
	return reversed(append(out, t.slice(0, j)))
}

func reversed[T any](s []T) []T {
	for i, j := 0, len(s)-1; i < j; i, j = i+1, j-1 {
		s[i], s[j] = s[j], s[i]
	}
	return s
}

// splitSpace splits at runs of white space, none of which is kept but what is left over after n splits.
func splitSpace(t Text, n int, fromRight bool) []Text {
	var out []Text
	if !fromRight {
		t = strip(t, nil, true, false)
		for t.s != "" {
			k := strings.IndexFunc(t.s, isSpace)
			if n == 0 || k < 0 {
				return append(out, t)
			}
			out = append(out, t.slice(0, k))
			t = strip(t.slice(k, len(t.s)), nil, true, false)
			n--
		}
		return out
	}
	t = strip(t, nil, false, true)
	for t.s != "" {
		k := strings.LastIndexFunc(t.s, isSpace)
		if n == 0 || k < 0 {
			out = append(out, t)
			break
		}
		_, w := utf8.DecodeRuneInString(t.s[k:])
		out = append(out, t.slice(k+w, len(t.s)))
		t = strip(t.slice(0, k), nil, false, true)
		n--
	}
	return reversed(out)
}

// replaceText replaces old by repl, at most n times (all when n < 0). What is put in for text that is not all
// trusted is outside: otherwise whoever wrote the text could call up the template's own words.
func replaceText(t Text, old string, repl Text, n int) Text {
	if n == 0 || old != "" && !strings.Contains(t.s, old) {
		return t
	}
	var b builder
	put := func(i, j int) {
		if t.Trusted(i, j) && (i < j || t.allTrusted()) {
			b.addText(repl)
		} else {
			b.add(repl.s, Outside)
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
			b.addText(t.slice(i, i+w))
			i += w
		}
		b.addText(t.slice(min(i, len(t.s)), len(t.s)))
		return b.text()
	}
	for ; n != 0; n-- {
		k := strings.Index(t.s[i:], old)
		if k < 0 {
			break
		}
		b.addText(t.slice(i, i+k))
		put(i+k, i+k+len(old))
		i += k + len(old)
	}
	b.addText(t.slice(i, len(t.s)))
	return b.text()
}

// lineBreak returns the length of the line break at the start of s, or 0: those that str.splitlines knows.
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

func splitLines(t Text, keepEnds bool) []Text {
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
		out = append(out, t.slice(start, end))
		i += n
		start = i
	}
	if start < len(t.s) {
		out = append(out, t.slice(start, len(t.s)))
	}
	return out
}

// joinTexts puts sep between texts.
func joinTexts(sep Text, parts []Text) Text {
	var b builder
	for i, p := range parts {
		if i > 0 {
			b.addText(sep)
		}
		b.addText(p)
	}
	return b.text()
}

func reverseText(t Text) Text {
	var b builder
	for j := len(t.s); j > 0; {
		_, n := utf8.DecodeLastRuneInString(t.s[:j])
		b.addText(t.slice(j-n, j))
		j -= n
	}
	return b.text()
}

// escapeHTML replaces the five characters that mean something in HTML.
func escapeHTML(t Text) Text {
	if !strings.ContainsAny(t.s, `&<>'"`) {
		return t
	}
	return mapRunes(t, func(c rune, _ int) string {
		switch c {
		case '&':
			return "&amp;"
		case '<':
			return "&lt;"
		case '>':
			return "&gt;"
		case '\'':
			return "&#39;"
		case '"':
			return "&#34;"
		}
		return string(c)
	})
}

// escaped returns a string as markup.
func (r *render) escaped(s *strValue) *strValue {
	if s.markup {
		return s
	}
	r.made(len(s.s))
	return &strValue{Text: escapeHTML(s.Text), markup: true}
}
