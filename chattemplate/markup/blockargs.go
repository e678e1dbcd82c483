package markup

import (
	"bytes"
	"encoding/json"
	"slices"

	"runner/chattemplate/reader"
)

// argumentReader follows the arguments of a call.
type argumentReader struct {
	// function is the function that is called. stop is the mark that ends a value, or arguments that are not JSON.
	function, stop string
	// depth, quoted and escaped say where in the JSON the reader stands. The object ends when depth is 0 again.
	depth           int
	quoted, escaped bool
	// over says that the object around the arguments is complete or not JSON.
	over bool
	// The rest is for arguments that are written one by one. count is how many have come. text says that the current one
	// is a string, and begun that its value has begun.
	count       int
	text, begun bool
}

// next takes a byte of a JSON object. It returns matchYes if the object is complete and matchNo if it is not JSON. It
// checks only what it takes to find the end of the object.
func (a *argumentReader) next(c byte) matched {
	switch {
	case a.quoted && a.escaped:
		a.escaped = false
	case a.quoted && c == '\\':
		a.escaped = true
	case c == '"':
		a.quoted = !a.quoted
	case c < ' ' && (a.quoted || !reader.IsSpace(c)):
		return matchNo
	case a.quoted:
	case c == '{' || c == '[':
		a.depth++
	case c == '}' || c == ']':
		if a.depth--; a.depth == 0 {
			return matchYes
		}
	case !reader.IsSpace(c) && !inScalar(c) && c != ',' && c != ':':
		return matchNo
	}
	return matchWait
}

// inScalar reports whether c may be part of a number, true, false or null.
func inScalar(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == '+' || c == '-' || c == '.' || c == 'E'
}

// leave goes from the arguments, complete or not, to the object around them.
func (a *argumentReader) leave() { a.depth, a.quoted, a.escaped = 1, false, false }

// restOfObject takes a byte after the arguments, where the call is a JSON object itself.
func (a *argumentReader) restOfObject(c byte) matched {
	r := a.next(c)
	a.over = r == matchNo
	return r
}

// send sends text of the arguments. Its bytes must have left the ledger.
func (b *block) send(text string) {
	if text == "" {
		return
	}
	b.untracked(func() {
		if b.report {
			b.core.Object.Feed(text)
		} else {
			b.core.Out.Text(text)
		}
	})
}

// untracked runs send with the ledger off, for text whose bytes have left it before.
func (b *block) untracked(send func()) {
	ledger := &b.core.Out.Ledger
	on := ledger.On
	ledger.On = false
	send()
	ledger.On = on
}

// sendBytes is send for bytes.
func (b *block) sendBytes(text []byte) {
	if len(text) > 0 {
		b.send(b.core.Out.Keep(text))
	}
}

// endReport ends a call of report_reasoning.
func (b *block) endReport() {
	if !b.report {
		return
	}
	b.report = false
	b.untracked(b.core.EndReport)
}

// objectArguments takes text of arguments that are a JSON object. It returns how many bytes it took.
func (b *block) objectArguments(text string) int {
	a := &b.args
	n, r := 0, matchWait
	for n < len(text) && r == matchWait {
		if r = a.next(text[n]); r != matchNo {
			n++
		}
	}
	b.core.Out.Drop(n, reader.UseForeign)
	b.send(text[:n])
	switch r {
	case matchYes:
		b.endArguments()
	case matchNo:
		b.core.Warn(reader.CodeMalformedArguments)
		b.place = inBroken
	}
	return n
}

// endArguments moves on to the text after the arguments of a call.
func (b *block) endArguments() {
	b.args.leave()
	if b.place = atTail; len(b.style().Tail) == 0 {
		b.endCall()
	}
}

// takeUntilStop takes text of arguments that are not followed as JSON. They end at the stop mark. Those of
// report_reasoning also end where their own reader ends them.
func (b *block) takeUntilStop(text string) {
	b.buf = append(b.buf, text...)
	end, ended := b.findStop("")
	var over []byte
	if b.place == inReport {
		over = b.reportText(b.buf[:end])
		ended = ended || b.core.Object.Ended()
	} else {
		b.sendBytes(b.buf[:end])
	}
	b.drop(end - len(over))
	if ended {
		rest := b.unread()
		b.endArguments()
		b.readOn(rest)
	}
}

// findStop returns where the stop mark, with space before it, begins in the held text, and true. If there is no mark,
// it returns where the text begins that may still become one, and false.
func (b *block) findStop(space string) (int, bool) {
	stop := b.args.stop
	if stop == "" {
		return len(b.buf), false
	}
	if end := bytes.Index(b.buf, []byte(stop)); end >= 0 {
		return len(bytes.TrimSuffix(b.buf[:end], []byte(space))), true
	}
	return len(b.buf) - max(overlap(b.buf, stop), overlap(b.buf, space+stop)), false
}

