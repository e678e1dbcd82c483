package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"runner/chattemplate/jinja/origin"
)

// maxPrec limits the precision of floats.
const maxPrec = 1000

// spec is what stands between the percent sign of a conversion and its letter.
type spec struct {
	left, zero bool
	sign       string // "+", " " or empty
	width      int
	prec       int // -1 when not given
}

// percent is s % args. It knows Python's conversions but %a, and its flags but #.
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
	return &strValue{Text: p.b.Text(), markup: s.markup}
}

type percentFormat struct {
	r       *render
	s       *strValue
	b       origin.Builder
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
	s := p.s.String()
	for i := 0; i < len(s); {
		k := strings.IndexByte(s[i:], '%')
		if k < 0 {
			p.b.AddText(p.s.Slice(i, len(s)))
			break
		}
		p.b.AddText(p.s.Slice(i, i+k))
		i = p.conversion(i + k)
		p.r.fits(p.b.Len())
	}
}

// conversion handles the conversion at byte i, where the percent sign is. It returns the offset after it.
func (p *percentFormat) conversion(i int) int {
	r, s, start := p.r, p.s.String(), i
	i++
	at := func() byte {
		if i >= len(s) {
			r.typeError("incomplete format")
		}
		return s[i]
	}
	var keyed Value
	if at() == '(' {
		keyed, i = p.key(i)
	}
	var f spec
	for ; strings.IndexByte("-+ 0", at()) >= 0; i++ {
		switch s[i] {
		case '-':
			f.left = true
		case '+':
			f.sign = "+"
		case ' ':
			if f.sign == "" {
				f.sign = " "
			}
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
		f.width, f.left = -f.width, true
	}
	f.prec = -1
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
		p.b.Add("%", p.s.OriginAt(start))
		return i
	}
	if strings.IndexByte("diuoxXeEfFgGcrs", verb) < 0 {
		r.typeError("unsupported format character at index %d", origin.RuneCount(s[:i-1]))
	}
	v := keyed
	if v == nil {
		v = p.arg()
	}
	p.b.AddText(p.convert(v, verb, f))
	return i
}

// key returns the value of the key in parentheses at byte i, and the offset after it.
func (p *percentFormat) key(i int) (Value, int) {
	r, s := p.r, p.s.String()
	end := i + 1
	for depth := 1; depth > 0; end++ {
		if end >= len(s) {
			r.typeError("incomplete format key")
		}
		switch s[end] {
		case '(':
			depth++
		case ')':
			depth--
		}
	}
	d, ok := p.single.(*dictValue)
	if !ok {
		r.typeError("format requires a mapping")
	}
	key := p.s.Slice(i+1, end-1)
	v := d.getStr(key.String())
	if v == nil {
		r.typeError("key %s is missing", r.quote(text(key)))
	}
	return v, end
}

func (p *percentFormat) convert(v Value, verb byte, f spec) Text {
	r := p.r
	switch verb {
	case 's', 'r':
		return r.formatStr(p.shown(v, verb), f)
	case 'c':
		if s, ok := v.(*strValue); ok && origin.RuneCount(s.String()) == 1 {
			return r.formatStr(s.Text, f)
		}
		n, ok := smallInt(v)
		if !ok || !utf8.ValidRune(rune(n)) || n != int64(rune(n)) {
			r.typeError("%%c requires int or char")
		}
		return r.formatStr(NewText(string(rune(n)), Outside), f)
	}
	base := map[byte]int{'d': 10, 'i': 10, 'u': 10, 'o': 8, 'x': 16, 'X': 16}[verb]
	switch {
	case (base == 8 || base == 16) && !isInt(v):
		r.typeError("%%%c format: an integer is required, not %s", verb, v.typeName())
	case !isNumber(v):
		r.defined(v)
		r.typeError("%%%c format: a number is required, not %s", verb, v.typeName())
	}
	if base == 0 {
		return r.formatFloat(toFloat(v), verb, f)
	}
	if isFloat(v) {
		v = r.wholeNumber(toFloat(v))
	}
	i := toBig(v)
	digits := new(big.Int).Abs(i).Text(base)
	if verb == 'X' {
		digits = strings.ToUpper(digits)
	}
	if n := f.prec - len(digits); n > 0 {
		r.made(n)
		digits = strings.Repeat("0", n) + digits
	}
	return r.number(i.Sign() < 0, digits, f)
}

// shown returns str or repr of a value, escaped if the format is markup.
func (p *percentFormat) shown(v Value, verb byte) Text {
	r := p.r
	t := r.str(v)
	if verb == 'r' {
		t = r.repr(v)
	}
	if s, ok := v.(*strValue); p.s.markup && (!ok || !s.markup || verb != 's') {
		t = r.escaped(text(t)).Text
	}
	return t
}

// formatStr truncates and pads a text.
func (r *render) formatStr(t Text, f spec) Text {
	if f.prec >= 0 {
		t = t.Slice(0, origin.RuneOffset(t.String(), f.prec))
	}
	return r.pad(t, f)
}

// pad fills a text with spaces up to the width.
func (r *render) pad(t Text, f spec) Text {
	n := f.width - origin.RuneCount(t.String())
	if n <= 0 {
		return t
	}
	r.made(t.Len() + n)
	spaces := NewText(strings.Repeat(" ", n), Outside)
	if f.left {
		return origin.Concat(t, spaces)
	}
	return origin.Concat(spaces, t)
}

// number joins sign and digits and pads them.
func (r *render) number(negative bool, digits string, f spec) Text {
	sign := f.sign
	if negative {
		sign = "-"
	}
	if n := f.width - len(sign) - len(digits); f.zero && !f.left && n > 0 {
		r.made(f.width)
		digits = strings.Repeat("0", n) + digits
	}
	return r.pad(NewText(sign+digits, Outside), f)
}

func (r *render) formatFloat(x float64, verb byte, f spec) Text {
	if f.prec > maxPrec {
		r.fail(KindLimit, "precision of more than %d", maxPrec)
	}
	if f.prec < 0 {
		f.prec = 6
	}
	lower := verb | 0x20
	if lower == 'g' {
		f.prec = max(f.prec, 1)
	}
	digits := strconv.FormatFloat(math.Abs(x), lower, f.prec, 64)
	if math.IsInf(x, 0) || math.IsNaN(x) {
		digits = strings.TrimPrefix(strings.ToLower(digits), "+")
	}
	if verb != lower {
		digits = strings.ToUpper(digits)
	}
	return r.number(math.Signbit(x) && !math.IsNaN(x), digits, f)
}
