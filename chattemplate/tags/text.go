package tags

import (
	"strings"

	"runner/chattemplate"
	"runner/chattemplate/reader"
	"runner/reasoning"
	"runner/reasoning/patterns"
)

// Text finds markers in text that arrives in pieces: those around the reasoning, around the answer where a family
// marks it too, and those of tool calls. Text that may still become a marker is held back.
//
// A marker that the vocabulary has as one token always counts. Spelled as text, an opening marker counts only
// before any reasoning, and a closing one only inside the reasoning or where no reasoning has been seen: later they
// are something that the answer talks about. Newlines beside a marker belong to the marker.
type Text struct {
	core  *reader.Core
	pairs []tagPair
	// answer and reasoning find what may come in the answer and in the reasoning of each pair.
	answer    *patterns.Matcher
	markers   []marker // by pattern of answer
	reasoning []*patterns.Matcher
	// groups are the ways in which calls begin, and bare the one without a mark: an answer that begins as a call.
	groups []callGroup
	bare   *callGroup

	mode  textMode
	pair  int // of the reasoning
	state int32
	held  []heldPiece
	nheld int
	// trim drops newlines until there is text; begun says that the segment has had text since the last marker.
	trim, begun bool
	// seen says that there has been reasoning or that the prompt skipped it.
	seen bool
	// wrapped says that the answer's own opening marker has come.
	wrapped bool
	calls   block
	// waiting says that an answer begins and may be the object of strategy json; what comes is held until that is known.
	waiting bool
	// said says that there has been an answer in this turn.
	said bool
}

type tagPair struct{ open, close string }

type heldPiece struct {
	text    string
	control bool
	special bool // a control or user-defined token
}

type textMode uint8

const (
	modeAnswer textMode = iota
	modeReasoning
	modeCall
	modeObject // in the object of strategy json, or after it
)

// marker is what a marker in the answer does.
type marker struct {
	kind  markerKind
	index int // of the pair of tags, or of the group of styles
}

type markerKind uint8

const (
	openTag markerKind = iota
	closeTag
	openAnswer
	closeAnswer
	openCalls
)

// endMark is the place of a pair's closing marker among the patterns of its reasoning.
const endMark = 0

// maxHeldNewlines is how many newlines before a closing marker belong to it.
const maxHeldNewlines = 8

// Init prepares for a turn, or for the answers in it. The core must not be moved afterwards. Calls are looked for where
// tools is set: in the model's style, or where that is nil in the styles whose marks cannot be anything else.
func (t *Text) Init(s *reader.Core, formats []Format, calls *CallStyle, tools bool) {
	t.core = s
	t.calls = block{core: s, in: t}
	var texts []string
	add := func(text string, kind markerKind, index int) {
		if text != "" {
			texts = append(texts, text)
			t.markers = append(t.markers, marker{kind, index})
		}
	}
	for i, f := range formats {
		t.pairs = append(t.pairs, tagPair{f.Open, f.Close})
		add(f.Open, openTag, i)
		add(f.Close, closeTag, i)
		add(f.AnswerOpen, openAnswer, i)
		add(f.AnswerClose, closeAnswer, i)
		t.reasoning = append(t.reasoning, patterns.NewMatcher(f.Close, f.Open))
	}
	if tools && (!s.Cfg.Formed || s.Cfg.Opens != nil) {
		t.groups = callGroups(&s.Cfg, calls)
		for i, g := range t.groups {
			add(g.open, openCalls, i)
			if g.open == "" {
				t.bare = &t.groups[i]
			}
		}
	}
	t.answer = patterns.NewMatcher(texts...)
}

// BeginAnswer makes what comes next text of the answer, where that is held to a form.
func (t *Text) BeginAnswer() {
	if t.core != nil && t.core.Cfg.Formed && t.mode == modeAnswer {
		t.trim, t.begun = false, true
	}
}

