package jsontext

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"runner/grammar/expr"
	"runner/grammar/regex"
)

// format is a named format: the strings that pattern matches from start to end with at most most characters. 0 means no
// limit. If head is set, a text that head matches, of at most headMost characters, comes first.
type format struct {
	pattern  string
	most     int
	head     string
	headMost int

	read, count sync.Once
	is          condition
	automaton   *expr.Automaton
	err         error
}

func (f *format) condition() condition {
	f.read.Do(func() {
		f.is = condition{r: regex.MustParse(f.pattern), full: true, most: f.headMost}
		if f.head != "" {
			f.is.head = regex.MustParse(f.head)
		}
	})
	return f.is
}

// counted returns the automaton of the format without its limit. It is cached because it may take some milliseconds to
// make.
func (f *format) counted() (*expr.Automaton, error) {
	f.count.Do(func() {
		build := func(s *expr.Set) expr.ID { return f.condition().build(s, regex.JSONString) }
		f.automaton, f.err = expr.DeterminizeText(context.Background(), build, anyChar, maxStates)
	})
	return f.automaton, f.err
}

func anyChar(s *expr.Set) expr.ID { return regex.Any(s, regex.JSONString) }

// SupportedFormat reports whether a format is enforced. Other formats are annotations.
func SupportedFormat(name string) bool { return formats[name] != nil }

