package markup

import (
	"slices"
	"strings"

	"runner/chattemplate"
	"runner/chattemplate/reader"
	"runner/reasoning"
	"runner/reasoning/patterns"
)

// Text reads a turn that is one text and arrives in pieces. It finds the markers around the reasoning, around the
// answer (some families mark it too) and of tool calls. Text that may still become a marker is held back.
//
// A control token always counts as a marker. If the vocabulary has a marker as a token, the same text in other tokens
// is none. User-defined tokens and markers that are spelled out count unless they only mention a marker, which
// [prose] tells from the text around them. Newlines next to a marker belong to the marker.
type Text struct {
	core *reader.Core
	// strategies has the strategy of each pair of tags around reasoning.
	strategies []reasoning.Strategy
	// tags are the markers around reasoning and answers.
	tags []string
	// answer finds the markers in the answer, and reasoning those in the reasoning, by pair.
	answer    *patterns.Matcher
	markers   []marker // what the patterns of answer mean
	reasoning []*patterns.Matcher
	// tokens has the marks of which the vocabulary has the beginning as a token.
	tokens map[string]string
	// groups are the ways in which calls begin. bare is the one without a mark: the answer itself begins as a call.
	groups []callGroup
	bare   *callGroup

	mode  textMode
	pair  int // the tags around the current reasoning
	state int32
	held  []heldPiece
	nheld int
	// asked is the length of a closing marker at the beginning of the held text, of which only the text after it shows
	// whether it closes; 0 if there is none. breaks is the number of newlines in it.
	asked, breaks int
	prose         prose
	// early is the text at the beginning of a turn that may be reasoning, see reader.Config.Thinks. nearly is its length.
	early  []heldPiece
	nearly int
	unsure bool
	// trim drops newlines until text comes. begun says that text has come since the last marker.
	trim, begun bool
	// seen says that reasoning has come, or that the prompt skipped it.
	seen bool
	// wrapped says that the marker which opens the answer has come.
	wrapped bool
	calls   block
	// waiting says that the answer may be the object of strategy json. Its text is held until that is known.
	waiting bool
	// said says that this turn has had an answer. literal says that no call begins in the current text.
	said, literal bool
}

// heldPiece is the text of a token, or a part of it, that is held back.
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

// marker is what a marker in the answer means.
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

// endMark is the index of the closing marker among the patterns in reasoning.
const endMark = 0

// tagsOfPair is the number of markers in tags for each pair: around reasoning, then around the answer.
const tagsOfPair = 4

// maxHeldNewlines is the maximum number of newlines before a closing marker that belong to it.
const maxHeldNewlines = 8

// Init prepares for a turn, or for the answers in it. The core must not move afterwards. If tools is set, calls are
// read: in the style calls, or, if that is nil, in every style whose mark cannot mean anything else.
func (t *Text) Init(core *reader.Core, formats []Format, calls *CallStyle, tools bool) {
	t.core = core
	t.calls = block{core: core, in: t}
	var texts []string
	add := func(text string, kind markerKind, index int) {
		if text != "" {
			texts = append(texts, text)
			t.markers = append(t.markers, marker{kind, index})
		}
	}
	for i, f := range formats {
		strategy := reasoning.StrategyNative
		if f.Open == reasoning.MarkerOpen {
			strategy = reasoning.StrategyMarkers
		}
		t.strategies = append(t.strategies, strategy)
		add(f.Open, openTag, i)
		add(f.Close, closeTag, i)
		add(f.AnswerOpen, openAnswer, i)
		add(f.AnswerClose, closeAnswer, i)
		t.tags = append(t.tags, f.Open, f.Close, f.AnswerOpen, f.AnswerClose)
		t.reasoning = append(t.reasoning, patterns.NewMatcher(f.Close, f.Open))
	}
	if tools && (!core.Cfg.Formed || core.Cfg.Opens != nil) {
		t.groups = callGroups(&core.Cfg, calls)
		for i, g := range t.groups {
			add(g.open, openCalls, i)
			if g.open == "" {
				t.bare = &t.groups[i]
			}
		}
	}
	t.answer = patterns.NewMatcher(texts...)
	t.tokens = map[string]string{}
	for _, text := range texts {
		for n := len(text); n > 1; n-- {
			if _, ok := core.Cfg.Vocab.Special(text[:n]); ok {
				t.tokens[text] = text[:n]
				break
			}
		}
	}
}

