package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// spec is how one value is to be formatted, in % formatting or by a format specification.
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

// maxPrec bounds the precision of numbers.
const maxPrec = 1000

// percent is s % args.
func (r *render) percent(s *strValue, args Value) Value {
	p := &percentFormat{r: r, s: s, single: args}
	if t, ok := args.(*tupleValue); ok {
		p.args, p.isTuple = t.items, true
	}
	p.run()
	switch args.(type) {
	case *dictValue, *listValue, *rangeValue, *undefined:
	default:
		if p.isTuple && p.used < len(p.args) || !p.isTuple && p.used == 0 {
			r.typeError("not all arguments converted during string formatting")
		}
	}
	return &strValue{Text: p.b.text(), markup: s.markup}
}

type percentFormat struct {
	r       *render
	s       *strValue
	b       builder
	single  Value
	args    []Value
	isTuple bool
	used    int
}

func (p *percentFormat) arg() Value {
	if p.isTuple && p.used < len(p.args) {
		p.used++
		return p.args[p.used-1]
	}
	if p.isTuple || p.used > 0 {
		p.r.typeError("not enough arguments for format string")
	}
	p.used++
	return p.single
}

func (p *percentFormat) run() {
	s := p.s.s
	for i := 0; i < len(s); {
		k := strings.IndexByte(s[i:], '%')
		if k < 0 {
			p.b.addText(p.s.slice(i, len(s)))
			break
		}
		p.b.addText(p.s.slice(i, i+k))
		i = p.conversion(i + k)
		p.r.fits(len(p.b.buf))
	}
}

// conversion handles the conversion that starts at the percent sign at byte i, and returns the place after it.
func (p *percentFormat) conversion(i int) int {
	r, s, start := p.r, p.s.s, i
	i++
	at := func() byte {
		if i >= len(s) {
			r.typeError("incomplete format")
		}
		return s[i]
	}
	var keyed Value
	if at() == '(' {
		end := i + 1
		for depth := 1; depth > 0; end++ {
			if end >= len(s) {
				r.typeError("incomplete format key")
			}
			depth += strings.Count(s[end:end+1], "(") - strings.Count(s[end:end+1], ")")
		}
		d, ok := p.single.(*dictValue)
		if !ok {
			r.typeError("format requires a mapping")
		}
		key := p.s.slice(i+1, end-1)
		if keyed = d.getStr(key.s); keyed == nil {
			r.typeError("key %s is missing", r.quote(text(key)))
		}
		i = end
	}
	f := spec{prec: -1, fill: NewText(" ", Outside), align: '>'}
	for ; strings.IndexByte("-+ #0", at()) >= 0; i++ {
		switch s[i] {
		case '-':
			f.align = '<'
		case '+':
			f.sign = '+'
		case ' ':
			if f.sign == 0 {
				f.sign = ' '
			}
		case '#':
			f.alt = true
		case '0':
			f.zero = true
		}
	}
	number := func() int {
		if at() == '*' {
			i++
			return r.argInt(p.arg(), 0)
		}
		n := 0
		for ; decimal(at()); i++ {
			n = min(n*10+int(s[i]-'0'), 1<<40)
		}
		return n
	}
	if f.width = number(); f.width < 0 {
		f.width, f.align = -f.width, '<'
	}
	if at() == '.' {
		i++
		f.prec = max(0, number())
	}
	for strings.IndexByte("hlL", at()) >= 0 {
		i++
	}
	verb := at()
	i++
	if verb == '%' {
		p.b.add("%", p.s.originAt(start))
		return i
	}
	if strings.IndexByte("diuoxXeEfFgGcrsa", verb) < 0 {
		r.typeError("unsupported format character at index %d", runeCount(s[:i-1]))
	}
	v := keyed
	if v == nil {
		v = p.arg()
	}
	p.b.addText(p.convert(v, verb, f))
	return i
}