// Start begins a turn, or an answer message.
func (t *Text) Start(at chattemplate.Start) {
	t.state, t.held, t.nheld, t.begun, t.wrapped = 0, t.held[:0], 0, false, false
	t.trim, t.seen, t.said, t.waiting = len(t.pairs) > 0, false, false, false
	switch {
	case len(t.pairs) == 0:
		t.enter(modeAnswer)
	case at == chattemplate.StartReasoning:
		t.seen = true
		t.enter(modeReasoning)
	default:
		t.seen = at == chattemplate.StartAnswer
		t.enter(modeAnswer)
	}
	if t.mode == modeAnswer {
		t.expect()
	}
}

// enter opens the segment of a mode.
func (t *Text) enter(mode textMode) {
	t.mode = mode
	switch mode {
	case modeAnswer:
		t.core.Out.Begin(reasoning.Answer, reasoning.Call{})
	case modeReasoning:
		from := reasoning.StrategyNative
		if t.pairs[t.pair].open == reasoning.MarkerOpen {
			from = reasoning.StrategyMarkers
		}
		t.core.Out.Reason(from)
	}
}

// Segment returns the segment that the next text belongs to, as far as is known.
func (t *Text) Segment() reasoning.Segment {
	switch {
	case t.waiting:
		return reasoning.Header
	case t.mode == modeObject:
		return t.core.Object.Segment()
	case t.mode == modeReasoning, t.mode == modeCall && t.calls.report:
		return reasoning.Reasoning
	case t.mode == modeCall && t.calls.opened():
		return reasoning.ToolCall
	}
	return reasoning.Answer
}

// Steering reports whether the next text may steer the format. An answer that has begun is text, even where it holds
// what might become a mark: most of what looks like one is none.
func (t *Text) Steering() bool {
	switch t.mode {
	case modeAnswer:
		opens := len(t.pairs) > 0 && !t.seen && !t.begun
		return t.waiting || opens
	case modeCall:
		return !t.calls.inArguments()
	case modeObject:
		return t.core.Object.Segment() == reasoning.Header
	}
	return false
}

// InObject reports whether the text is read as an object, or may become one.
func (t *Text) InObject() bool {
	return t.waiting || t.mode == modeObject && !t.core.Object.Ended() || t.mode == modeCall && t.calls.report
}

// current returns the call that the next text belongs to.
func (t *Text) current() reasoning.Call {
	switch {
	case t.mode != modeCall:
		return reasoning.Call{}
	case t.calls.report:
		return reasoning.Call{Name: reasoning.ReportReasoningName}
	}
	return t.core.Out.Next.Call
}

func (t *Text) matcher() *patterns.Matcher {
	if t.mode == modeReasoning {
		return t.reasoning[t.pair]
	}
	return t.answer
}

// Push takes a token's text. control says that the token has no text of its own: it counts only as part of a marker.
func (t *Text) Push(piece string, control, special bool) {
	switch {
	case piece == "":
		return
	case t.waiting:
		t.wait(piece, control, special)
		return
	case t.mode == modeObject:
		t.objectText(piece, control, special)
		return
	case t.mode == modeCall:
		t.Push(t.calls.push(piece, control, special), control, special)
		return
	case t.bare != nil && t.beginsBare(&piece):
		t.Push(t.calls.push(piece, control, special), control, special)
		return
	}
	mt := t.matcher()
	if t.nheld == 0 && !control && !t.trim && mt.Idle(piece) &&
		!(t.mode == modeReasoning && isNewline(piece[len(piece)-1])) {
		t.body(piece)
		return
	}
	base := t.nheld
	t.held = append(t.held, heldPiece{piece, control, control || special})
	t.nheld += len(piece)
	for i := range len(piece) {
		t.state = mt.Step(t.state, piece[i])
		if p := mt.Found(t.state); p >= 0 {
			size := len(mt.Patterns[p])
			before := base + i + 1 - size
			newlines := 0
			if t.mode == modeReasoning && p == endMark {
				newlines = t.newlinesBefore(t.nheld - before)
			}
			t.release(before - newlines)
			t.takeMarker(p, size, newlines)
			if t.waiting || t.mode == modeCall || t.bare != nil {
				t.again()
				return
			}
			mt, t.state = t.matcher(), 0
			base = t.nheld - len(piece)
		}
	}
	keep := mt.Held(t.state)
	if t.mode == modeReasoning {
		keep += t.newlinesBefore(keep)
	}
	t.release(t.nheld - keep)
}

