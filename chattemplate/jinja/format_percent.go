package jinja

import (
	"math"
	"math/big"
	"strings"
	"unicode/utf8"

	"runner/chattemplate/jinja/origin"
)

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
		key := p.s.Slice(i+1, end-1)
		if keyed = d.getStr(key.String()); keyed == nil {
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
		p.b.Add("%", p.s.OriginAt(start))
		return i
	}
	if strings.IndexByte("diuoxXeEfFgGcrsa", verb) < 0 {
		r.typeError("unsupported format character at index %d", origin.RuneCount(s[:i-1]))
	}
	v := keyed
	if v == nil {
		v = p.arg()
	}
	p.b.AddText(p.convert(v, verb, f))
	return i
}

func (p *percentFormat) convert(v Value, verb byte, f spec) Text {
	r := p.r
	f.verb = verb
	switch verb {
	case 's', 'r', 'a':
		return r.formatStr(p.shown(v, verb), f)
	case 'c':
		if s, ok := v.(*strValue); ok && origin.RuneCount(s.String()) == 1 {
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

// shown returns str, repr or ascii of a value, escaped if the format is markup.
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
