package reader

import (
	"bytes"
	"encoding/json"
	"strings"

	"runner/reasoning"
)

// JSONConfig says how to read the object of strategy json, in which the model puts its reasoning and its answer:
//
//	{"reasoning": string, "answer": string or any value, "score": number}
type JSONConfig struct {
	// RawAnswer sends the answer as the JSON text that the model wrote, for requests with their own schema. Without it,
	// a string is decoded and every other value is sent as JSON text.
	RawAnswer bool
}

// Object reads the object of strategy json, or the arguments of a call of report_reasoning, as they arrive (RFC 8259).
// It sends its values to the core's sink: strings decoded, other values as JSON text.
//
// It is lenient:
//
//   - Members come in any order and their names in any case. Commas may be missing or too many.
//   - Strings may contain raw control characters.
//   - A quote ends a string only if a next member or the object's end follows. So quotes that the model forgot to
//     escape stay text.
//   - An unknown escape is text, and half of a surrogate pair is U+FFFD.
//   - An unknown member is reasoning, as the JSON text of the whole member.
//
// The text between two values is the gap. Object holds back at most maxGap bytes of it until it knows that it is a gap,
// and then drops it. Values may nest without limit, because nesting costs only a counter.
type Object struct {
	s *Core
	// arguments says that a call's arguments are read. They have no answer, and text that is not an object is reasoning.
	arguments bool
	// muted says that nothing is sent, because the beginning is only looked at.
	muted bool
	// Known says that this is certain to be the object, for instance because one of its members has come. Text that
	// fails before that is not the object.
	Known bool
	// Place is where the reader of the object stands.
	Place place

	gap []byte
	// quoted says that the gap begins with a quote that may have ended a string.
	quoted bool
	key    int // the offset in the gap where the member's name begins
	// fenced says that the object is in a block of code.
	fenced bool
	seen   [numMembers]bool
	member member
	target reasoning.Segment

	high   rune // the first half of a surrogate pair, waiting for the second
	escape [6]byte
	nesc   int

	depth             int // in a value that is kept as JSON text
	begun             bool
	inString, escaped bool

	// Left is text that was taken before the object turned out to have ended or broken off. It is not part of the object.
	Left []byte
}

// place is a place in an object.
type place uint8

const (
	placeBefore place = iota // white space before the object
	placeFence               // the line that opens a block of code
	placeKey                 // before a member's name
	placeInKey
	placeKeyEscape
	placeColon  // before a member's colon
	placeValue  // before a member's value
	placeAfter  // after a value
	placeScalar // in a score, or in reasoning that is not a string
	placeString
	placeEscape
	placeRaw   // in a value that is kept as JSON text
	placePlain // in arguments that are not an object: everything is reasoning
	// PlaceOver is after the end of the object.
	PlaceOver
	placeBroken  // after the place where the object broke off
	placeRefused // in text that is not the object
)

type member uint8

const (
	memberReasoning member = iota
	memberAnswer
	memberScore
	memberOther
	numMembers
)

var memberNames = [...]string{memberReasoning: "reasoning", memberAnswer: "answer", memberScore: "score"}

// maxGap is the maximum bytes between two values, including a member's name. maxScalar is the maximum bytes of a score.
const (
	maxGap    = 1024
	maxScalar = 64
)

// Reset prepares for the next object, or with arguments for those of a call. If muted, nothing is sent.
func (r *Object) Reset(arguments, muted bool) {
	*r = Object{s: r.s, gap: r.gap[:0], Left: r.Left[:0], arguments: arguments, muted: muted,
		Known: arguments || !muted}
}

// Ended reports whether the object is over or broken off, or the text was never an object. No more text belongs to it.
func (r *Object) Ended() bool { return r.Place >= PlaceOver }

// Segment returns the segment of the next text. Between values it is Header.
func (r *Object) Segment() reasoning.Segment {
	switch r.Place {
	case placeString, placeEscape, placeRaw:
		return r.target
	case placePlain:
		return reasoning.Reasoning
	}
	return reasoning.Header
}

// Feed reads text and returns how many bytes it took. It takes all of them unless the object ends.
func (r *Object) Feed(text string) int {
	for i := 0; i < len(text); {
		switch r.Place {
		case placeString:
			i += r.stringText(text[i:])
		case placeEscape:
			i += r.escapeByte(text[i])
		case placeRaw:
			i += r.rawText(text[i:])
		case placePlain:
			r.Text(text[i:])
			return len(text)
		case PlaceOver, placeBroken, placeRefused:
			return i
		default:
			r.gapByte(text[i])
			i++
		}
	}
	return len(text)
}

