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
	s     *reader.Core
	pairs []tagPair
	// answer and reasoning find what may come in the answer and in the reasoning of each pair.
	answer    *patterns.Matcher
	actions   []tagAction // by pattern of answer
	reasoning []*patterns.Matcher
	// groups are the ways in which calls begin, and bare the one without a mark: an answer that begins as a call.
	groups []callGroup
	bare   *callGroup

	mode  tagMode
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

type tagMode uint8

const (
	modeAnswer tagMode = iota
	modeReasoning
	modeCall
	modeObject // in the object of strategy json, or after it
)

// tagAction is what a marker in the answer does.
type tagAction struct {
	kind tagKind
	pair int
}

type tagKind uint8

const (
	tagOpen tagKind = iota
	tagClose
	tagAnswerOpen
	tagAnswerClose
	tagCall
)

// endMark is the place of a pair's closing marker among the patterns of its reasoning.
const endMark = 0

// maxHeldNewlines is how many newlines before a closing marker belong to it.
const maxHeldNewlines = 8

// Init prepares for a turn, or for the answers in it. The core must not be moved afterwards. Calls are looked for where
// tools is set: in the model's style, or where that is nil in the styles whose marks cannot be anything else.
func (m *Text) Init(s *reader.Core, formats []Format, calls *CallStyle, tools bool) {
	m.s = s
	m.calls = block{core: s, in: m}
	var texts []string
	add := func(text string, kind tagKind, pair int) {
		if text != "" {
			texts = append(texts, text)
			m.actions = append(m.actions, tagAction{kind, pair})
		}
	}
	for i, f := range formats {
		m.pairs = append(m.pairs, tagPair{f.Open, f.Close})
		add(f.Open, tagOpen, i)
		add(f.Close, tagClose, i)
		add(f.AnswerOpen, tagAnswerOpen, i)
		add(f.AnswerClose, tagAnswerClose, i)
		m.reasoning = append(m.reasoning, patterns.NewMatcher(f.Close, f.Open))
	}
	if tools && (!s.Cfg.Formed || s.Cfg.Opens != nil) {
		m.groups = callGroups(&s.Cfg, calls)
		for i, g := range m.groups {
			add(g.open, tagCall, i)
			if g.open == "" {
				m.bare = &m.groups[i]
			}
		}
	}
	m.answer = patterns.NewMatcher(texts...)
}

// Begin makes what comes next text of the answer, where that is held to a form.
func (m *Text) Begin() {
	if m.s != nil && m.s.Cfg.Formed && m.mode == modeAnswer {
		m.trim, m.begun = false, true
	}
}

// Start begins a turn, or an answer message.
func (m *Text) Start(at chattemplate.Start) {
	m.state, m.held, m.nheld, m.begun, m.wrapped = 0, m.held[:0], 0, false, false
	m.trim, m.seen, m.said, m.waiting = len(m.pairs) > 0, false, false, false
	switch {
	case len(m.pairs) == 0:
		m.enter(modeAnswer)
	case at == chattemplate.StartReasoning:
		m.seen = true
		m.enter(modeReasoning)
	default:
		m.seen = at == chattemplate.StartAnswer
		m.enter(modeAnswer)
	}
	if m.mode == modeAnswer {
		m.expect()
	}
}

// enter opens the segment of a mode.
func (m *Text) enter(mode tagMode) {
	m.mode = mode
	switch mode {
	case modeAnswer:
		m.s.Out.Begin(reasoning.Answer, reasoning.Call{})
	case modeReasoning:
		from := reasoning.StrategyNative
		if m.pairs[m.pair].open == reasoning.MarkerOpen {
			from = reasoning.StrategyMarkers
		}
		m.s.Out.Reason(from)
	}
}

// Segment returns the segment that the next text belongs to, as far as is known.
func (m *Text) Segment() reasoning.Segment {
	switch {
	case m.waiting:
		return reasoning.Header
	case m.mode == modeObject:
		return m.s.Object.Segment()
	case m.mode == modeReasoning, m.mode == modeCall && m.calls.report:
		return reasoning.Reasoning
	case m.mode == modeCall && m.calls.opened():
		return reasoning.ToolCall
	}
	return reasoning.Answer
}

// Steering reports whether the next text may steer the format. An answer that has begun is text, even where it holds
// what might become a mark: most of what looks like one is none.
func (m *Text) Steering() bool {
	switch m.mode {
	case modeAnswer:
		opens := len(m.pairs) > 0 && !m.seen && !m.begun
		return m.waiting || opens
	case modeCall:
		return !m.calls.inArguments()
	case modeObject:
		return m.s.Object.Segment() == reasoning.Header
	}
	return false
}

// InObject reports whether the text is read as an object, or may become one.
func (m *Text) InObject() bool {
	return m.waiting || m.mode == modeObject && !m.s.Object.Ended() || m.mode == modeCall && m.calls.report
}

