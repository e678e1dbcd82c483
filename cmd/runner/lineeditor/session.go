package lineeditor

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// session edits one text.
type session struct {
	options *Options
	prompt  Prompt
	display display
	killed  *string // what the last kill removed, for yank

	buffer
	// entry is the entry of the history that is shown, or the number of entries for the new text. drafts holds the new
	// text and the changed entries.
	entry  int
	drafts map[int]string
	search *search
	killer bool // the last key was a kill, so the next kill adds to it
	listed bool // the last key showed the candidates, so the same key does not show them again
	typed  bool // the last change was typed, not pasted, yanked, completed or recalled
}

func newSession(o *Options, p Prompt, d display, killed *string) *session {
	s := &session{options: o, prompt: p, display: d, killed: killed, drafts: map[int]string{}}
	s.entry = s.entries()
	return s
}

func (s *session) entries() int {
	if s.options.History == nil || s.prompt.Alone {
		return 0
	}
	return s.options.History.Len()
}

func (s *session) layout() layout {
	prompt := s.prompt.Text
	if s.search != nil {
		prompt = fmt.Sprintf("(search: %s) ", s.search.query)
	}
	return lay(prompt, s.options.More, s.buffer, s.display.columns())
}

func (s *session) draw() {
	hint := ""
	if s.text == "" && s.search == nil {
		hint = s.prompt.Placeholder
	}
	s.display.draw(s.layout(), hint)
}

func (s *session) finish() {
	s.search = nil
	s.display.finish(s.layout())
}

// press applies a key. It returns true if the text is complete. The error is [ErrInterrupted] or [io.EOF] if the user
// ended the input.
func (s *session) press(k key) (done bool, err error) {
	if s.search != nil && s.searching(k) {
		return false, nil
	}
	killer, listed := s.killer, s.listed
	s.killer, s.listed = false, false
	switch k.kind {
	case keyInterrupt:
		return true, ErrInterrupted
	case keyEnter:
		return s.enter(), nil
	case keyDeleteOrEnd:
		if s.text == "" {
			return true, io.EOF
		}
		s.cut(s.right())
	case keyText:
		s.add(k.text)
		s.typed = true
	case keyPaste:
		if k.over {
			s.tooLong()
		}
		s.add(k.text)
		s.typed = false
	case keyNewline:
		s.add("\n")
	case keyTab:
		s.complete(listed)
	case keyClear:
		s.display.clear()
	case keySearch:
		if s.entries() > 0 {
			s.search = &search{before: s.buffer, entry: s.entries()}
		}
	default:
		if !s.move(k.kind) {
			s.edit(k.kind, killer)
		}
	}
	return false, nil
}

// enter ends the text, or goes on with another line of it.
func (s *session) enter() (done bool) {
	if s.options.Continue == nil || s.prompt.Alone {
		return true
	}
	next, more := s.options.Continue(s.text, s.typed)
	switch {
	case !more:
		return true
	case s.at < len(s.text):
		s.add("\n")
	case len(next) > s.options.Limit:
		s.tooLong()
	default:
		s.set(next)
	}
	return false
}

// replace sets a text that was not typed.
func (s *session) replace(text string) {
	s.set(text)
	s.typed = false
}

// move moves the cursor. It returns false for a key that does not.
func (s *session) move(k keyKind) bool {
	switch k {
	case keyLeft:
		s.at = s.left()
	case keyRight:
		s.at = s.right()
	case keyHome:
		s.at = s.home()
	case keyEnd:
		s.at = s.end()
	case keyWordLeft:
		s.at = s.wordLeft()
	case keyWordRight:
		s.at = s.wordRight()
	case keyUp:
		s.vertical(-1)
	case keyDown:
		s.vertical(1)
	case keyOlder:
		s.recall(s.entry - 1)
	case keyNewer:
		s.recall(s.entry + 1)
	default:
		return false
	}
	return true
}

// edit removes or yanks text. again is set if the key before it was a kill.
func (s *session) edit(k keyKind, again bool) {
	at := s.at
	switch k {
	case keyBackspace:
		s.cut(s.left())
	case keyDelete:
		s.cut(s.right())
	case keyYank:
		s.add(*s.killed)
		s.typed = false
	case keyKillToEnd:
		at = s.end()
		if at == s.at {
			at = s.right() // the newline
		}
	case keyKillToStart:
		at = s.home()
	case keyKillSpaced:
		at = s.spacedLeft()
	case keyKillWordLeft:
		at = s.wordLeft()
	case keyKillWordRight:
		at = s.wordRight()
	}
	switch k {
	case keyKillToEnd, keyKillToStart, keyKillSpaced, keyKillWordLeft, keyKillWordRight:
		s.kill(at, again)
	}
}