// gapByte takes a byte between values.
func (r *Object) gapByte(c byte) {
	r.gap = append(r.gap, c)
	if len(r.gap) > maxGap {
		r.fail()
		return
	}
	switch r.Place {
	case placeBefore:
		switch {
		case c == '{':
			r.Place = placeKey
		case c == '`' && !r.arguments:
			r.Place, r.fenced = placeFence, true
		case !IsSpace(c):
			r.fail()
		}
	case placeFence:
		switch {
		case c == '{':
			r.Place = placeKey
		case IsSpace(c):
			r.Place = placeBefore
		case c != '`' && !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'):
			r.fail()
		}
	case placeKey, placeAfter:
		switch {
		case c == ',':
			r.Place = placeKey
		case c == '"':
			r.Place, r.key = placeInKey, len(r.gap)-1
		case c == '}':
			r.over()
		case !IsSpace(c):
			r.fail()
		}
	case placeInKey:
		switch c {
		case '"':
			r.Place = placeColon
		case '\\':
			r.Place = placeKeyEscape
		}
	case placeKeyEscape:
		r.Place = placeInKey
	case placeColon:
		if c == ':' {
			r.name()
		} else if !IsSpace(c) {
			r.fail()
		}
	case placeValue:
		if !IsSpace(c) {
			r.value(c)
		}
	case placeScalar:
		r.scalarByte(c)
	}
}

// fail takes text that cannot be a gap. Either its quote was text, or this is not the object, or the object breaks off.
func (r *Object) fail() {
	switch {
	case r.quoted:
		rest := string(r.gap[1:])
		r.gap, r.quoted, r.Place = r.gap[:0], false, placeString
		r.Text(`"`)
		n := r.Feed(rest)
		r.Left = append(r.Left, rest[n:]...)
	case !r.Known:
		r.Place = placeRefused
	case r.arguments:
		r.Warn(CodeMalformedObject)
		r.Plain()
		r.Text(string(r.gap))
	default:
		r.Warn(CodeMalformedObject)
		r.Left, r.Place = append(r.Left, r.gap...), placeBroken
	}
}

// Plain makes everything from here on reasoning.
func (r *Object) Plain() {
	r.Place = placePlain
	r.begin(reasoning.Reasoning)
}

// over ends the object.
func (r *Object) over() {
	if !r.Known {
		r.Place = placeRefused
		return
	}
	r.closeGap(len(r.gap))
	r.Place = PlaceOver
}

// closeGap drops the gap's first n bytes and keeps the rest. The value before the gap has ended.
func (r *Object) closeGap(n int) {
	if r.quoted {
		r.end()
		r.quoted = false
	}
	r.Drop(n)
	r.gap = append(r.gap[:0], r.gap[n:]...)
}

// name takes a member's name, which ends the gap.
func (r *Object) name() {
	r.member, r.Place = r.memberNamed(r.gap[r.key:]), placeValue
	if r.member != memberOther {
		r.Known = true
		r.closeGap(len(r.gap))
		if r.seen[r.member] {
			r.Warn(CodeMalformedObject)
		}
		r.seen[r.member] = true
		return
	}
	r.closeGap(r.key)
	r.seen[memberOther] = true
	r.other()
}

// other sends the gap as the beginning of an unknown member.
func (r *Object) other() {
	r.Warn(CodeUnknownMember)
	r.begin(reasoning.Reasoning)
	r.Text(string(r.gap))
	r.gap = r.gap[:0]
}

// memberNamed returns the member whose name, as JSON text, begins text.
func (r *Object) memberNamed(text []byte) member {
	name := text[1:bytes.LastIndexByte(text, '"')]
	if bytes.IndexByte(name, '\\') >= 0 {
		var decoded string
		if json.Unmarshal(text[:len(name)+2], &decoded) != nil {
			return memberOther
		}
		name = []byte(decoded)
	}
	for m, known := range memberNames {
		if strings.EqualFold(string(name), known) && !(r.arguments && member(m) == memberAnswer) {
			return member(m)
		}
	}
	return memberOther
}