// beginsBare reports whether an answer begins as a call without a mark, and if so begins to read it as one. It
// takes newlines that belong to the marker before off the text.
func (t *Text) beginsBare(text *string) bool {
	if t.mode != modeAnswer || t.begun || t.nheld > 0 {
		return false
	}
	rest := *text
	if t.trim {
		rest = strings.TrimLeft(rest, "\r\n")
	}
	if rest == "" || rest[0] != '{' {
		return false
	}
	t.core.Out.Drop(len(*text)-len(rest), reader.UseTrimmed)
	*text = rest
	t.enterCall(t.bare, "")
	return true
}

// newlinesBefore counts the newlines before the last n held bytes.
func (t *Text) newlinesBefore(n int) int {
	count := 0
	for i := len(t.held) - 1; i >= 0; i-- {
		text := t.held[i].text
		for j := len(text) - 1; j >= 0; j-- {
			if n > 0 {
				n--
				continue
			}
			if !isNewline(text[j]) || count == maxHeldNewlines || t.held[i].control {
				return count
			}
			count++
		}
	}
	return count
}

// pop takes up to n bytes off the front of what is held.
func (t *Text) pop(n int) heldPiece {
	h := &t.held[0]
	p := *h
	if len(h.text) > n {
		p.text, h.text = h.text[:n], h.text[n:]
	} else {
		copy(t.held, t.held[1:])
		t.held = t.held[:len(t.held)-1]
	}
	t.nheld -= len(p.text)
	return p
}

// release lets n held bytes go as text.
func (t *Text) release(n int) {
	for n > 0 {
		p := t.pop(n)
		n -= len(p.text)
		if p.control {
			t.core.Warn(reader.CodeStrayControl)
			t.core.Out.Flush()
			t.core.Out.Drop(len(p.text), reader.UseForeign)
			continue
		}
		t.body(p.text)
	}
}

// skip drops n held bytes of a marker. The text before them must have been sent.
func (t *Text) skip(n int) {
	for n > 0 {
		p := t.pop(n)
		n -= len(p.text)
		t.core.Out.Drop(len(p.text), reader.UseForeign)
	}
}

// body takes text that is no marker.
func (t *Text) body(text string) {
	if t.trim {
		i := 0
		for i < len(text) && isNewline(text[i]) {
			i++
		}
		t.core.Out.Drop(i, reader.UseTrimmed)
		if text = text[i:]; text == "" {
			return
		}
		t.trim = false
	}
	t.begun = true
	if t.core.Cfg.JSON != nil && !t.said && t.mode == modeAnswer && !isBlank(text) {
		t.said = true
		t.core.Warn(reader.CodeNotObject)
	}
	t.core.Out.Text(text)
}

// takeMarker takes the marker p of the current matcher: the held text's next n bytes, after some newlines that belong
// to it.
func (t *Text) takeMarker(p, n, newlines int) {
	byToken := t.held[0].special && len(t.held[0].text) == n
	switch {
	case t.mode == modeReasoning && p == endMark:
		t.closeReasoning(newlines + n)
	case t.mode == modeReasoning:
		t.openAgain(n, byToken)
	default:
		t.markerInAnswer(t.markers[p], n, byToken)
	}
}

func (t *Text) closeReasoning(n int) {
	t.core.Out.End()
	t.skip(n)
	t.resume()
}

// openAgain takes an opening marker inside the reasoning.
func (t *Text) openAgain(n int, byToken bool) {
	switch {
	case !t.begun:
		t.skip(n)
	case byToken:
		t.core.Warn(reader.CodeStrayTag)
		t.core.Out.Flush()
		t.skip(n)
	default:
		t.release(n)
	}
}

