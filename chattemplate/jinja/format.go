package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"runner/chattemplate/jinja/origin"
)

// spec says how to format one value, in % formatting or in a format specification.
type spec struct {
	fill  Text
	align byte // '<', '>', '^' or '='; 0 for the type's own
	sign  byte // '+', ' ' or '-'
	alt   bool
	width int
	group byte // ',' or '_', or 0
	prec  int  // -1 when not given
	verb  byte // 0 when not given
	zero  bool
}

// maxPrec limits the precision of numbers.
const maxPrec = 1000

// minDigits pads digits with zeros to n digits, after a prefix such as 0x.
func (r *render) minDigits(d string, n int) string {
	prefix := ""
	if len(d) > 1 && d[0] == '0' && !decimal(d[1]) {
		prefix, d = d[:2], d[2:]
	}
	if n > len(d) {
		r.made(n)
		d = strings.Repeat("0", n-len(d)) + d
	}
	return prefix + d
}

func (r *render) asciiRepr(v Value) Text {
	t := r.repr(v)
	r.made(t.Len())
	return origin.MapRunes(t, func(c rune, _ int) string {
		if c < utf8.RuneSelf {
			return string(c)
		}
		s := strconv.QuoteRuneToASCII(c)
		s = s[1 : len(s)-1]
		if c < 0x100 {
			s = strings.Replace(s, `\u00`, `\x`, 1)
		}
		return s
	})
}

// formatStr truncates and pads a text.
func (r *render) formatStr(t Text, f spec) Text {
	if f.prec >= 0 && f.prec < origin.RuneCount(t.String()) {
		t = t.Slice(0, origin.RuneOffset(t.String(), f.prec))
	}
	return r.pad(t, f)
}

func (r *render) pad(t Text, f spec) Text {
	n := f.width - origin.RuneCount(t.String())
	if n <= 0 {
		return t
	}
	r.made(t.Len() + n*f.fill.Len())
	switch f.align {
	case '<':
		return origin.Concat(t, origin.Repeat(f.fill, n))
	case '^':
		return origin.Concat(origin.Repeat(f.fill, n/2), origin.Concat(t, origin.Repeat(f.fill, n-n/2)))
	}
	return origin.Concat(origin.Repeat(f.fill, n), t)
}

// intDigits returns the digits of |i| in the base of the verb, with the prefix if asked for.
func intDigits(i *big.Int, f spec) string {
	base, prefix := 10, ""
	switch f.verb {
	case 'b':
		base, prefix = 2, "0b"
	case 'o':
		base, prefix = 8, "0o"
	case 'x':
		base, prefix = 16, "0x"
	case 'X':
		base, prefix = 16, "0X"
	}
	d := new(big.Int).Abs(i).Text(base)
	if f.verb == 'X' {
		d = strings.ToUpper(d)
	}
	if f.group != 0 {
		n := 3
		if base != 10 {
			n = 4
		}
		d = grouped(d, n, f.group)
	}
	if f.alt {
		return prefix + d
	}
	return d
}

// grouped puts a separator between groups of n digits.
func grouped(d string, n int, sep byte) string {
	var b strings.Builder
	for i := range d {
		if i > 0 && (len(d)-i)%n == 0 {
			b.WriteByte(sep)
		}
		b.WriteByte(d[i])
	}
	return b.String()
}

// number joins sign and digits and pads them.
func (r *render) number(neg bool, digits string, f spec) Text {
	sign := ""
	switch {
	case neg:
		sign = "-"
	case f.sign == '+' || f.sign == ' ':
		sign = string(f.sign)
	}
	if f.align != '=' {
		return r.pad(NewText(sign+digits, Outside), f)
	}
	if len(digits) > 1 && digits[0] == '0' && !decimal(digits[1]) && digits[1] != '.' && digits[1] != ',' &&
		digits[1] != '_' {
		sign, digits = sign+digits[:2], digits[2:]
	}
	n := f.width - len(sign) - len(digits)
	if n <= 0 {
		return NewText(sign+digits, Outside)
	}
	r.made(f.width * f.fill.Len())
	if f.group != 0 && f.fill.String() == "0" {
		return NewText(sign+groupedZeros(digits, f.width-len(sign), f.group), Outside)
	}
	return origin.Concat(NewText(sign, Outside), origin.Concat(origin.Repeat(f.fill, n), NewText(digits, Outside)))
}

