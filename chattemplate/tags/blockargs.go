package tags

import (
	"bytes"
	"encoding/json"
	"slices"

	"runner/chattemplate/reader"
)

// argumentReader follows the arguments of a call.
type argumentReader struct {
	// function is what is called, and stop the mark that ends a value, or arguments that are no JSON.
	function, stop string
	// depth, quoted and escaped say where in a JSON object the reader stands; from 0 to 0 is the object.
	depth           int
	quoted, escaped bool
	// over says that the object around the arguments is complete, or no JSON.
	over bool
	// count is how many arguments came, of those that are written one by one; text says that the current one is a string,
	// and begun that some of its value came.
	count       int
	text, begun bool
}

// next takes a byte of a JSON object and reports whether the object is complete, or no JSON. Only what tells where
// the object ends is looked at.
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

// inScalar reports whether c may be part of a number or a literal.
func inScalar(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == '+' || c == '-' || c == '.' || c == 'E'
}

// leave goes from the arguments to the object around them.
func (a *argumentReader) leave() { a.depth, a.quoted, a.escaped = 1, false, false }

// restOfObject takes a byte after the arguments of a call that is a JSON object itself.
func (a *argumentReader) restOfObject(c byte) matched {
	r := a.next(c)
	a.over = r == matchNo
	return r
}

// send sends text of the arguments, whose bytes have left the ledger before.
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

// untracked sends text whose bytes have left the ledger before.
func (b *block) untracked(send func()) {
	ledger := &b.core.Out.Ledger
	on := ledger.On
	ledger.On = false
	send()
	ledger.On = on
}

// sendBytes is send for text that is in no string yet.
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

// objectArguments takes text of arguments that are a JSON object, and returns how much of it.
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

// endArguments goes on to what stands after a call's arguments.
func (b *block) endArguments() {
	b.args.leave()
	if b.place = atTail; len(b.style().Tail) == 0 {
		b.endCall()
	}
}

// takeUntilStop takes text of arguments that are not followed as JSON: they go on to the mark that ends them, and
// those of report_reasoning to where their reader says.
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

// findStop returns where in what is held the mark of the end begins, with the white space before it, and true; or
// how much is before what may become the mark, and false.
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

// overlap returns how many bytes at the end of text may be the beginning of mark.
func overlap(text []byte, mark string) int {
	for n := min(len(text), len(mark)-1); n > 0; n-- {
		if string(text[len(text)-n:]) == mark[:n] {
			return n
		}
	}
	return 0
}

// reportText takes text of the arguments of report_reasoning, and returns what follows them.
func (b *block) reportText(text []byte) []byte {
	if r := &b.core.Object; !r.Ended() {
		b.untracked(func() { text = text[r.Feed(b.core.Out.Keep(text)):] })
	}
	return text
}

// paramsByte looks whether an argument or the end of the call comes.
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

// splitParam returns what stands before the value of an argument, and the value's token with what stands after it.
func splitParam(s *CallStyle) (head, tail []CallToken) {
	i := slices.IndexFunc(s.Param, func(t CallToken) bool { return t.Place == ValuePlace })
	return s.Param[:i], s.Param[i:]
}

// beginValue begins the value of an argument. kind says whether it is a string; if it does not, the function's
// parameters do.
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

// valueText takes text of a value. Strings are sent as they come, other values when they are whole.
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

// sendValue sends a value that may be JSON or, if it is not, a string.
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

// cutArguments ends arguments that broke off.
func (b *block) cutArguments() {
	if !b.report { // whose reader says it itself
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
