package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"runner/chattemplate/jinja/origin"
)

// strftime formats the render's time as Python's strftime does in the C locale. A value has the origin of its
// directive. It knows the directives of dates and times, and the flags - (no padding) and ^ (upper case).
func (r *render) strftime(format Text) Text {
	var b origin.Builder
	s := format.String()
	for i := 0; i < len(s); i++ {
		if s[i] != '%' || i+1 >= len(s) {
			b.AddText(format.Slice(i, i+1))
			continue
		}
		o := format.OriginAt(i)
		i++
		flag := s[i]
		if (flag == '-' || flag == '^') && i+1 < len(s) {
			i++
		}
		v, ok := directive(s[i], r.now)
		switch {
		case !ok:
			r.typeError("strftime_now() has no directive %s", r.quote(text(format.Slice(i, i+1))))
		case v != "" && flag == '-':
			v = strings.TrimLeft(v[:len(v)-1], "0 ") + v[len(v)-1:]
		case flag == '^':
			v = strings.ToUpper(v)
		}
		b.Add(v, o&format.OriginAt(i))
		r.made(b.Len())
	}
	return b.Text()
}

// layouts are the directives that package time has a layout for.
var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'c': "Mon Jan _2 15:04:05 2006", 'd': "02", 'D': "01/02/06",
	'e': "_2", 'F': "2006-01-02", 'h': "Jan", 'H': "15", 'I': "03", 'j': "002", 'm': "01", 'M': "04", 'p': "PM",
	'P': "pm", 'r': "03:04:05 PM", 'R': "15:04", 'S': "05", 'T': "15:04:05", 'x': "01/02/06", 'X': "15:04:05", 'y': "06",
	'Y': "2006",
}

// directive returns the value of one directive letter.
func directive(c byte, t time.Time) (string, bool) {
	if layout, ok := layouts[c]; ok {
		return t.Format(layout), true
	}
	year, week := t.ISOWeek()
	switch c {
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 'G':
		return strconv.Itoa(year), true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case 'u':
		return strconv.Itoa((int(t.Weekday())+6)%7 + 1), true
	case 'V':
		return fmt.Sprintf("%02d", week), true
	case 'w':
		return strconv.Itoa(int(t.Weekday())), true
	case 'z', 'Z':
		return "", true // Python's datetime.now() has no time zone
	case '%':
		return "%", true
	}
	return "", false
}
