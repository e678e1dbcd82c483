package filter

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"runner/reasoning"
)

// RationaleConfig configures a RationaleFilter. The zero value is usable.
type RationaleConfig struct {
	// Iteration is the iteration of the run's decisions.
	Iteration int
	// Separator is put before the text of a segment if an earlier segment of its kind had text. The filter does this
	// instead of the reader.
	Separator string
	// Formed means that the answer must match a form, so no blocks are looked for in it.
	Formed bool
	// Taken, when not nil, gets the text of each block when it ends, even if it cannot be parsed: at most about 16 KiB.
	Taken func(text string)
}

// RationaleFilter takes the model's reasons for its calls out of the text. It also finds the assumptions that the
// model states, which stay in the text. It stands between a reader and the rest of the pipeline.
//
// A reason is in a block <rationale call="N">{...}</rationale> in reasoning, preambles or answers. N is the place of
// the call among the calls of the turn, from 1. Blocks without N are numbered in order. The filter holds back text
// that may be the beginning of a block. A block ends at its first closing tag. If something else follows its object,
// it ends with the object. Otherwise it ends with its segment. If a block begins a line, the line breaks after it are
// removed too. The text in a block never passes, even if the block is malformed. The reader may also have read a
// reason next to a call's arguments. If a call has several reasons, the first counts.
//
// A reason becomes a Decided event just before its call begins, or at once if the call has already begun. A reason for
// a call that does not come is dropped, with a warning. Assumptions become Assumed events after the text that contains
// them.
type RationaleFilter struct {
	emit   func(reasoning.Event)
	cfg    RationaleConfig
	spoken [reasoning.Answer + 1]bool

	// cut says that the open segment ends because the output was cut off.
	cut bool
	// start is the event that opens the segment, until some of its text passes. inText means that a segment of text is
	// open, and started that start was sent.
	start           reasoning.Event
	inText, started bool

	held heldText
	// plain is how many of the held bytes are certainly text. suspect is how many bytes after them may belong to a block.
	plain, suspect int
	place          blockPlace
	// last is the last byte of text that passed or certainly will.
	last byte
	// tag and body hold what has come of the block's opening tag and of its content. closing is how much of the closing
	// tag has come.
	tag, body []byte
	closing   int
	object    objectEnd
	lineStart bool

	assumptions assumptionReader
	blocks      int
	calls       []reasoning.Call
	// decided holds the places of calls that have a reason. waiting holds the reasons for calls that have not begun.
	decided []int
	waiting []placedRationale
	warned  []string
}

// blockPlace is the filter's position relative to a block.
type blockPlace uint8

const (
	outsideBlock blockPlace = iota
	inBlockTag
	inBlock
	afterObject // in a block whose object is complete
	afterBlock  // line breaks are removed here
)

const (
	blockOpen  = "<rationale"
	blockClose = "</rationale"
	// maxBlockTag is the maximum length of an opening tag in bytes, and maxBlock that of a block's content. maxPlace is
	// the maximum number of calls that can have reasons.
	maxBlockTag = 64
	maxBlock    = 16 << 10
	maxPlace    = 128
)

// placedRationale is a reason with the place of its call, from 1.
type placedRationale struct {
	place     int
	rationale reasoning.Rationale
}

// The codes of warnings about reasons. A run sends each at most once.
const (
	// CodeMalformedRationale: a block holds no valid reason.
	CodeMalformedRationale = "malformed_rationale"
	// CodeUnfinishedRationale: a segment ended inside a block.
	CodeUnfinishedRationale = "unfinished_rationale"
	// CodeStrayRationale: a reason is for a call that did not come.
	CodeStrayRationale = "stray_rationale"
)

// CuratedHistory is the code of a Curated event: reasoning of earlier turns was left out of the prompt.
const CuratedHistory = "history-analysis-dropped"

