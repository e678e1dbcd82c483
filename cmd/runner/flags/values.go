package flags

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// value is the value of a flag. The error of parse says what to use instead.
type value[T any] struct {
	to    *T
	kind  string
	parse func(text string) (T, error)
	show  func(T) string
}

func (v *value[T]) Set(text string) error {
	x, err := v.parse(text)
	if err == nil {
		*v.to = x
	}
	return err
}

func (v *value[T]) String() string { return v.show(*v.to) }
func (v *value[T]) Type() string   { return v.kind }

// list is the value of a flag that may be repeated. Its first value replaces the default.
type list[T any] struct {
	value[T]
	all   *[]T
	given bool
	// commas says that commas separate values.
	commas bool
}

func (l *list[T]) Set(text string) error {
	if !l.given {
		*l.all, l.given = []T{}, true
	}
	return l.Append(text)
}

// Append, Replace and GetSlice are those of pflag.SliceValue.
func (l *list[T]) Append(text string) error {
	parts := []string{text}
	switch {
	case l.commas && text == "":
		parts = nil
	case l.commas:
		parts = strings.Split(text, ",")
	}
	for _, part := range parts {
		x, err := l.parse(part)
		if err != nil {
			return err
		}
		*l.all = append(*l.all, x)
	}
	return nil
}

func (l *list[T]) Replace(texts []string) error {
	*l.all, l.given = []T{}, true
	for _, text := range texts {
		if err := l.Append(text); err != nil {
			return err
		}
	}
	return nil
}

func (l *list[T]) GetSlice() (texts []string) {
	for _, x := range *l.all {
		texts = append(texts, l.show(x))
	}
	return texts
}

func (l *list[T]) String() string { return strings.Join(l.GetSlice(), ",") }

// Type ends in Slice, so that cobra still completes a flag that was given.
func (l *list[T]) Type() string { return l.kind + "Slice" }

// one returns the table of a flag with one value.
func one[T any](name string, to *T, usual T, v value[T], usage string, marks []Mark) Table {
	*to, v.to = usual, to
	return Table{name: name, usage: usage, value: &v}.With(marks...)
}

// many returns the table of a flag that may be repeated.
func many[T any](name string, to *[]T, v value[T], commas bool, usage string, marks []Mark) Table {
	return Table{name: name, usage: usage, value: &list[T]{value: v, all: to, commas: commas}}.With(marks...)
}

// Each returns a flag with a value of its own kind that may be repeated. The error of parse says what to use instead.
func Each[T any](name string, to *[]T, parse func(text string) (T, error), show func(T) string, usage string,
	marks ...Mark) Table {
	return many(name, to, value[T]{parse: parse, show: show}, false, usage, marks)
}

// text is a value that is any text.
var text = value[string]{kind: "string", parse: func(text string) (string, error) { return text, nil },
	show: func(text string) string { return text }}

// refused is the error of a value. It says what to use instead.
func refused(format string, args ...any) error { return fmt.Errorf("use "+format, args...) }

// Text returns a flag with a text. Without [Usual] its default is empty.
func Text(name string, to *string, usage string, marks ...Mark) Table {
	return one(name, to, "", text, usage, marks)
}

// Usual is the default of a flag with a text.
func Usual(text string) Mark { return func(t *Table) { _ = t.value.Set(text) } } // any text can be set

// Texts returns a flag with a text that may be repeated.
func Texts(name string, to *[]string, usage string, marks ...Mark) Table {
	return many(name, to, text, false, usage, marks)
}

// Words returns a flag with texts that commas separate. It may be repeated.
func Words(name string, to *[]string, usage string, marks ...Mark) Table {
	return many(name, to, text, true, usage, marks)
}

// Some returns a flag with some of several values, which commas separate. It may be repeated.
func Some[T ~string](name string, to *[]T, values []T, usage string, marks ...Mark) Table {
	v := among(namesOf(values), values, "some of "+strings.Join(namesOf(values), ", "))
	return many(name, to, v, true, usage, append(marks, Completions(namesOf(values)...)))
}

// switchType is the type of switches, for which pflag shows no value.
const switchType = "bool"

// Switch returns a flag that is on or off.
func Switch(name string, to *bool, usage string, marks ...Mark) Table {
	return one(name, to, false, value[bool]{kind: switchType, show: strconv.FormatBool, parse: func(text string) (bool,
		error) {
		on, err := strconv.ParseBool(text)
		if err != nil {
			err = refused("true or false")
		}
		return on, err
	}}, usage, marks)
}

var errOutOfRange = errors.New("the number is out of range")

// whole returns a value that is a whole number in a range.
func whole(least, most int) value[int] {
	return value[int]{kind: "int", show: strconv.Itoa, parse: func(text string) (int, error) {
		n, err := strconv.ParseInt(text, 0, strconv.IntSize)
		switch {
		case err != nil && !errors.Is(err, strconv.ErrRange):
			err = refused("a whole number")
		case err != nil && most == math.MaxInt:
			err = errOutOfRange
		case int(n) < least && most >= math.MaxInt32:
			err = refused("%d or more", least)
		case int(n) < least || int(n) > most:
			err = refused("%d to %d", least, most)
		}
		return int(n), err
	}}
}

// Int returns a flag with a whole number from least to most. Write math.MaxInt for any size.
func Int(name string, to *int, usual, least, most int, usage string, marks ...Mark) Table {
	return one(name, to, usual, whole(least, most), usage, marks)
}

// Ints returns a flag with whole numbers that commas separate. It may be repeated.
func Ints(name string, to *[]int, usual []int, least, most int, usage string, marks ...Mark) Table {
	*to = usual
	return many(name, to, whole(least, most), true, usage, marks)
}