// BeginAnswer makes the next text part of the answer, newlines included, if the answer is held to a form.
func (t *Text) BeginAnswer() {
	if t.core != nil && t.core.Cfg.Formed && t.mode == modeAnswer {
		t.trim, t.begun = false, true
	}
}

// Start begins a turn, or a message with an answer.
func (t *Text) Start(at chattemplate.Start) {
	t.state, t.held, t.nheld, t.begun, t.wrapped = 0, t.held[:0], 0, false, false
	t.asked, t.early, t.nearly = 0, t.early[:0], 0
	t.unsure = t.core.Cfg.Thinks && at == chattemplate.StartTurn && len(t.strategies) > 0
	t.trim, t.seen, t.said, t.waiting = len(t.strategies) > 0, false, false, false
	switch {
	case len(t.strategies) == 0:
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
	t.prose.reset()
	switch mode {
	case modeAnswer:
		t.core.Out.Begin(t.core.Shown, reasoning.Call{})
	case modeReasoning:
		t.core.Out.Reason(t.strategies[t.pair])
	}
}

// Segment returns the segment of the next text, as far as that is known.
func (t *Text) Segment() reasoning.Segment {
	switch {
	case t.waiting, t.unsure:
		return reasoning.Header
	case t.mode == modeObject:
		return t.core.Object.Segment()
	case t.mode == modeReasoning, t.mode == modeCall && t.calls.report:
		return reasoning.Reasoning
	case t.mode == modeCall && t.calls.opened():
		return reasoning.ToolCall
	}
	return t.core.Shown
}

// Marked reports whether the next text is reasoning between the markers of strategy markers.
func (t *Text) Marked() bool {
	return t.mode == modeReasoning && t.strategies[t.pair] == reasoning.StrategyMarkers
}

// Steering reports whether the next text may decide what segment follows. An answer that has begun does not count,
// though its text may become a marker: it rarely does.
func (t *Text) Steering() bool {
	switch t.mode {
	case modeReasoning:
		return t.asked > 0
	case modeAnswer:
		opens := len(t.strategies) > 0 && !t.seen && !t.begun
		return t.waiting || t.unsure || opens
	case modeCall:
		return !t.calls.inArguments()
	case modeObject:
		return t.core.Object.Segment() == reasoning.Header
	}
	return false
}

// InObject reports whether the next text belongs to an object, or may belong to one.
func (t *Text) InObject() bool {
	return t.waiting || t.mode == modeObject && !t.core.Object.Ended() || t.mode == modeCall && t.calls.report
}

// TakesControl reports whether a control token can count as part of a marker. In an object it cannot.
func (t *Text) TakesControl() bool { return t.mode != modeObject || t.core.Object.Ended() }

// Call returns the call of the next text. It is zero outside of calls.
func (t *Text) Call() reasoning.Call {
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

// Push takes the text of a token. control says that the text of the token is no output: it counts only as part of a
// marker. special says that the token is user-defined.
func (t *Text) Push(piece string, control, special bool) {
	switch {
	case piece == "":
		return
	case t.waiting:
		t.wait(piece, control, special)
		return
	case t.asked > 0:
		t.hold(piece, control, special)
		t.decide(false)
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
	t.hold(piece, control, special)
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
			if t.asked > 0 {
				t.decide(false)
				return
			}
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

// hold adds a token to the held text.
func (t *Text) hold(piece string, control, special bool) {
	t.held = append(t.held, heldPiece{piece, control, control || special})
	t.nheld += len(piece)
}

// beginsBare reports whether the answer begins as a call without a mark. If so, it begins to read a call and cuts the
// newlines that belong to the last marker off the text.
func (t *Text) beginsBare(text *string) bool {
	if t.mode != modeAnswer || t.literal || t.begun || t.nheld > 0 {
		return false
	}
	rest := *text
	if t.trim {
		rest = strings.TrimLeft(rest, "\r\n")
	}
	if rest == "" || rest[0] != '{' {
		return false
	}
	t.settle(false)
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

// pop removes up to n bytes from the front of the held text. They are all of one token.
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

// release sends n held bytes as text.
func (t *Text) release(n int) {
	for n > 0 {
		p := t.pop(n)
		n -= len(p.text)
		if p.control {
			t.core.Warn(reader.CodeStrayControl)
			t.settle(false)
			t.core.Out.Flush()
			t.core.Out.Drop(len(p.text), reader.UseForeign)
			continue
		}
		t.body(p.text)
	}
}

// skip drops n held bytes, which are a marker. The text before them must have been sent.
func (t *Text) skip(n int) {
	for n > 0 {
		p := t.pop(n)
		n -= len(p.text)
		t.core.Out.Drop(len(p.text), reader.UseForeign)
	}
}

// body takes text outside of markers.
func (t *Text) body(text string) {
	if t.trim {
		i := 0
		for i < len(text) && isNewline(text[i]) {
			i++
		}
		if t.unsure {
			t.keep(heldPiece{text: text[:i], control: true})
		} else {
			t.core.Out.Drop(i, reader.UseTrimmed)
		}
		if text = text[i:]; text == "" {
			return
		}
		t.trim = false
	}
	t.begun = true
	t.prose.add(text)
	if t.unsure {
		t.keep(heldPiece{text: text})
		return
	}
	if t.core.Cfg.JSON != nil && !t.said && t.mode == modeAnswer && t.core.Shown == reasoning.Answer && !isBlank(text) {
		t.said = true
		t.core.Warn(reader.CodeNotObject)
	}
	t.core.Out.Text(text)
}

// enterCall begins to read a block of calls. opening is its mark, or empty if the mark was a token.
func (t *Text) enterCall(g *callGroup, opening string) {
	t.state, t.mode = 0, modeCall
	t.calls.enter(g, opening)
}

// resume begins an answer after reasoning or a block of calls.
func (t *Text) resume() {
	t.trim, t.begun = true, false
	t.enter(modeAnswer)
	t.expect()
}

// stray begins an answer with text that stood in a block of calls and does not belong there.
func (t *Text) stray(text string) {
	t.trim, t.begun = true, false
	t.enter(modeAnswer)
	t.read(text)
}

// refuse continues the answer: what looked like a block of calls was not one. In literal no call begins. rest is read
// again.
func (t *Text) refuse(literal, rest string) {
	t.mode, t.state = modeAnswer, 0
	if t.literal = true; literal != "" {
		t.trim, t.begun, t.said = false, true, true
		t.read(literal)
		t.prose.reset() // a mark of reasoning right after it is no mention
	}
	t.literal = false
	t.read(rest)
}

// read takes text that is not the text of a mark.
func (t *Text) read(text string) { t.Push(text, false, false) }

// thinks reports whether a token is a mark around reasoning, and whether it is the opening one.
func (t *Text) thinks(piece string) (opens, is bool) {
	for i := 0; i < len(t.tags); i += tagsOfPair {
		if piece == t.tags[i] || piece == t.tags[i+1] {
			return piece == t.tags[i], true
		}
	}
	return false, false
}

// openCall takes the held mark of n bytes that begins calls. If it was spelled out, the block keeps it: without a call
// after it, the mark is text.
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

// heldFrom returns the held text from byte n on.
func (t *Text) heldFrom(n int) string {
	var b strings.Builder
	for _, h := range t.held {
		b.WriteString(h.text)
	}
	return b.String()[n:]
}

// Cut is Finish for a text that a limit has cut off. It drops what may be the beginning of a marker of the reasoning.
// The caller must not see a piece of such a marker, and it is no text of the answer either.
func (t *Text) Cut() {
	t.conclude()
	held := t.heldFrom(0)
	for i := range held {
		if slices.ContainsFunc(t.tags, func(tag string) bool { return strings.HasPrefix(tag, held[i:]) }) {
			t.release(i)
			for t.unsure && t.nheld > 0 {
				t.keep(heldPiece{text: t.pop(t.nheld).text, control: true})
			}
			t.core.Out.Flush()
			t.skip(t.nheld)
			break
		}
	}
	t.Finish()
}

// conclude decides what is still open because no more text comes. Each decision may have text read again.
func (t *Text) conclude() {
	for {
		switch {
		case t.waiting:
			t.endWait()
		case t.asked > 0:
			t.decide(true)
		case t.mode == modeCall && t.calls.active:
			t.calls.finish()
		default:
			return
		}
	}
}

// Finish sends what is held and closes what is open.
func (t *Text) Finish() {
	t.conclude()
	if t.mode == modeObject {
		t.core.Object.Finish()
		return
	}
	t.release(t.nheld)
	unclosed := t.mode == modeReasoning || t.unsure && t.begun && !t.core.Ended
	t.settle(unclosed)
	t.state = 0
	t.core.Out.End()
	if unclosed {
		t.core.Warn(reader.CodeReasoningUnclosed)
	}
}

func isNewline(c byte) bool { return c == '\n' || c == '\r' }