// literal reports whether a marker of the reasoning in the answer is text of it.
func (t *Text) literal(byToken bool) bool {
	return (t.seen || t.core.Cfg.Formed) && t.begun && !byToken
}

func (t *Text) markerInAnswer(m marker, n int, byToken bool) {
	literal := false
	switch m.kind {
	case openTag:
		if literal = t.literal(byToken); !literal {
			t.core.Out.End()
			t.skip(n)
			t.seen, t.trim, t.begun, t.pair = true, true, false, m.index
			t.enter(modeReasoning)
		}
	case closeTag:
		if literal = t.literal(byToken); !literal {
			if t.begun {
				t.core.Warn(reader.CodeStrayTag)
			}
			t.core.Out.Flush()
			t.skip(n)
			t.seen = true
			t.trim = t.trim || !t.begun
			t.expect()
		}
	case openAnswer:
		if literal = t.begun || t.wrapped; !literal {
			t.wrapped, t.trim = true, true
			t.skip(n)
			t.expect()
		}
	case closeAnswer:
		if literal = !t.wrapped || t.core.Cfg.Formed; !literal {
			t.wrapped = false
			t.core.Out.Flush()
			t.skip(n)
			t.trim = true
		}
	case openCalls:
		if literal = t.core.Cfg.Formed && t.begun || t.core.Cfg.Opens != nil && !t.core.Cfg.Opens(t.heldFrom(n)); !literal {
			t.core.Out.Flush()
			t.openCall(&t.groups[m.index], n, byToken)
		}
	}
	if literal {
		t.release(n)
	}
}

// enterCall begins to read a block of calls. opening is its mark, if that is text.
func (t *Text) enterCall(g *callGroup, opening string) {
	t.state, t.mode = 0, modeCall
	t.calls.enter(g, opening)
}

// resume begins an answer after a block of calls.
func (t *Text) resume() {
	t.trim, t.begun = true, false
	t.enter(modeAnswer)
	t.expect()
}

// stray begins an answer with text that did not belong to its block.
func (t *Text) stray(text string) {
	t.trim, t.begun = true, false
	t.enter(modeAnswer)
	t.read(text)
}

// refuse goes on with the answer where there was no block.
func (t *Text) refuse(literal, rest string) {
	t.mode, t.state = modeAnswer, 0
	t.answerText(literal)
	t.read(rest)
}

// read takes text.
func (t *Text) read(text string) { t.Push(text, false, false) }

// answerText adds text to the answer that is no mark.
func (t *Text) answerText(text string) {
	if text == "" {
		return
	}
	t.trim, t.begun, t.said = false, true, true
	t.core.Out.Text(text)
}

// openCall takes a mark of n bytes that begins calls. One that is spelled is kept, in case that what follows is no
// call.
func (t *Text) openCall(g *callGroup, n int, byToken bool) {
	if byToken {
		t.skip(n)
		t.enterCall(g, "")
		return
	}
	for n > 0 {
		n -= len(t.pop(n).text)
	}
	t.enterCall(g, g.open)
}

// heldFrom returns the held text after its first n bytes.
func (t *Text) heldFrom(n int) string {
	var b strings.Builder
	for _, h := range t.held {
		b.WriteString(h.text)
	}
	return b.String()[n:]
}

// Finish sends what is held and closes what is open.
func (t *Text) Finish() {
	if t.waiting {
		t.endWait()
	}
	if t.mode == modeObject {
		t.core.Object.Finish()
		return
	}
	t.release(t.nheld)
	t.state = 0
	if t.mode == modeCall {
		t.calls.finish()
	}
	t.core.Out.End()
	if t.mode == modeReasoning {
		t.core.Warn(reader.CodeReasoningUnclosed)
	}
}

func isNewline(c byte) bool { return c == '\n' || c == '\r' }