// Seed returns a flag with a number of 64 bits.
func Seed(name string, to *uint64, usage string, marks ...Mark) Table {
	return one(name, to, 0, value[uint64]{kind: "uint64", parse: func(text string) (uint64, error) {
		n, err := strconv.ParseUint(text, 0, 64)
		return n, numeric(err, "a whole number, 0 or more")
	}, show: func(n uint64) string { return strconv.FormatUint(n, 10) }}, usage, marks)
}

// Float returns a flag with a number.
func Float(name string, to *float32, usual float32, usage string, marks ...Mark) Table {
	return one(name, to, usual, value[float32]{kind: "float32", parse: func(text string) (float32, error) {
		x, err := strconv.ParseFloat(text, 32)
		return float32(x), numeric(err, "a number")
	}, show: func(x float32) string { return strconv.FormatFloat(float64(x), 'g', -1, 32) }}, usage, marks)
}

// numeric returns the error of a text that is no number of a kind.
func numeric(err error, kind string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, strconv.ErrRange):
		return errOutOfRange
	}
	return refused("%s", kind)
}

// among returns a value that is one of several. Each of names stands for the value at the same index.
func among[T comparable](names []string, values []T, instead string) value[T] {
	return value[T]{kind: strings.Join(names, "|"), parse: func(text string) (x T, err error) {
		i := slices.Index(names, text)
		if i < 0 {
			return x, refused("%s", instead)
		}
		return values[i], nil
	}, show: func(x T) string {
		if i := slices.Index(values, x); i >= 0 {
			return names[i]
		}
		return ""
	}}
}

// Choice returns a flag with named values: each of names stands for the value at the same index.
func Choice[T comparable](name string, to *T, usual T, names []string, values []T, usage string, marks ...Mark) Table {
	return one(name, to, usual, among(names, values, Alternatives(names)), usage, append(marks, Completions(names...)))
}

// Name is Choice for texts that name themselves. The first is the default.
func Name[T ~string](name string, to *T, values []T, usage string, marks ...Mark) Table {
	return Choice(name, to, values[0], namesOf(values), values, usage, marks...)
}

func namesOf[T ~string](values []T) []string {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = string(v)
	}
	return names
}

// Alternatives lists names as "a, b or c".
func Alternatives(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Forever is the longest time.
const Forever time.Duration = math.MaxInt64

// Time returns a flag with a time from least to most.
func Time(name string, to *time.Duration, usual, least, most time.Duration, usage string, marks ...Mark) Table {
	return one(name, to, usual, value[time.Duration]{kind: "duration", parse: func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		switch {
		case err != nil:
			err = refused("a time, as in 30s or 5m")
		case most < Forever && (d < least || d > most):
			err = refused("%s to %s", timeText(least), timeText(most))
		case d < least:
			err = refused("%s or more, as in 30s", timeText(least))
		}
		return d, err
	}, show: timeText}, usage, marks)
}

// timeText leaves out what Go adds to a time: 24h0m0s is 24h.
func timeText(d time.Duration) string {
	text := d.String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}

// Age returns a flag with a time of least or more, which may be a whole number of days, as in 30d. A negative one
// stands for none.
func Age(name string, to *time.Duration, least time.Duration, usage string, marks ...Mark) Table {
	return one(name, to, -1, value[time.Duration]{kind: "AGE", parse: func(text string) (time.Duration, error) {
		age, err := time.ParseDuration(text)
		if days, ok := strings.CutSuffix(text, "d"); ok {
			var n uint64
			n, err = strconv.ParseUint(days, 10, 16)
			age = time.Duration(n) * 24 * time.Hour
		}
		if err != nil || age < least {
			err = refused("an age, as in 30d or 12h")
		}
		return age, err
	}, show: func(age time.Duration) string {
		if age < 0 {
			return ""
		}
		return timeText(age)
	}}, usage, marks)
}

// Size returns a flag with a number of bytes, as in 512, 64MB or 1.5GiB: at least least, or the usual number.
func Size(name string, to *int64, usual, least int64, usage string, marks ...Mark) Table {
	return one(name, to, usual, value[int64]{kind: "BYTES", show: sizeText, parse: func(text string) (int64, error) {
		n, err := parseSize(text)
		switch {
		case err != nil || n >= least || n == usual:
		case usual < least:
			err = refused("%s or more, or %s", sizeText(least), sizeText(usual))
		default:
			err = refused("%s or more", sizeText(least))
		}
		return n, err
	}}, usage, marks)
}

// units are the names of sizes. The single letter comes last, because the other names end in it.
var units = []struct {
	name string
	size float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9},
	{"TB", 1e12}, {"B", 1}}

func parseSize(text string) (int64, error) {
	number, unit := strings.TrimSpace(text), 1.0
	for _, u := range units {
		if len(number) > len(u.name) && strings.EqualFold(number[len(number)-len(u.name):], u.name) {
			number, unit = strings.TrimSpace(number[:len(number)-len(u.name)]), u.size
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if bytes := n * unit; err != nil || n < 0 || bytes > 0 && bytes < 1 || bytes >= math.MaxInt64 || math.IsNaN(n) {
		return 0, refused("a number of bytes, as in 64MB or 1.5GiB")
	}
	return int64(n * unit), nil
}

// sizeText returns the shortest spelling that means the same number.
func sizeText(bytes int64) string {
	best := strconv.FormatInt(bytes, 10)
	for _, u := range units {
		if n := float64(bytes) / u.size; n >= 1 && n == math.Trunc(n) {
			if text := strconv.FormatFloat(n, 'f', 0, 64) + u.name; len(text) < len(best) {
				best = text
			}
		}
	}
	return best
}