// The patterns follow the definitions of the formats, narrowed to what validators agree on: dates and times as in RFC
// 3339, section 5.6, durations as in its appendix A, e-mail addresses as the dot-atoms and quoted strings of RFC 5322
// with the lengths of RFC 5321, host names as in RFC 1123, addresses as in RFC 3986, section 3.2.2, UUIDs as in RFC
// 4122, and pointers as in RFC 6901.
const (
	year     = `\d{4}`
	leapYear = `(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)`
	date     = `(?:` + year +
		`-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))|` +
		leapYear + `-02-29)`
	hourMin   = `(?:[01]\d|2[0-3]):[0-5]\d`
	plainTime = hourMin + `:[0-5]\d(?:\.\d+)?(?:[Zz]|[+-]` + hourMin + `)`

	days     = `(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)`
	clock    = `T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)`
	duration = `P(?:\d+W|` + days + `(?:` + clock + `)?|` + clock + `)`

	hex   = `[0-9A-Fa-f]`
	octet = `(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
	ipv4  = octet + `(?:\.` + octet + `){3}`
	group = hex + `{1,4}`

	label    = `[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?`
	hostname = label + `(?:\.` + label + `)*`

	atom  = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
	local = `(?:` + atom + `(?:\.` + atom + `)*|"(?:[ !#-\[\]-~]|\\[ -~])+")`

	pointer = `(?:/(?:[^/~]|~[01])*)*`
)

// ipv6 has an alternative for each number of groups after the double colon.
var ipv6 = func() string {
	last := `(?:` + group + `:` + group + `|` + ipv4 + `)`
	return `(?:` + strings.Join([]string{
		`(?:` + group + `:){6}` + last,
		`::(?:` + group + `:){5}` + last,
		`(?:` + group + `)?::(?:` + group + `:){4}` + last,
		`(?:(?:` + group + `:){0,1}` + group + `)?::(?:` + group + `:){3}` + last,
		`(?:(?:` + group + `:){0,2}` + group + `)?::(?:` + group + `:){2}` + last,
		`(?:(?:` + group + `:){0,3}` + group + `)?::` + group + `:` + last,
		`(?:(?:` + group + `:){0,4}` + group + `)?::` + last,
		`(?:(?:` + group + `:){0,5}` + group + `)?::` + group,
		`(?:(?:` + group + `:){0,6}` + group + `)?::`,
	}, `|`) + `)`
}()

// leapTime matches the times with second 60: at the end of a day in UTC, at offsets of whole and half hours.
var leapTime = func() string {
	var hours []string
	for h := range 24 {
		whole := fmt.Sprintf(`59:60(?:\.\d+)?(?:\+%02d:00|-%02d:00`, (h+1)%24, 23-h)
		if h == 23 {
			whole += `|[Zz]`
		}
		hours = append(hours, fmt.Sprintf(`%02d:(?:29:60(?:\.\d+)?(?:\+%02d:30|-%02d:30)|%s))`, h, h, 23-h, whole))
	}
	return `(?:` + strings.Join(hours, `|`) + `)`
}()

var (
	dayTime  = `(?:` + plainTime + `|` + leapTime + `)`
	dateTime = date + `[Tt]` + dayTime
)

// reference holds the parts of a URI (RFC 3986) or IRI (RFC 3987). wide holds the characters beyond ASCII.
type reference struct{ wide string }

const escaped = `%` + hex + hex

func (r reference) char(more string) string {
	return `(?:[A-Za-z0-9._~!$&'()*+,;=` + r.wide + more + `-]|` + escaped + `)`
}

func (r reference) authority() string {
	user := `(?:` + reference{}.char(":") + `*@)?`
	// Go's parser accepts no escapes of ASCII characters in a host.
	name := `(?:[A-Za-z0-9._~!$&'()*+,;=` + r.wide + `-]|%[89A-Fa-f]` + hex + `)*`
	return `//` + user + `(?:\[` + ipv6 + `\]|` + name + `)(?::\d*)?`
}

func (r reference) after() string {
	more := r.char(`:@/?`) + `*`
	return `(?:\?` + more + `)?(?:#` + more + `)?`
}

func (r reference) absolute() string {
	c := r.char(`:@`)
	rest := `(?:/` + c + `*)*`
	return `[A-Za-z][A-Za-z0-9+.-]*:(?:` + r.authority() + rest + `|/(?:` + c + `+` + rest + `)?|(?:` + c + `+` + rest +
		`)?)` + r.after()
}

func (r reference) relative() string {
	c := r.char(`:@`)
	rest := `(?:/` + c + `*)*`
	return `(?:` + r.authority() + rest + `|/(?:` + c + `+` + rest + `)?|(?:` + r.char(`@`) + `+` + rest +
		`)?)` + r.after()
}

var (
	uri = reference{}
	iri = reference{wide: func() string {
		wide := `\u{a0}-\u{d7ff}\u{f900}-\u{fdcf}\u{fdf0}-\u{ffef}`
		for plane := 1; plane <= 13; plane++ {
			wide += fmt.Sprintf(`\u{%x0000}-\u{%xfffd}`, plane, plane)
		}
		return wide + `\u{e1000}-\u{efffd}`
	}()}
)

// uriTemplate matches URI templates (RFC 6570) whose expressions are in the path and do not expand to slashes, queries
// or fragments.
var uriTemplate = func() string {
	variable := `(?:[A-Za-z0-9_]|` + escaped + `)+(?:\.(?:[A-Za-z0-9_]|` + escaped + `)+)*`
	list := func(variable string) string { return `\{[+.;&]?` + variable + `(?:,` + variable + `)*\}` }
	first := `(?:` + uri.char(`@`) + `|` + list(variable+`\*?`) + `)`
	c := `(?:` + uri.char(`:@`) + `|` + list(variable+`(?:\*|:[1-9]\d{0,3})?`) + `)`
	rest := `(?:/` + c + `*)*`
	return `(?:(?:[A-Za-z][A-Za-z0-9+.-]*:)?` + uri.authority() + rest + `|[A-Za-z][A-Za-z0-9+.-]*:/` + c + `+` + rest +
		`|/(?:` + c + `+` + rest + `)?|(?:` + first + `+` + rest + `)?)` + uri.after()
}()

// safePattern matches the patterns that ECMA-262 and RE2 read alike, with groups nested up to three deep and counts
// only on single atoms.
var safePattern = func() string {
	var ranges []string
	for _, of := range []string{"az", "AZ", "09"} {
		for b := of[0]; b <= of[1]; b++ {
			ranges = append(ranges, fmt.Sprintf(`%c-[%c-%c]`, b, b, of[1]))
		}
	}
	const escape = `\\(?:[dDwWsSnrtfv^$\\.*+?()\[\]{}|/-]|x` + hex + hex + `)`
	member := `(?:` + strings.Join(ranges, `|`) + `|[^\\\[\]^\n\r\u2028\u2029-]|` + escape + `)`
	class := `\[\^?` + member + `+-?\]`
	// Of two counts, the second is larger in the first digit that differs, or has more digits.
	pairs := []string{`\d{1,3},?`, `\d,[1-9]\d{1,2}`, `[1-9]\d,[1-9]\d\d`}
	for d := range 10 {
		pairs = append(pairs, fmt.Sprintf(`%d,[%d-9]`, d, d))
		if d > 0 && d < 9 {
			pairs = append(pairs, fmt.Sprintf(`%d\d,[%d-9]\d`, d, d+1))
		}
	}
	counts := `\{(?:` + strings.Join(pairs, `|`) + `)\}`
	single := `(?:[^\\^$.*+?()\[\]{}|\n\r\u2028\u2029]|\.|` + escape + `|` + class + `)(?:(?:[*+?]|` + counts +
		`)\??)?|[$^]|\\[bB]`
	p := `(?:` + single + `|\|)*`
	for range 3 {
		p = `(?:` + single + `|\||\((?:\?:)?` + p + `\)(?:[*+?]\??)?)*`
	}
	return p
}()

var formats = map[string]*format{
	"date":      {pattern: date},
	"time":      {pattern: dayTime},
	"date-time": {pattern: dateTime},
	"duration":  {pattern: duration},
	"period":    {pattern: dateTime + `/(?:` + dateTime + `|` + duration + `)|` + duration + `/` + dateTime},
	"uuid":      {pattern: hex + `{8}-` + hex + `{4}-` + hex + `{4}-` + hex + `{4}-` + hex + `{12}`},
	"email": {head: local, headMost: 64, pattern: `@(?:` + hostname + `|\[(?:` + ipv4 + `|IPv6:` + ipv6 +
		`)\])`, most: 254},
	"hostname":              {pattern: hostname, most: 253},
	"ipv4":                  {pattern: ipv4},
	"ip-address":            {pattern: ipv4},
	"ipv6":                  {pattern: ipv6},
	"uri":                   {pattern: uri.absolute()},
	"uri-reference":         {pattern: uri.absolute() + `|` + uri.relative()},
	"uriref":                {pattern: uri.absolute() + `|` + uri.relative()},
	"iri":                   {pattern: iri.absolute()},
	"iri-reference":         {pattern: iri.absolute() + `|` + iri.relative()},
	"uri-template":          {pattern: uriTemplate},
	"json-pointer":          {pattern: pointer},
	"relative-json-pointer": {pattern: `(?:0|[1-9]\d*)(?:#|` + pointer + `)`},
	"regex":                 {pattern: safePattern},
}