// overlap returns how many bytes at the end of text are a beginning of mark.
func overlap(text []byte, mark string) int {
	for n := min(len(text), len(mark)-1); n > 0; n-- {
		if string(text[len(text)-n:]) == mark[:n] {
			return n
		}
	}
	return 0
}

// reportText takes text of the arguments of report_reasoning and returns what follows them.
func (b *block) reportText(text []byte) []byte {
	if r := &b.core.Object; !r.Ended() {
		b.untracked(func() { text = text[r.Feed(b.core.Out.Keep(text)):] })
	}
	return text
}

// paramsByte checks whether an argument begins or the arguments end.
func (b *block) paramsByte() {
	s := b.style()
	head, _ := splitParam(s)
	var at found
	n, param := matchTokens(head, trimSpace(b.buf), false, &at)
	end := begins(b.buf, endOf(s))
	switch {
	case param == matchYes && n > 0:
		b.beginValue(string(at[KeyPlace]), string(at[KindPlace]))
	case end == matchYes:
		b.send("}")
		rest := b.unread()
		b.endArguments()
		b.readOn(rest)
	case param == matchNo && end == matchNo:
		b.send("}")
		b.endReport()
		b.core.Out.End()
		b.breakOff()
	}
}

// splitParam splits the pattern of an argument before its value.
func splitParam(s *CallStyle) (head, tail []CallToken) {
	i := slices.IndexFunc(s.Param, func(t CallToken) bool { return t.Place == ValuePlace })
	return s.Param[:i], s.Param[i:]
}

// beginValue begins the value of an argument. kind says whether it is a string. If kind is empty, the parameters of the
// function say it.
func (b *block) beginValue(key, kind string) {
	a := &b.args
	b.drop(len(b.buf))
	_, tail := splitParam(b.style())
	a.stop, a.begun = tail[1].Text, false
	a.text = kind == "true"
	if kind == "" && b.core.Cfg.StringParam != nil {
		a.text = b.core.Cfg.StringParam(a.function, key)
	}
	if a.count > 0 {
		b.send(", ")
	}
	a.count++
	b.send(`"`)
	b.sendEscaped([]byte(key))
	b.send(`": `)
	if a.text {
		b.send(`"`)
	}
	b.place = inValue
}

// valueText takes text of a value. Strings are sent as they come, other values when they are complete.
func (b *block) valueText(text string) int {
	a := &b.args
	b.buf = append(b.buf, text...)
	_, tail := splitParam(b.style())
	if lead := tail[0].Space; !a.begun {
		if len(b.buf) < len(lead) {
			return len(text)
		}
		a.begun = true
		if bytes.HasPrefix(b.buf, []byte(lead)) {
			b.drop(len(lead))
		}
	}
	end, ended := b.findStop(tail[1].Space)
	if !a.text && !ended && len(b.buf) > maxCall {
		b.send(`"`)
		a.text = true
	}
	switch {
	case a.text:
		b.sendEscaped(b.buf[:end])
		if ended {
			b.send(`"`)
		}
	case ended:
		b.sendValue(b.buf[:end])
	default:
		return len(text)
	}
	b.drop(end)
	if ended {
		b.drop(bytes.Index(b.buf, []byte(a.stop)) + len(a.stop))
		b.place = atParams
		b.readOn(b.unread())
	}
	return len(text)
}

// sendValue sends a value as it is if it is JSON, otherwise as a string.
func (b *block) sendValue(value []byte) {
	if json.Valid(value) {
		b.sendBytes(bytes.TrimSpace(value))
		return
	}
	b.send(`"`)
	b.sendEscaped(value)
	b.send(`"`)
}

// sendEscaped sends text as part of a JSON string.
func (b *block) sendEscaped(text []byte) {
	const hex = "0123456789abcdef"
	from := 0
	for i, c := range text {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b.sendBytes(text[from:i])
		from = i + 1
		switch c {
		case '"':
			b.send(`\"`)
		case '\\':
			b.send(`\\`)
		case '\n':
			b.send(`\n`)
		case '\t':
			b.send(`\t`)
		case '\r':
			b.send(`\r`)
		default:
			b.sendBytes([]byte{'\\', 'u', '0', '0', hex[c>>4], hex[c&15]})
		}
	}
	b.sendBytes(text[from:])
}

// cutArguments ends arguments that are not complete.
func (b *block) cutArguments() {
	if !b.report { // the reader of a report warns itself
		b.core.Warn(reader.CodeMalformedArguments)
	}
	switch {
	case b.place == inReport:
		b.reportText(b.buf)
	case b.place == inValue && b.args.text:
		b.sendEscaped(b.buf)
	case b.place == inValue || b.place == inBroken:
		b.sendBytes(b.buf)
	}
	b.drop(len(b.buf))
	b.args.leave()
}
