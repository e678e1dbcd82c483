package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"runner/chattemplate/jinja/origin"
)

// strftime formats the render's time as Python's strftime does in the C locale. A value has the origin of its
// directive. Unknown directives stay as they are.
func (r *render) strftime(format Text) Text {
	var b origin.Builder
	s := format.String()
	for i := 0; i < len(s); {
		if s[i] != '%' || i+1 >= len(s) {
			b.AddText(format.Slice(i, i+1))
			i++
			continue
		}
		n := 1
		flag := byte(0)
		if strings.IndexByte("-_0^#", s[i+1]) >= 0 && i+2 < len(s) {
			flag = s[i+1]
			n = 2
		}
		v, ok := directive(s[i+n], r.now)
		if !ok {
			_, w := utf8.DecodeRuneInString(s[i+n:])
			b.AddText(format.Slice(i, i+n+w))
			i += n + w
			continue
		}
		b.Add(applyFlag(flag, v), format.OriginAt(i)&format.OriginAt(i+n))
		i += n + 1
		r.made(b.Len())
	}
	return b.Text()
}

// applyFlag changes the padding or the case of a value, as glibc does.
func applyFlag(flag byte, v string) string {
	if v == "" {
		return v
	}
	switch flag {
	case '-':
		return strings.TrimLeft(v[:len(v)-1], "0 ") + v[len(v)-1:]
	case '_':
		t := strings.TrimLeft(v[:len(v)-1], "0")
		return strings.Repeat(" ", len(v)-1-len(t)) + t + v[len(v)-1:]
	case '0':
		t := strings.TrimLeft(v, " ")
		return strings.Repeat("0", len(v)-len(t)) + t
	case '^':
		return strings.ToUpper(v)
	case '#':
		if strings.ToUpper(v) == v {
			return strings.ToLower(v)
		}
		return strings.ToUpper(v)
	}
	return v
}

// directive returns the value of one directive letter.
func directive(c byte, t time.Time) (string, bool) {
	two := func(n int) (string, bool) { return fmt.Sprintf("%02d", n), true }
	hour12 := (t.Hour()+11)%12 + 1
	switch c {
	case 'a':
		return t.Format("Mon"), true
	case 'A':
		return t.Format("Monday"), true
	case 'b', 'h':
		return t.Format("Jan"), true
	case 'B':
		return t.Format("January"), true
	case 'c':
		return t.Format("Mon Jan _2 15:04:05 2006"), true
	case 'C':
		return two(t.Year() / 100)
	case 'd':
		return two(t.Day())
	case 'D', 'x':
		return t.Format("01/02/06"), true
	case 'e':
		return fmt.Sprintf("%2d", t.Day()), true
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 'F':
		return t.Format("2006-01-02"), true
	case 'g':
		y, _ := t.ISOWeek()
		return two(y % 100)
	case 'G':
		y, _ := t.ISOWeek()
		return strconv.Itoa(y), true
	case 'H':
		return two(t.Hour())
	case 'I':
		return two(hour12)
	case 'j':
		return fmt.Sprintf("%03d", t.YearDay()), true
	case 'k':
		return fmt.Sprintf("%2d", t.Hour()), true
	case 'l':
		return fmt.Sprintf("%2d", hour12), true
	case 'm':
		return two(int(t.Month()))
	case 'M':
		return two(t.Minute())
	case 'n':
		return "\n", true
	case 'p':
		return t.Format("PM"), true
	case 'P':
		return t.Format("pm"), true
	case 'r':
		return t.Format("03:04:05 PM"), true
	case 'R':
		return t.Format("15:04"), true
	case 's':
		return strconv.FormatInt(t.Unix(), 10), true
	case 'S':
		return two(t.Second())
	case 't':
		return "\t", true
	case 'T', 'X':
		return t.Format("15:04:05"), true
	case 'u':
		return strconv.Itoa((int(t.Weekday())+6)%7 + 1), true
	case 'U':
		return two((t.YearDay() + 6 - int(t.Weekday())) / 7)
	case 'V':
		_, w := t.ISOWeek()
		return two(w)
	case 'w':
		return strconv.Itoa(int(t.Weekday())), true
	case 'W':
		return two((t.YearDay() + 6 - (int(t.Weekday())+6)%7) / 7)
	case 'y':
		return two(t.Year() % 100)
	case 'Y':
		return strconv.Itoa(t.Year()), true
	case 'z', 'Z':
		// Python's datetime.now() has no time zone.
		return "", true
	case '%':
		return "%", true
	}
	return "", false
}