func (s *session) kill(to int, again bool) {
	if to == s.at {
		return
	}
	forward := to > s.at
	text := s.cut(to)
	switch {
	case again && forward:
		text = *s.killed + text
	case again:
		text += *s.killed
	}
	*s.killed, s.killer = text, true
}

// add inserts text, unless the whole would become too long.
func (s *session) add(text string) {
	if len(s.text)+len(text) > s.options.Limit {
		s.tooLong()
		return
	}
	s.insert(text)
}

func (s *session) tooLong() {
	s.display.note(fmt.Sprintf("The text was not added: the limit is %d bytes. %s", s.options.Limit, s.options.LimitHint))
}

// vertical goes to another row. In the first and the last row, it goes to another entry of the history.
func (s *session) vertical(by int) {
	l := s.layout()
	if to := l.cursor + by; to >= 0 && to < len(l.rows) {
		s.at = l.offset(s.text, to, displaywidth.String(l.before))
		return
	}
	s.recall(s.entry + by)
}

// recall shows an entry of the history, or the new text.
func (s *session) recall(entry int) {
	if entry < 0 || entry > s.entries() {
		return
	}
	s.drafts[s.entry] = s.text
	text, changed := s.drafts[entry]
	if !changed {
		text = s.options.History.Line(entry)
	}
	s.entry = entry
	s.replace(text)
}

// complete extends the text to what all candidates begin with. If that adds nothing, it lists them, unless the key
// before it did that.
func (s *session) complete(shown bool) {
	if s.options.Candidates == nil || s.prompt.Alone || s.at != len(s.text) {
		return
	}
	candidates := s.options.Candidates(s.text)
	candidates = slices.DeleteFunc(slices.Clone(candidates), func(c string) bool { return !strings.HasPrefix(c, s.text) })
	if len(candidates) == 0 {
		return
	}
	common := candidates[0]
	for _, c := range candidates[1:] {
		for !strings.HasPrefix(c, common) {
			common = common[:before(common, len(common))]
		}
	}
	if s.listed = common == s.text && len(candidates) > 1; s.listed && !shown {
		s.display.note(listed(candidates, strings.LastIndexByte(s.text, ' ')+1, s.display.columns()))
	}
	s.replace(common)
}

// search is an incremental search in the history, from the newest entry to the oldest.
type search struct {
	query  string
	entry  int
	before buffer // the text before the search
}

// searching applies a key to the search. It returns false if the key ends the search and does something else as well.
func (s *session) searching(k key) bool {
	q := s.search
	switch k.kind {
	case keyText:
		if len(q.query)+len(k.text) > searchLimit {
			return true
		}
		q.query += k.text
		s.find(min(q.entry, s.entries()-1))
	case keyBackspace:
		q.query = q.query[:before(q.query, len(q.query))]
		s.find(s.entries() - 1)
	case keySearch:
		s.find(q.entry - 1)
	case keyCancel:
		s.buffer, s.search = q.before, nil
	case keyEscape:
		s.endSearch()
	case keyNone:
	default:
		s.endSearch()
		return false
	}
	return true
}

// endSearch goes on with the entry that was found.
func (s *session) endSearch() {
	if q := s.search; q.entry < s.entries() {
		s.drafts[s.entry] = q.before.text
		s.entry = q.entry
	}
	s.search = nil
}

// searchLimit is the maximum size of a search in bytes.
const searchLimit = 1000

// find shows the newest entry that has the query and is not newer than an entry.
func (s *session) find(newest int) {
	if s.search.query == "" {
		return
	}
	for i := newest; i >= 0; i-- {
		text := s.options.History.Line(i)
		if at := strings.Index(text, s.search.query); at >= 0 {
			s.search.entry = i
			s.replace(text)
			s.at = boundary(text, at)
			return
		}
	}
}

// ErrInterrupted is the error of a text that the user dropped with Ctrl-C.
var ErrInterrupted = errors.New("interrupted")
