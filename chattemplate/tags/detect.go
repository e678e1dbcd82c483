package tags

import (
	"iter"
	"regexp"
	"slices"
	"strings"

	"runner/chattemplate"
	"runner/chattemplate/markup"
	"runner/reasoning"
)

// marks are the marks around reasoning, with the white space that the template puts around them.
type marks struct{ open, close string }

// knownTags are pairs of marks that models use. A pair counts only if the template or the vocabulary has it.
var knownTags = []marks{
	{"<think>", "</think>"},
	{"[THINK]", "[/THINK]"},
	{"<seed:think>", "</seed:think>"},
	{"<|START_THINKING|>", "<|END_THINKING|>"},
	{"<|channel>thought", "<channel|>"},
	{"<|inner_prefix|>", "<|inner_suffix|>"},
	{"◁think▷", "◁/think▷"},
	{"<|think_start|>", "<|think_end|>"},
	{"<|begin_of_thought|>", "<|end_of_thought|>"},
	{"Here is my thought process:", "Here is my response:"},
}

// answerTags are pairs of marks around the answer, for models that mark it too.
var answerTags = []marks{
	{"<response>", "</response>"},
	{"<|START_RESPONSE|>", "<|END_RESPONSE|>"},
}

// switches are the variables that turn reasoning off and on in templates, in the order in which they are tried.
var switches = []struct{ off, on []chattemplate.Variable }{
	{[]chattemplate.Variable{{Name: "enable_thinking", Is: false}, {Name: "thinking", Is: false}},
		[]chattemplate.Variable{{Name: "enable_thinking", Is: true}, {Name: "thinking", Is: true}}},
	{[]chattemplate.Variable{{Name: "reasoning_effort", Is: "none"}},
		[]chattemplate.Variable{{Name: "reasoning_effort", Is: "high"}}},
	{[]chattemplate.Variable{{Name: "thinking_budget", Is: 0.0}}, nil},
}

var (
	commentPattern = regexp.MustCompile(`(?s)\{#.*?#\}`)
	// closePattern finds closing marks with a name about thinking.
	closePattern = regexp.MustCompile(
		`</([\w.:-]*(?:think|thought|reason)[\w.:-]*)>|\[/([A-Z_]*(?:THINK|THOUGHT|REASON)[A-Z_]*)\]`)
	// markPattern matches one mark at the beginning of a text: <...>, [...] or ◁...▷ of at most 48 characters.
	markPattern = regexp.MustCompile(`^(?:<[^<>\s]{1,46}>|\[[^\[\]\n]{1,46}\]|◁[^◁▷\s]{1,46}▷)`)
	// lastPattern matches one mark at the end of a text.
	lastPattern = regexp.MustCompile(`(?:<[^<>\s]{1,46}>|\[[^\[\]\n]{1,46}\]|◁[^◁▷\s]{1,46}▷)$`)
	// thoughtPattern finds the name of a mark around reasoning, and answerPattern that of another mark which can end a
	// prompt.
	thoughtPattern = regexp.MustCompile(`(?i)think|thought|reason`)
	answerPattern  = regexp.MustCompile(`(?i)answer|response|reply|final|output|assistant|model|bot|message|text|content`)
)

// detect finds the marks of reasoning and the template's switch for it. It looks at what the template renders, then at
// the template's text, then at the vocabulary.
func detect(j *chattemplate.Template) *detection {
	ask := &chattemplate.Conversation{Messages: []chattemplate.Message{probeAsk}}
	base, _ := j.Probe(ask)
	d := &detection{j: j, source: commentPattern.ReplaceAllString(j.Source(), "")}
	d.base, d.on, d.off = base, base, base
	d.format.Tools = j.ShowsTools()
	for _, s := range switches {
		if !slices.ContainsFunc(s.off, func(v chattemplate.Variable) bool { return j.Reads(v.Name) }) {
			continue
		}
		off, okOff := j.Probe(ask, s.off...)
		on, okOn := j.Probe(ask, s.on...)
		if okOff && okOn && off != on && (s.off[0].Name != "reasoning_effort" || d.namesNone()) {
			d.on, d.off, d.switchOn, d.switchOff = on, off, s.on, s.off
			break
		}
	}
	for _, find := range []func() (marks, bool){d.fromHistory, d.fromPrompt, d.fromSource} {
		var ok bool
		if d.marks, ok = find(); ok {
			break
		}
	}
	if d.marks.open == "" {
		return d
	}
	d.format.Open, d.format.Close = strings.TrimSpace(d.marks.open), strings.TrimSpace(d.marks.close)
	d.format.CanSkip = d.switchOff != nil
	for _, a := range answerTags {
		if strings.Contains(d.source, a.open) && strings.Contains(d.source, a.close) {
			d.format.AnswerOpen, d.format.AnswerClose = a.open, a.close
			break
		}
	}
	if d.format.CanSkip {
		j.SetSwitch(d.switchOff, d.switchOn)
	}
	return d
}