// current returns the call that the next text belongs to.
func (m *Text) current() reasoning.Call {
	switch {
	case m.mode != modeCall:
		return reasoning.Call{}
	case m.calls.report:
		return reasoning.Call{Name: reasoning.ReportReasoningName}
	}
	return m.s.Out.Next.Call
}

func (m *Text) matcher() *patterns.Matcher {
	if m.mode == modeReasoning {
		return m.reasoning[m.pair]
	}
	return m.answer
}

// Push takes a token's text. control says that the token has no text of its own: it counts only as part of a marker.
func (m *Text) Push(piece string, control, special bool) {
	switch {
	case piece == "":
		return
	case m.waiting:
		m.wait(piece, control, special)
		return
	case m.mode == modeObject:
		m.objectText(piece, control, special)
		return
	case m.mode == modeCall:
		m.Push(m.calls.push(piece, control, special), control, special)
		return
	case m.bare != nil && m.beginsBare(&piece):
		m.Push(m.calls.push(piece, control, special), control, special)
		return
	}
	mt := m.matcher()
	if m.nheld == 0 && !control && !m.trim && mt.Idle(piece) &&
		!(m.mode == modeReasoning && isNewline(piece[len(piece)-1])) {
		m.body(piece)
		return
	}
	base := m.nheld
	m.held = append(m.held, heldPiece{piece, control, control || special})
	m.nheld += len(piece)
	for i := range len(piece) {
		m.state = mt.Step(m.state, piece[i])
		if p := mt.Found(m.state); p >= 0 {
			size := len(mt.Patterns[p])
			before := base + i + 1 - size
			newlines := 0
			if m.mode == modeReasoning && p == endMark {
				newlines = m.newlinesBefore(m.nheld - before)
			}
			m.release(before - newlines)
			m.marker(p, size, newlines)
			if m.waiting || m.mode == modeCall || m.bare != nil {
				m.again()
				return
			}
			mt, m.state = m.matcher(), 0
			base = m.nheld - len(piece)
		}
	}
	keep := mt.Held(m.state)
	if m.mode == modeReasoning {
		keep += m.newlinesBefore(keep)
	}
	m.release(m.nheld - keep)
}

// beginsBare reports whether an answer begins as a call without a mark, and if so begins to read it as one. It
// takes newlines that belong to the marker before off the text.
func (m *Text) beginsBare(text *string) bool {
	if m.mode != modeAnswer || m.begun || m.nheld > 0 {
		return false
	}
	rest := *text
	if m.trim {
		rest = strings.TrimLeft(rest, "\r\n")
	}
	if rest == "" || rest[0] != '{' {
		return false
	}
	m.s.Out.Drop(len(*text)-len(rest), reader.UseTrimmed)
	*text = rest
	m.enterCall(m.bare, "")
	return true
}

// newlinesBefore counts the newlines before the last n held bytes.
func (m *Text) newlinesBefore(n int) int {
	count := 0
	for i := len(m.held) - 1; i >= 0; i-- {
		text := m.held[i].text
		for j := len(text) - 1; j >= 0; j-- {
			if n > 0 {
				n--
				continue
			}
			if !isNewline(text[j]) || count == maxHeldNewlines || m.held[i].control {
				return count
			}
			count++
		}
	}
	return count
}

// pop takes up to n bytes off the front of what is held.
func (m *Text) pop(n int) heldPiece {
	h := &m.held[0]
	p := *h
	if len(h.text) > n {
		p.text, h.text = h.text[:n], h.text[n:]
	} else {
		copy(m.held, m.held[1:])
		m.held = m.held[:len(m.held)-1]
	}
	m.nheld -= len(p.text)
	return p
}

// release lets n held bytes go as text.
func (m *Text) release(n int) {
	for n > 0 {
		p := m.pop(n)
		n -= len(p.text)
		if p.control {
			m.s.Warn(reader.CodeStrayControl)
			m.leave(len(p.text), reader.UseForeign)
			continue
		}
		m.body(p.text)
	}
}

// leave takes bytes out of the stream after everything before them has been sent.
func (m *Text) leave(n int, u reader.Use) {
	m.s.Out.Flush()
	m.s.Out.Drop(n, u)
}

// skip drops n held bytes of a marker. The text before them must have been sent.
func (m *Text) skip(n int) {
	for n > 0 {
		p := m.pop(n)
		n -= len(p.text)
		m.s.Out.Drop(len(p.text), reader.UseForeign)
	}
}

// body takes text that is no marker.
func (m *Text) body(text string) {
	if m.trim {
		i := 0
		for i < len(text) && isNewline(text[i]) {
			i++
		}
		m.s.Out.Drop(i, reader.UseTrimmed)
		if text = text[i:]; text == "" {
			return
		}
		m.trim = false
	}
	m.begun = true
	if m.s.Cfg.JSON != nil && !m.said && m.mode == modeAnswer && !isBlank(text) {
		m.said = true
		m.s.Warn(reader.CodeNotObject)
	}
	m.s.Out.Text(text)
}