// groupedZeros pads grouped digits with zeros to a width and groups the zeros too.
func groupedZeros(d string, width int, sep byte) string {
	whole, frac := d, ""
	if i := strings.IndexAny(d, ".e%"); i >= 0 {
		whole, frac = d[:i], d[i:]
	}
	plain := strings.ReplaceAll(whole, string(sep), "")
	for len(whole)+len(frac) < width {
		plain = "0" + plain
		whole = grouped(plain, 3, sep)
	}
	return whole + frac
}

func (r *render) formatFloat(x float64, f spec) Text {
	if f.prec > maxPrec {
		r.fail(KindLimit, "precision of more than %d", maxPrec)
	}
	neg := math.Signbit(x) && !math.IsNaN(x)
	x = math.Abs(x)
	digits := floatDigits(x, f)
	if math.IsInf(x, 0) || math.IsNaN(x) {
		digits = "inf"
		if math.IsNaN(x) {
			digits = "nan"
		}
		if f.verb == '%' {
			digits += "%"
		}
	} else if f.group != 0 {
		i := strings.IndexAny(digits, ".e%")
		if i < 0 {
			i = len(digits)
		}
		digits = grouped(digits[:i], 3, f.group) + digits[i:]
	}
	if f.verb == 'E' || f.verb == 'F' || f.verb == 'G' {
		digits = strings.ToUpper(digits)
	}
	return r.number(neg, digits, f)
}

// floatDigits returns the digits of a positive finite number.
func floatDigits(x float64, f spec) string {
	prec := f.prec
	switch f.verb | 0x20 {
	case 'e', 'f':
		if prec < 0 {
			prec = 6
		}
		s := strconv.FormatFloat(x, f.verb|0x20, prec, 64)
		if f.alt && prec == 0 {
			s = withPoint(s)
		}
		return s
	case 'g', 'n':
		if prec < 0 {
			prec = 6
		}
		return generalDigits(x, max(prec, 1), f.alt)
	case '%' | 0x20:
		if prec < 0 {
			prec = 6
		}
		return strconv.FormatFloat(x*100, 'f', prec, 64) + "%"
	}
	if prec < 0 {
		return floatRepr(x)
	}
	s := generalDigits(x, max(prec, 1), f.alt)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// generalDigits is %g: significant digits, with an exponent if that is shorter. alt keeps trailing zeros.
func generalDigits(x float64, prec int, alt bool) string {
	s := strconv.FormatFloat(x, 'g', prec, 64)
	if !alt {
		return s
	}
	mant, exp := s, ""
	if i := strings.IndexByte(s, 'e'); i >= 0 {
		mant, exp = s[:i], s[i:]
	}
	mant = withPoint(mant)
	digits := len(strings.TrimLeft(strings.Replace(mant, ".", "", 1), "0"))
	if digits < prec {
		mant += strings.Repeat("0", prec-digits)
	}
	return mant + exp
}

// withPoint adds a decimal point to digits that have none.
func withPoint(s string) string {
	if strings.Contains(s, ".") {
		return s
	}
	if i := strings.IndexByte(s, 'e'); i >= 0 {
		return s[:i] + "." + s[i:]
	}
	return s + "."
}

// parseSpec reads [[fill]align][sign][z][#][0][width][grouping][.precision][type].
func (r *render) parseSpec(t Text) spec {
	f := spec{prec: -1, fill: NewText(" ", Outside)}
	s := t.String()
	isAlign := func(i int) bool { return i < len(s) && strings.IndexByte("<>^=", s[i]) >= 0 }
	i := 0
	if _, w := utf8.DecodeRuneInString(s); isAlign(w) {
		f.fill, f.align = t.Slice(0, w), s[w]
		i = w + 1
	} else if isAlign(0) {
		f.align = s[0]
		i = 1
	}
	has := func(set string) bool { return i < len(s) && strings.IndexByte(set, s[i]) >= 0 }
	number := func() int {
		n := 0
		for ; has("0123456789"); i++ {
			n = min(n*10+int(s[i]-'0'), 1<<40)
		}
		return n
	}
	if has("+- ") {
		f.sign = s[i]
		i++
	}
	if has("z") {
		i++
	}
	if has("#") {
		f.alt = true
		i++
	}
	if has("0") {
		if f.align == 0 {
			f.align, f.fill, f.zero = '=', NewText("0", Outside), true
		}
		i++
	}
	f.width = number()
	if has(",_") {
		f.group = s[i]
		i++
	}
	if has(".") {
		i++
		if !has("0123456789") {
			r.typeError("Format specifier missing precision")
		}
		f.prec = number()
	}
	if i < len(s) {
		f.verb = s[i]
		i++
	}
	if i < len(s) {
		r.typeError("Invalid format specifier")
	}
	return f
}