// The messages of probes: a question, an answer, a call, and its result.
var (
	probeAsk    = chattemplate.Message{Role: chattemplate.User, Content: chattemplate.ProbeUser}
	probeAnswer = chattemplate.Message{Role: chattemplate.Assistant, Content: chattemplate.ProbeAnswer}
	probeCalls  = chattemplate.Message{Role: chattemplate.Assistant, ToolCalls: []chattemplate.ToolCall{
		{ID: "call00001", Name: chattemplate.ProbeTool, Arguments: `{"` + chattemplate.ProbeKey + `": 1}`},
	}}
	probeResult = chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: "call00001",
		ToolName: chattemplate.ProbeTool, Content: chattemplate.ProbeResult}
)

// detection is the state of detect and what it found.
type detection struct {
	format markup.Format
	marks  marks

	j      *chattemplate.Template
	source string // without comments
	// base, on and off are the prompts of a first question: without a switch, with reasoning on, and with it off.
	base, on, off string
	switchOn      []chattemplate.Variable
	switchOff     []chattemplate.Variable
}

// namesNone reports whether the template mentions an effort "none".
func (d *detection) namesNone() bool {
	return strings.Contains(d.source, `'none'`) || strings.Contains(d.source, `"none"`)
}

// opening returns the text of a prompt after the question, or after the result of a call: the end of that turn and the
// beginning of the assistant's.
func opening(prompt string) string {
	end := 0
	for _, last := range []string{chattemplate.ProbeUser, chattemplate.ProbeResult} {
		if i := strings.LastIndex(prompt, last); i >= 0 {
			end = max(end, i+len(last))
		}
	}
	if end == 0 {
		return ""
	}
	return prompt[end:]
}

// fromHistory renders answers with reasoning and finds the marks around the reasoning.
func (d *detection) fromHistory() (marks, bool) {
	answer, call := probeAnswer, probeCalls
	answer.Reasoning, call.Reasoning = chattemplate.ProbeReasoning, chattemplate.ProbeReasoning
	for _, set := range [][]chattemplate.Variable{d.switchOn, nil} {
		for _, c := range []*chattemplate.Conversation{
			{Messages: []chattemplate.Message{probeAsk, answer}, NoGenerationPrompt: true},
			{Messages: []chattemplate.Message{probeAsk, answer, probeAsk}},
			{Messages: []chattemplate.Message{probeAsk, call, probeResult}},
		} {
			text, ok := d.j.Probe(c, set...)
			if !ok {
				continue
			}
			if t, ok := d.around(text); ok {
				return t, true
			}
		}
	}
	return marks{}, false
}

// around returns the marks around the reasoning in a rendered history.
func (d *detection) around(text string) (marks, bool) {
	before, after, ok := strings.Cut(text, chattemplate.ProbeReasoning)
	if !ok {
		return marks{}, false
	}
	mark := markPattern.FindString(strings.TrimLeft(after, " \t\r\n"))
	if mark == "" {
		return marks{}, false
	}
	t := marks{close: padded(after, mark)}
	_, before, _ = strings.Cut(before, chattemplate.ProbeUser)
	if open := counterpart(mark); open != "" {
		t.open = open
		if i := strings.LastIndex(before, open); i >= 0 && strings.TrimSpace(before[i+len(open):]) == "" {
			t.open = before[i:]
		}
		return t, true
	}
	// The closing mark has no usual counterpart. The opening mark is the text after the header of the turn in the
	// history, or else in the prompt.
	prompt := opening(d.on)
	n := commonPrefix(before, prompt)
	if t.open = before[n:]; strings.TrimSpace(t.open) == "" {
		t.open = prompt[n:]
	}
	t.open = strings.TrimLeft(t.open, " \t\r\n")
	return t, t.open != ""
}

