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

// restOfObject takes a byte after the arguments of a call that is a JSON object itself.
func (a *argumentReader) restOfObject(c byte) matched {
	r := a.next(c)
	a.over = r == matchNo
	return r
}

// argument sends text of the arguments, whose bytes have left the ledger before.
func (c *block) argument(text string) {
	if text == "" {
		return
	}
	out, on := &c.core.Out, c.core.Out.Ledger.On
	out.Ledger.On = false
	if c.report {
		c.core.Object.Feed(text)
	} else {
		out.Text(text)
	}
	out.Ledger.On = on
}

// argumentBytes is argument for text that is in no string yet.
func (c *block) argumentBytes(text []byte) {
	if len(text) > 0 {
		c.argument(c.core.Out.Keep(text))
	}
}

// endReport ends a call of report_reasoning.
func (c *block) endReport() {
	if !c.report {
		return
	}
	c.report = false
	out, on := &c.core.Out, c.core.Out.Ledger.On
	out.Ledger.On = false
	c.core.EndReport()
	out.Ledger.On = on
}

// objectArguments takes text of arguments that are a JSON object, and returns how much of it.
func (c *block) objectArguments(text string) int {
	a := &c.args
	n, r := 0, matchWait
	for n < len(text) && r == matchWait {
		if r = a.next(text[n]); r != matchNo {
			n++
		}
	}
	c.core.Out.Drop(n, reader.UseForeign)
	c.argument(text[:n])
	switch r {
	case matchYes:
		c.endArguments()
	case matchNo:
		c.core.Warn(reader.CodeMalformedArguments)
		c.place = callBroken
	}
	return n
}

// endArguments goes on to what stands after a call's arguments.
func (c *block) endArguments() {
	c.args.depth, c.args.quoted, c.args.escaped = 1, false, false // in the object around them
	if c.place = callTail; len(c.style().Tail) == 0 {
		c.endCall()
	}
}

// takeUntilStop takes text of arguments that are not followed as JSON: they go on to the mark that ends them, and
// those of report_reasoning to where their reader says.
func (c *block) takeUntilStop(text string) {
	c.buf = append(c.buf, text...)
	end, ended := c.findStop("")
	var over []byte
	if c.place == callReport {
		over = c.reportText(c.buf[:end])
		ended = ended || c.core.Object.Ended()
	} else {
		c.argumentBytes(c.buf[:end])
	}
	c.takeCall(end - len(over))
	if ended {
		rest := string(c.buf)
		c.buf = c.buf[:0]
		c.endArguments()
		c.readOn(rest)
	}
}