var rationaleMessages = map[string]string{
	CodeMalformedRationale:  "the reason for a call could not be read and was left out",
	CodeUnfinishedRationale: "the reason for a call was not closed",
	CodeStrayRationale:      "a reason was given for a call that did not come",
}

// NewRationaleFilter returns a filter that sends its events to emit.
func NewRationaleFilter(cfg RationaleConfig, emit func(reasoning.Event)) *RationaleFilter {
	f := &RationaleFilter{emit: emit, cfg: cfg}
	f.held.emit = f.pass
	return f
}

// Count returns how many of the calls so far have a reason, and how many have none.
func (f *RationaleFilter) Count() reasoning.RationaleCount {
	stated := 0
	for _, place := range f.decided {
		if place <= len(f.calls) {
			stated++
		}
	}
	return reasoning.RationaleCount{Stated: stated, Missing: len(f.calls) - stated}
}

// Push handles the next event.
func (f *RationaleFilter) Push(e reasoning.Event) {
	if e.Kind == reasoning.Decided {
		if e.Decision != nil {
			f.decide(placedRationale{e.Call.Index + 1, e.Decision.Rationale})
		} else {
			f.warn(CodeMalformedRationale)
		}
		return
	}
	switch e.Segment {
	case reasoning.Reasoning, reasoning.Preamble, reasoning.Answer:
	default:
		if e.Kind == reasoning.SegmentStart && e.Segment == reasoning.ToolCall {
			f.begin(e.Call)
		}
		f.emit(e)
		return
	}
	switch e.Kind {
	case reasoning.SegmentStart:
		f.endText()
		f.start, f.inText, f.started, f.last = e, true, false, '\n'
	case reasoning.SegmentDelta:
		f.text(&e)
	case reasoning.SegmentEnd:
		f.endText()
	default:
		f.emit(e)
	}
}

// Cut says that a segment which is still open is cut off. Text that may be the beginning of a block is then dropped.
func (f *RationaleFilter) Cut() { f.cut = true }

// Finish ends the stream and sends what is held back.
func (f *RationaleFilter) Finish() {
	f.endText()
	if len(f.waiting) > 0 {
		f.waiting = nil
		f.warn(CodeStrayRationale)
	}
}

// text handles a delta.
func (f *RationaleFilter) text(e *reasoning.Event) {
	if f.start.Segment == reasoning.Answer && f.cfg.Formed {
		f.pass(*e)
		return
	}
	if f.place == outsideBlock && strings.IndexByte(e.Text, '<') < 0 {
		f.last = e.Text[len(e.Text)-1]
		f.pass(*e)
		return
	}
	f.held.add(e)
	for i := range len(e.Text) {
		f.step(e.Text[i])
	}
	f.settle()
}

// settle sends the bytes that are certainly text, and drops those that certainly belong to a block.
func (f *RationaleFilter) settle() {
	f.held.release(f.plain)
	f.plain = 0
	if f.place == inBlock || f.place == afterBlock {
		f.dropSuspect()
	}
}

func (f *RationaleFilter) dropSuspect() {
	f.held.release(f.plain)
	f.held.drop(f.suspect)
	f.plain, f.suspect = 0, 0
}

// step reads a byte of text.
func (f *RationaleFilter) step(c byte) {
	switch f.place {
	case outsideBlock:
		if c == '<' {
			f.place, f.tag, f.suspect = inBlockTag, append(f.tag[:0], c), 1
			f.lineStart = f.last == '\n'
			return
		}
		f.plain++
		f.last = c
	case inBlockTag:
		f.tagByte(c)
	case inBlock:
		f.suspect++
		f.bodyByte(c)
	case afterObject:
		f.tailByte(c)
	case afterBlock:
		if c == '\n' || c == '\r' {
			f.suspect++
			return
		}
		f.dropSuspect()
		f.place = outsideBlock
		f.step(c)
	}
}