func (p *percentFormat) convert(v Value, verb byte, f spec) Text {
	r := p.r
	f.verb = verb
	switch verb {
	case 's', 'r', 'a':
		return r.formatStr(p.shown(v, verb), f)
	case 'c':
		if s, ok := v.(*strValue); ok && runeCount(s.s) == 1 {
			return r.formatStr(s.Text, f)
		}
		k, n, _, _ := numberOf(v)
		if k != 1 || !utf8.ValidRune(rune(n)) || n != int64(rune(n)) {
			r.typeError("%%c requires int or char")
		}
		return r.formatStr(NewText(string(rune(n)), Outside), f)
	}
	if !isNumber(v) {
		if strings.IndexByte("oxX", verb) >= 0 {
			r.typeError("%%%c format: an integer is required, not %s", verb, v.typeName())
		}
		r.defined(v)
		if strings.IndexByte("diu", verb) >= 0 {
			r.typeError("%%%c format: a real number is required, not %s", verb, v.typeName())
		}
		r.typeError("must be real number, not %s", v.typeName())
	}
	if f.zero && f.align == '>' {
		f.align, f.fill = '=', NewText("0", Outside)
	}
	switch verb {
	case 'd', 'i', 'u', 'o', 'x', 'X':
		if x, ok := v.(floatValue); ok {
			if verb == 'o' || verb == 'x' || verb == 'X' {
				r.typeError("%%%c format: an integer is required, not float", verb)
			}
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				r.typeError("cannot convert float infinity to integer")
			}
			i, _ := big.NewFloat(math.Trunc(float64(x))).Int(nil)
			v = bigInt(i)
		}
		if verb == 'i' || verb == 'u' {
			f.verb = 'd'
		}
		digits := r.minDigits(intDigits(toBig(v), f), f.prec)
		f.prec = -1
		return r.number(toBig(v).Sign() < 0, digits, f)
	}
	if f.prec < 0 {
		f.prec = 6
	}
	return r.formatFloat(toFloat(v), f)
}

// minDigits adds zeros to the front of digits, after a prefix such as 0x.
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

// shown is str, repr or ascii of a value, escaped for markup.
func (p *percentFormat) shown(v Value, verb byte) Text {
	r := p.r
	var t Text
	switch verb {
	case 's':
		t = r.str(v)
	case 'r':
		t = r.repr(v)
	default:
		t = r.asciiRepr(v)
	}
	if s, ok := v.(*strValue); p.s.markup && (!ok || !s.markup || verb != 's') {
		t = r.escaped(text(t)).Text
	}
	return t
}

func (r *render) asciiRepr(v Value) Text {
	t := r.repr(v)
	r.made(len(t.s))
	return mapRunes(t, func(c rune, _ int) string {
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

// formatStr pads and cuts a text.
func (r *render) formatStr(t Text, f spec) Text {
	if f.prec >= 0 && f.prec < runeCount(t.s) {
		t = t.slice(0, runeOffset(t.s, f.prec))
	}
	return r.pad(t, f)
}

func (r *render) pad(t Text, f spec) Text {
	n := f.width - runeCount(t.s)
	if n <= 0 {
		return t
	}
	r.made(len(t.s) + n*len(f.fill.s))
	switch f.align {
	case '<':
		return concat(t, repeatText(f.fill, n))
	case '^':
		return concat(repeatText(f.fill, n/2), concat(t, repeatText(f.fill, n-n/2)))
	}
	return concat(repeatText(f.fill, n), t)
}

// intDigits returns the digits of |i| in the base of the verb, with its prefix if asked for.
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

// number puts sign and digits together and pads them.
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
	r.made(f.width * len(f.fill.s))
	if f.group != 0 && f.fill.s == "0" {
		return NewText(sign+groupedZeros(digits, f.width-len(sign), f.group), Outside)
	}
	return concat(NewText(sign, Outside), concat(repeatText(f.fill, n), NewText(digits, Outside)))
}

// groupedZeros fills up grouped digits with zeros to at least a width, going on with the groups.
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

// generalDigits is %g: significant digits, with an exponent if that is shorter; alt keeps zeros at the end.
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

// withPoint makes sure that digits have a decimal point.
func withPoint(s string) string {
	if strings.Contains(s, ".") {
		return s
	}
	if i := strings.IndexByte(s, 'e'); i >= 0 {
		return s[:i] + "." + s[i:]
	}
	return s + "."
}