// findStop returns where in what is held the mark of the end begins, with the white space before it, and true; or
// how much is before what may become the mark, and false.
func (c *block) findStop(space string) (int, bool) {
	stop := c.args.stop
	if stop == "" {
		return len(c.buf), false
	}
	if end := bytes.Index(c.buf, []byte(stop)); end >= 0 {
		return len(bytes.TrimSuffix(c.buf[:end], []byte(space))), true
	}
	return len(c.buf) - max(overlap(c.buf, stop), overlap(c.buf, space+stop)), false
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
func (c *block) reportText(text []byte) []byte {
	r, out, on := &c.core.Object, &c.core.Out, c.core.Out.Ledger.On
	if r.Ended() {
		return text
	}
	out.Ledger.On = false
	n := r.Feed(out.Keep(text))
	out.Ledger.On = on
	return text[n:]
}

// paramsByte looks whether an argument or the end of the call comes.
func (c *block) paramsByte() {
	s := c.style()
	head, _ := splitParam(s)
	var at found
	n, param := matchTokens(head, trimSpace(c.buf), false, &at)
	end := begins(c.buf, endOf(s))
	switch {
	case param == matchYes && n > 0:
		c.beginValue(string(at[KeyPlace]), string(at[KindPlace]))
	case end == matchYes:
		c.argument("}")
		rest := string(c.buf)
		c.buf = c.buf[:0]
		c.endArguments()
		c.readOn(rest)
	case param == matchNo && end == matchNo:
		c.argument("}")
		c.endReport()
		c.core.Out.End()
		c.strayText()
	}
}

// splitParam returns what stands before the value of an argument, and the value's token with what stands after it.
func splitParam(s *CallStyle) (head, tail []CallToken) {
	i := slices.IndexFunc(s.Param, func(t CallToken) bool { return t.Place == ValuePlace })
	return s.Param[:i], s.Param[i:]
}

// beginValue begins the value of an argument. kind says whether it is a string; if it does not, the function's
// parameters do.
func (c *block) beginValue(key, kind string) {
	a := &c.args
	c.takeCall(len(c.buf))
	_, tail := splitParam(c.style())
	a.stop, a.begun = tail[1].Text, false
	a.text = kind == "true"
	if kind == "" && c.core.Cfg.StringParam != nil {
		a.text = c.core.Cfg.StringParam(a.function, key)
	}
	if a.count > 0 {
		c.argument(", ")
	}
	a.count++
	c.argument(`"`)
	c.escaped([]byte(key))
	c.argument(`": `)
	if a.text {
		c.argument(`"`)
	}
	c.place = callValue
}

// valueText takes text of a value. Strings are sent as they come, other values when they are whole.
func (c *block) valueText(text string) int {
	a := &c.args
	c.buf = append(c.buf, text...)
	_, tail := splitParam(c.style())
	if lead := tail[0].Space; !a.begun {
		if len(c.buf) < len(lead) {
			return len(text)
		}
		a.begun = true
		if bytes.HasPrefix(c.buf, []byte(lead)) {
			c.takeCall(len(lead))
		}
	}
	end, ended := c.findStop(tail[1].Space)
	if !a.text && !ended && len(c.buf) > maxCall {
		c.argument(`"`)
		a.text = true
	}
	switch {
	case a.text:
		c.escaped(c.buf[:end])
		if ended {
			c.argument(`"`)
		}
	case ended:
		c.looseValue(c.buf[:end])
	default:
		return len(text)
	}
	c.takeCall(end)
	if ended {
		c.takeCall(bytes.Index(c.buf, []byte(a.stop)) + len(a.stop))
		rest := string(c.buf)
		c.buf, c.place = c.buf[:0], callParams
		c.readOn(rest)
	}
	return len(text)
}

// looseValue sends a value that may be JSON or, if it is not, a string.
func (c *block) looseValue(value []byte) {
	if json.Valid(value) {
		c.argumentBytes(bytes.TrimSpace(value))
		return
	}
	c.argument(`"`)
	c.escaped(value)
	c.argument(`"`)
}

// escaped sends text as part of a JSON string.
func (c *block) escaped(text []byte) {
	const hex = "0123456789abcdef"
	from := 0
	for i, b := range text {
		if b >= ' ' && b != '"' && b != '\\' {
			continue
		}
		c.argumentBytes(text[from:i])
		from = i + 1
		switch b {
		case '"':
			c.argument(`\"`)
		case '\\':
			c.argument(`\\`)
		case '\n':
			c.argument(`\n`)
		case '\t':
			c.argument(`\t`)
		case '\r':
			c.argument(`\r`)
		default:
			c.argumentBytes([]byte{'\\', 'u', '0', '0', hex[b>>4], hex[b&15]})
		}
	}
	c.argumentBytes(text[from:])
}

// cutArguments ends arguments that broke off.
func (c *block) cutArguments() {
	if !c.report { // whose reader says it itself
		c.core.Warn(reader.CodeMalformedArguments)
	}
	switch {
	case c.place == callReport:
		c.reportText(c.buf)
	case c.place == callValue && c.args.text:
		c.escaped(c.buf)
	case c.place == callValue || c.place == callBroken:
		c.argumentBytes(c.buf)
	}
	c.takeCall(len(c.buf))
	c.args.depth, c.args.quoted, c.args.escaped = 1, false, false
}