// tagByte reads a byte of a possible opening tag.
func (f *RationaleFilter) tagByte(c byte) {
	n := len(f.tag)
	begins := n < len(blockOpen) && lower(c) == blockOpen[n] || n == len(blockOpen) && (isSpace(c) || c == '>') ||
		n > len(blockOpen) && n < maxBlockTag && c != '<'
	if !begins {
		f.plain += f.suspect
		f.last, f.suspect, f.place = f.tag[n-1], 0, outsideBlock
		f.step(c)
		return
	}
	f.tag = append(f.tag, c)
	f.suspect++
	if c == '>' {
		f.place, f.body, f.closing, f.object = inBlock, f.body[:0], 0, objectEnd{}
	}
}

// bodyByte reads a byte of a block's content.
func (f *RationaleFilter) bodyByte(c byte) {
	if f.closes(c) {
		f.endBlock()
		return
	}
	if len(f.body) <= maxBlock {
		f.body = append(f.body, c)
	}
	if f.object.next(c) {
		f.dropSuspect()
		f.place, f.closing = afterObject, 0
	}
}

// tailByte reads a byte after a block's object.
func (f *RationaleFilter) tailByte(c byte) {
	f.suspect++
	switch {
	case f.closes(c):
		f.endBlock()
	case f.closing == 0 && !isSpace(c):
		// No closing tag follows, so this is text.
		tail := f.bytesOf(f.suspect)
		f.suspect = 0
		f.endBlock()
		for i := range len(tail) {
			f.step(tail[i])
		}
	}
}

// bytesOf returns the first n held bytes.
func (f *RationaleFilter) bytesOf(n int) string {
	var b strings.Builder
	for i := range f.held.events {
		text := f.held.events[i].Text
		b.WriteString(text[:min(len(text), n-b.Len())])
		if b.Len() == n {
			break
		}
	}
	return b.String()
}

// closes reads a byte that may belong to the closing tag. It reports whether the tag is complete.
func (f *RationaleFilter) closes(c byte) bool {
	switch n := f.closing; {
	case n == len(blockClose) && c == '>':
		return true
	case n == len(blockClose) && isSpace(c):
	case n < len(blockClose) && lower(c) == blockClose[n]:
		f.closing++
	case c == '<':
		f.closing = 1
	default:
		f.closing = 0
	}
	return false
}

var (
	callAttribute = regexp.MustCompile(`(?i)^call\s*=\s*(?:"\s*(\d{1,4})\s*"|'\s*(\d{1,4})\s*'|(\d{1,4}))$`)
	closingTail   = regexp.MustCompile(`(?i)</rationale\s*$`)
)

// endBlock parses a complete block.
func (f *RationaleFilter) endBlock() {
	f.dropSuspect()
	f.taken()
	f.blocks++
	place := f.blocks
	attribute := strings.TrimSpace(strings.TrimSuffix(string(f.tag[len(blockOpen):]), ">"))
	if attribute != "" {
		place = 0
		if m := callAttribute.FindStringSubmatch(attribute); m != nil {
			place, _ = strconv.Atoi(m[1] + m[2] + m[3]) // at most four digits
		}
	}
	rationale, ok := reasoning.Rationale{}, len(f.body) <= maxBlock && place >= 1 && place <= maxPlace
	if ok {
		rationale, ok = reasoning.ParseRationale(closingTail.ReplaceAll(f.body, nil))
	}
	if ok {
		f.decide(placedRationale{place, rationale})
	} else {
		f.warn(CodeMalformedRationale)
	}
	if f.place = outsideBlock; f.lineStart {
		f.place = afterBlock
	}
}

// taken passes the content of a block to Config.Taken.
func (f *RationaleFilter) taken() {
	if f.cfg.Taken != nil {
		f.cfg.Taken(string(f.body))
	}
}