// value takes the first byte of a member's value, which ends the gap.
func (r *Object) value(c byte) {
	if c == ',' || c == '}' { // the value is missing
		if r.member == memberOther {
			r.end()
		}
		r.Place = placeKey
		if c == '}' {
			r.over()
		}
		return
	}
	if r.member == memberOther {
		r.Text(string(r.gap[:len(r.gap)-1]))
		r.raw(c)
		return
	}
	r.Drop(len(r.gap) - 1)
	switch {
	case r.member == memberAnswer && (c != '"' || r.s.Cfg.JSON.RawAnswer):
		r.begin(reasoning.Answer)
		r.raw(c)
	case r.member == memberAnswer:
		r.begin(reasoning.Answer)
		r.string()
	case r.member == memberReasoning && c == '"':
		r.begin(reasoning.Reasoning)
		r.string()
	case c == '"' || c == '{' || c == '[':
		r.Warn(CodeMalformedObject)
		r.begin(reasoning.Reasoning)
		r.raw(c)
	default:
		r.gap, r.Place = append(r.gap[:0], c), placeScalar
	}
}

// Finish ends the object where the output ends.
func (r *Object) Finish() {
	switch r.Place {
	case PlaceOver, placeBroken, placeRefused, placePlain:
		r.end()
		return
	case placeEscape:
		r.badEscape()
	case placeScalar:
		r.settle(false)
	}
	r.loneHalf()
	r.end()
	if r.inName() && !beginsMember(r.gap[r.key:]) {
		r.Drop(r.key)
		r.gap = append(r.gap[:0], r.gap[r.key:]...)
		r.other()
		r.end()
	} else {
		r.Drop(len(r.gap))
	}
	r.gap, r.quoted, r.Place = r.gap[:0], false, PlaceOver
	r.Warn(CodeUnfinishedObject)
}

// CutShort reports whether all of the text so far is the beginning of an object and none of it is worth showing.
func (r *Object) CutShort() bool {
	return !r.seen[memberOther] && (r.Place == placeKey || r.inName() && beginsMember(r.gap[r.key:]))
}

func (r *Object) inName() bool {
	return r.Place == placeInKey || r.Place == placeKeyEscape || r.Place == placeColon
}

// beginsMember reports whether text, from a quote on, is the beginning of a known member's name.
func beginsMember(text []byte) bool {
	name, _, _ := bytes.Cut(text[1:], []byte{'"'})
	for _, known := range memberNames {
		if len(name) <= len(known) && strings.EqualFold(string(name), known[:len(name)]) {
			return true
		}
	}
	return false
}

// Closing returns the text that would end the reasoning here and lead to the answer. It returns false outside of
// reasoning and in the middle of a character.
func (r *Object) Closing() (string, bool) {
	switch {
	case r.Place != placeString || r.target != reasoning.Reasoning || r.high != 0 || r.s.Out.nheld > 0:
		return "", false
	case r.arguments || r.seen[memberAnswer]:
		return `"}`, true
	case r.s.Cfg.JSON.RawAnswer:
		return `", "answer":`, true
	}
	return `", "answer": "`, true
}

// After returns how many of the first bytes of text are white space or the end of the block of code around the object.
func (r *Object) After(text string) int {
	for i := range len(text) {
		if !IsSpace(text[i]) && !(r.fenced && text[i] == '`') {
			return i
		}
	}
	return len(text)
}

// The methods below send nothing if the object is muted.

func (r *Object) begin(seg reasoning.Segment) {
	r.target = seg
	switch {
	case r.muted:
	case seg == reasoning.Answer:
		r.target = r.s.Shown
		r.s.Out.Begin(r.s.Shown, reasoning.Call{})
	case r.arguments:
		r.s.Out.Reason(reasoning.StrategyTool)
	default:
		r.s.Out.Reason(reasoning.StrategyJSON)
	}
}

// Text adds text to the open segment.
func (r *Object) Text(text string) {
	if !r.muted {
		r.s.Out.Text(text)
	}
}

func (r *Object) end() {
	if !r.muted {
		r.s.Out.End()
	}
}

// Drop skips n bytes of output that are not text of a segment.
func (r *Object) Drop(n int) {
	if !r.muted {
		r.s.Out.Drop(n, UseForeign)
	}
}

// Warn sends the warning with a code, once a turn.
func (r *Object) Warn(code string) {
	if !r.muted {
		r.s.Warn(code)
	}
}