// padded returns mark with the white space around it in text. text begins with white space and the mark.
func padded(text, mark string) string {
	head, tail, _ := strings.Cut(text, mark)
	return head + mark + tail[:len(tail)-len(strings.TrimLeft(tail, "\r\n"))]
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// counterpart returns the opening mark for a closing one, or "" if mark does not look like a closing mark.
func counterpart(mark string) string {
	for _, t := range knownTags {
		if t.close == mark {
			return t.open
		}
	}
	for _, form := range closingPrefixes {
		if rest, ok := strings.CutPrefix(mark, form[0]); ok {
			return form[1] + rest
		}
	}
	for _, form := range closingSuffixes {
		if rest, ok := strings.CutSuffix(mark, form[0]); ok {
			return rest + form[1]
		}
	}
	return ""
}

// closingPrefixes and closingSuffixes are how closing marks begin or end, and how their opening marks do.
var (
	closingPrefixes = [][2]string{{"<|END_", "<|START_"}, {"<|end_of_", "<|begin_of_"}, {"<|/", "<|"}, {"◁/", "◁"},
		{"</", "<"}, {"[/", "["}}
	closingSuffixes = [][2]string{{"_end|>", "_start|>"}, {"_end>", "_start>"}}
)

// closingOf returns the closing mark for an opening one: one that the vocabulary has, or else the usual one.
func (d *detection) closingOf(open string) string {
	for _, t := range knownTags {
		if t.open == open {
			return t.close
		}
	}
	var all []string
	for _, form := range closingSuffixes {
		if rest, ok := strings.CutSuffix(open, form[1]); ok {
			all = append(all, rest+form[0])
		}
	}
	for _, form := range closingPrefixes {
		if rest, ok := strings.CutPrefix(open, form[1]); ok {
			all = append(all, form[0]+rest)
		}
	}
	for _, c := range all {
		if _, ok := d.j.Vocab().Special(c); ok {
			return c
		}
	}
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

// prompts returns prompts of all kinds: without and with a system prompt, tools, an earlier turn and the result of a
// call, and with each of these without and with the variables that turn reasoning on. Templates open reasoning in some.
func (d *detection) prompts() iter.Seq[string] {
	system := chattemplate.Message{Role: chattemplate.System, Content: chattemplate.ProbeKey}
	sets := [][]chattemplate.Variable{d.switchOn, nil}
	for _, s := range switches {
		for _, v := range s.on {
			if d.j.Reads(v.Name) {
				sets = append(sets, []chattemplate.Variable{v})
			}
		}
	}
	if d.j.Reads("reasoning_effort") {
		for _, e := range []reasoning.Effort{reasoning.EffortMinimal, reasoning.EffortLow, reasoning.EffortMedium} {
			sets = append(sets, []chattemplate.Variable{{Name: "reasoning_effort", Is: string(e)}})
		}
	}
	if d.j.Reads("thinking_budget") {
		sets = append(sets, []chattemplate.Variable{{Name: "thinking_budget", Is: 1024.0}})
	}
	return func(yield func(string) bool) {
		if !yield(d.on) || !yield(d.base) {
			return
		}
		for _, msgs := range [][]chattemplate.Message{
			{probeAsk}, {system, probeAsk}, {probeAsk, probeAnswer, probeAsk}, {probeAsk, probeCalls, probeResult},
		} {
			for _, tools := range [][]chattemplate.Tool{nil, chattemplate.ProbeTools} {
				if tools != nil && !d.j.ShowsTools() {
					continue
				}
				for _, set := range sets {
					text, ok := d.j.Probe(&chattemplate.Conversation{Messages: msgs, Tools: tools}, set...)
					if ok && !yield(text) {
						return
					}
				}
			}
		}
	}
}

// fromPrompt finds the pair of marks whose opening mark ends a prompt. The template need not have the closing mark. An
// opening mark has a name about thinking, or the prompt has it after what begins an answer in the history.
func (d *detection) fromPrompt() (marks, bool) {
	for prompt := range d.prompts() {
		tail := strings.TrimSpace(opening(prompt))
		for _, t := range knownTags {
			if strings.HasSuffix(tail, t.open) {
				return d.spaced(t, prompt), true
			}
		}
		open := lastPattern.FindString(tail)
		if open == "" || counterpart(open) != "" ||
			!thoughtPattern.MatchString(open) && !d.addsToAnswers(strings.TrimSuffix(tail, open), open) {
			continue
		}
		if closing := d.closingOf(open); closing != "" {
			return d.spaced(marks{open, closing}, prompt), true
		}
	}
	return marks{}, false
}

// addsToAnswers reports whether header begins the answers in the history, without open after it.
func (d *detection) addsToAnswers(header, open string) bool {
	if answerPattern.MatchString(open) {
		return false
	}
	text, ok := d.j.Probe(&chattemplate.Conversation{Messages: []chattemplate.Message{probeAsk, probeAnswer},
		NoGenerationPrompt: true}, d.switchOn...)
	before, _, found := strings.Cut(opening(text), chattemplate.ProbeAnswer)
	return ok && found && strings.TrimSpace(before) != "" && strings.TrimSpace(before) == strings.TrimSpace(header)
}

// fromSource finds a pair of marks in the template's text or in the vocabulary, for templates that do not render
// reasoning. It prefers a pair of which one mark ends a prompt.
func (d *detection) fromSource() (marks, bool) {
	var candidates []marks
	add := func(t marks) {
		if !slices.Contains(candidates, t) {
			candidates = append(candidates, t)
		}
	}
	for _, m := range closePattern.FindAllStringSubmatch(d.source, -1) {
		if m[1] != "" {
			add(marks{"<" + m[1] + ">", "</" + m[1] + ">"})
		} else {
			add(marks{"[" + m[2] + "]", "[/" + m[2] + "]"})
		}
	}
	special := func(text string) bool { _, ok := d.j.Vocab().Special(text); return ok }
	for _, has := range []func(t marks) bool{
		func(t marks) bool { return strings.Contains(d.source, t.close) },
		func(t marks) bool { return special(t.open) && special(t.close) },
		func(t marks) bool { return strings.Contains(d.source, t.open) },
	} {
		for _, t := range knownTags {
			if has(t) {
				add(t)
			}
		}
	}
	for _, prompt := range []string{d.on, d.off, d.base} {
		for _, t := range candidates {
			if s := strings.TrimSpace(prompt); strings.HasSuffix(s, t.open) || strings.HasSuffix(s, t.close) {
				return d.spaced(t), true
			}
		}
	}
	if len(candidates) == 0 {
		return marks{}, false
	}
	return d.spaced(candidates[0]), true
}

// lead returns the white space that the template puts before the opening mark at the beginning of a turn. A prompt that
// skips reasoning has it, if it goes on where the other prompt ends.
func (d *detection) lead() string {
	rest, ok := strings.CutPrefix(d.off, d.on)
	text := strings.TrimLeft(rest, " \r\n")
	if !ok || d.format.Open == "" || !strings.HasPrefix(text, d.format.Open) {
		return ""
	}
	return rest[:len(rest)-len(text)]
}

// spaced adds the white space that prompts have around the marks. The space after the opening mark is from a prompt
// that ends with it, such as those in also. The space around the closing mark is from a prompt that skips reasoning.
func (d *detection) spaced(t marks, also ...string) marks {
	s := t
	for _, prompt := range append(also, d.on, d.base, d.off) {
		tail := opening(prompt)
		i := strings.LastIndex(tail, t.open)
		if i < 0 {
			continue
		}
		rest := tail[i+len(t.open):]
		if strings.TrimSpace(rest) == "" {
			s.open = t.open + rest
			if s.close == t.close && strings.HasSuffix(rest, "\n") {
				s.close = "\n" + t.close + "\n\n"
			}
		} else if strings.HasPrefix(strings.TrimLeft(rest, " \t\r\n"), t.close) {
			if s.open == t.open && strings.HasPrefix(rest, "\n") {
				s.open, rest = t.open+"\n", rest[1:]
			} else if strings.HasSuffix(s.open, "\n") {
				rest = strings.TrimPrefix(rest, "\n")
			}
			s.close = padded(rest, t.close)
		}
	}
	return s
}