// endText ends a segment of text.
func (f *RationaleFilter) endText() {
	if !f.inText {
		return
	}
	switch {
	case f.place == inBlock, f.place == inBlockTag && len(f.tag) > len(blockOpen):
		f.warn(CodeUnfinishedRationale)
		f.dropSuspect()
		if f.place == inBlock {
			f.taken()
		}
		f.blocks++
	case f.place == afterObject:
		if f.closing == 0 {
			f.warn(CodeUnfinishedRationale)
		}
		f.endBlock()
	case f.place == afterBlock, f.cut:
		f.dropSuspect()
	}
	f.held.release(f.held.size)
	f.plain, f.suspect, f.place = 0, 0, outsideBlock
	f.assume(f.assumptions.finish())
	f.inText = false
	if f.started {
		f.emit(reasoning.Event{Kind: reasoning.SegmentEnd, Segment: f.start.Segment, Call: f.start.Call})
	}
}

// pass sends a delta, and the start of its segment if that was not sent yet.
func (f *RationaleFilter) pass(e reasoning.Event) {
	if !f.started {
		f.started = true
		f.emit(f.start)
		if f.spoken[e.Segment] && f.cfg.Separator != "" {
			f.emit(reasoning.Event{Kind: reasoning.SegmentDelta, Segment: e.Segment, Text: f.cfg.Separator})
		}
		f.spoken[e.Segment] = true
	}
	f.emit(e)
	if e.Segment == reasoning.Answer && f.cfg.Formed {
		return
	}
	for text := e.Text; text != ""; {
		n, a := f.assumptions.next(text)
		f.assume(a)
		text = text[n:]
	}
}

// assume sends an assumption, if there is one.
func (f *RationaleFilter) assume(a *reasoning.Assumption) {
	if a != nil {
		f.emit(reasoning.Event{Kind: reasoning.Assumed, Assumption: a})
	}
}

// begin records that a call begins.
func (f *RationaleFilter) begin(call reasoning.Call) {
	f.calls = append(f.calls, call)
	for i, p := range f.waiting {
		if p.place == len(f.calls) {
			f.waiting = slices.Delete(f.waiting, i, i+1)
			f.tell(p)
			return
		}
	}
}

// decide handles a reason. A call that has one keeps it.
func (f *RationaleFilter) decide(p placedRationale) {
	if slices.Contains(f.decided, p.place) {
		return
	}
	f.decided = append(f.decided, p.place)
	if p.place > len(f.calls) {
		f.waiting = append(f.waiting, p)
		return
	}
	f.tell(p)
}

func (f *RationaleFilter) tell(p placedRationale) {
	call := f.calls[p.place-1]
	f.emit(reasoning.Event{Kind: reasoning.Decided, Call: call, Decision: &reasoning.Decision{
		Iteration: f.cfg.Iteration, Decision: reasoning.DecisionToolSelection, ToolName: call.Name, Rationale: p.rationale,
	}})
}

func (f *RationaleFilter) warn(code string) {
	if !slices.Contains(f.warned, code) {
		f.warned = append(f.warned, code)
		f.emit(reasoning.Event{Kind: reasoning.Warning, Code: code, Text: fmt.Sprintf("%s (call %d)", rationaleMessages[code],
			len(f.calls)+1)})
	}
}

// objectEnd finds the end of a JSON object.
type objectEnd struct {
	depth           int
	begun, over     bool
	quoted, escaped bool
}

// next reads a byte and reports whether it ends the object. Text that does not begin like an object has no end.
func (o *objectEnd) next(c byte) bool {
	switch {
	case o.over:
	case !o.begun:
		o.begun, o.over = c == '{', c != '{' && !isSpace(c)
		o.depth = 1
	case o.escaped:
		o.escaped = false
	case o.quoted && c == '\\':
		o.escaped = true
	case c == '"':
		o.quoted = !o.quoted
	case o.quoted:
	case c == '{' || c == '[':
		o.depth++
	case c == '}' || c == ']':
		o.depth--
		o.over = o.depth == 0
		return o.over
	}
	return false
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