// marker takes the marker p of the current matcher: the held text's next n bytes, after some newlines that belong
// to it.
func (m *Text) marker(p, n, newlines int) {
	byToken := m.held[0].special && len(m.held[0].text) == n
	switch {
	case m.mode == modeReasoning && p == endMark:
		m.closeReasoning(newlines + n)
	case m.mode == modeReasoning:
		m.openAgain(n, byToken)
	default:
		m.markerInAnswer(m.actions[p], n, byToken)
	}
}

func (m *Text) closeReasoning(n int) {
	m.s.Out.End()
	m.skip(n)
	m.trim, m.begun = true, false
	m.enter(modeAnswer)
	m.expect()
}

// openAgain takes an opening marker inside the reasoning.
func (m *Text) openAgain(n int, byToken bool) {
	switch {
	case !m.begun:
		m.skip(n)
	case byToken:
		m.s.Warn(reader.CodeStrayTag)
		m.s.Out.Flush()
		m.skip(n)
	default:
		m.release(n)
	}
}

// literal reports whether a marker of the reasoning in the answer is text of it.
func (m *Text) literal(byToken bool) bool {
	return (m.seen || m.s.Cfg.Formed) && m.begun && !byToken
}

func (m *Text) markerInAnswer(a tagAction, n int, byToken bool) {
	literal := false
	switch a.kind {
	case tagOpen:
		if literal = m.literal(byToken); !literal {
			m.s.Out.End()
			m.skip(n)
			m.seen, m.trim, m.begun, m.pair = true, true, false, a.pair
			m.enter(modeReasoning)
		}
	case tagClose:
		if literal = m.literal(byToken); !literal {
			if m.begun {
				m.s.Warn(reader.CodeStrayTag)
			}
			m.s.Out.Flush()
			m.skip(n)
			m.seen = true
			m.trim = m.trim || !m.begun
			m.expect()
		}
	case tagAnswerOpen:
		if literal = m.begun || m.wrapped; !literal {
			m.wrapped, m.trim = true, true
			m.skip(n)
			m.expect()
		}
	case tagAnswerClose:
		if literal = !m.wrapped || m.s.Cfg.Formed; !literal {
			m.wrapped = false
			m.s.Out.Flush()
			m.skip(n)
			m.trim = true
		}
	case tagCall:
		if literal = m.s.Cfg.Formed && m.begun || m.s.Cfg.Opens != nil && !m.s.Cfg.Opens(m.heldFrom(n)); !literal {
			m.s.Out.Flush()
			m.openCall(&m.groups[a.pair], n, byToken)
		}
	}
	if literal {
		m.release(n)
	}
}

// enterCall begins to read a block of calls. opening is its mark, if that is text.
func (m *Text) enterCall(g *callGroup, opening string) {
	m.state, m.mode = 0, modeCall
	m.calls.enter(g, opening)
}

// resume begins an answer after a block of calls.
func (m *Text) resume() {
	m.trim, m.begun = true, false
	m.enter(modeAnswer)
	m.expect()
}

// stray begins an answer with text that did not belong to its block.
func (m *Text) stray(text string) {
	m.trim, m.begun = true, false
	m.enter(modeAnswer)
	m.read(text)
}

// refuse goes on with the answer where there was no block.
func (m *Text) refuse(literal, rest string) {
	m.mode, m.state = modeAnswer, 0
	m.answerText(literal)
	m.read(rest)
}

// read takes text.
func (m *Text) read(text string) { m.Push(text, false, false) }

// answerText adds text to the answer that is no mark.
func (m *Text) answerText(text string) {
	if text == "" {
		return
	}
	m.trim, m.begun, m.said = false, true, true
	m.s.Out.Text(text)
}

// openCall takes a mark of n bytes that begins calls. One that is spelled is kept, in case that what follows is no
// call.
func (m *Text) openCall(g *callGroup, n int, byToken bool) {
	if byToken {
		m.skip(n)
		m.enterCall(g, "")
		return
	}
	for n > 0 {
		n -= len(m.pop(n).text)
	}
	m.enterCall(g, g.open)
}

// heldFrom returns the held text after its first n bytes.
func (m *Text) heldFrom(n int) string {
	var b strings.Builder
	for _, h := range m.held {
		b.WriteString(h.text)
	}
	return b.String()[n:]
}

// Finish sends what is held and closes what is open.
func (m *Text) Finish() {
	if m.waiting {
		m.endWait()
	}
	if m.mode == modeObject {
		m.s.Object.Finish()
		return
	}
	m.release(m.nheld)
	m.state = 0
	if m.mode == modeCall {
		m.calls.finish()
	}
	m.s.Out.End()
	if m.mode == modeReasoning {
		m.s.Warn(reader.CodeReasoningUnclosed)
	}
}

func isNewline(c byte) bool { return c == '\n' || c == '\r' }
