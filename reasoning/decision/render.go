package decision

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// The maximum lengths of texts in the tree, in characters.
const (
	maxGoal = 100
	maxLong = 120
	maxItem = 80
)

// section is a part of a debrief: a line, or a title with items.
type section struct {
	title string
	text  string
	items []item
}

// item is a line of a section. Its options are listed under it.
type item struct {
	text    string
	options []string
}

// texter formats the texts of a trace for a debrief.
type texter struct {
	// show returns a text on one line. It may cut the text to n characters.
	show func(text string, n int) string
	// confidence says whether the confidence of a decision is shown.
	confidence bool
}

// sections returns the parts of a debrief for people. Empty parts are left out.
func (d *Debrief) sections(t texter) []section {
	var out []section
	if goal := t.show(d.Goal, maxGoal); goal != "" {
		out = append(out, section{title: "Goal", text: goal})
	}
	var path []string
	var why []item
	for i := range d.Path {
		s := &d.Path[i]
		path = append(path, strings.TrimPrefix(s.Action, "tool:"))
		if s.Rationale != nil {
			why = append(why, item{text: t.reason(s)})
		}
	}
	if len(path) > 0 {
		out = append(out, section{title: "Path", text: t.show(strings.Join(path, " → "), maxLong)})
	}
	var assumptions, curator, alternatives []item
	for _, a := range d.Assumptions {
		text := quoted(t.show(a.Assumption, maxItem))
		if c := a.Rationale.Confidence; c != nil {
			text += fmt.Sprintf(" (conf: %.2f)", *c)
		}
		if a.Rationale.Why != "" {
			text += " — " + t.show(a.Rationale.Why, maxItem)
		}
		assumptions = append(assumptions, item{text: text})
	}
	for _, c := range d.CuratorActions {
		text := fmt.Sprintf("iter %d %s %s", c.Iter, t.show(c.Action, maxItem), t.show(c.TargetRef, maxItem))
		if c.Rationale.Why != "" {
			text += " — " + quoted(t.show(c.Rationale.Why, maxItem))
		}
		curator = append(curator, item{text: text})
	}
	for _, a := range d.Alternatives {
		chosen := item{text: fmt.Sprintf("iter %d chose %s", a.Iter, t.show(a.Chosen, maxItem))}
		for _, r := range a.Rejected {
			option := fmt.Sprintf("✗ %s — %s", t.show(r.Option, maxItem), t.show(r.Because, maxItem))
			chosen.options = append(chosen.options, option)
		}
		alternatives = append(alternatives, chosen)
	}
	for _, s := range []section{
		{title: whyThisPath, items: why}, {title: "Assumptions", items: assumptions},
		{title: "Curator", items: curator}, {title: "Alternatives considered", items: alternatives},
	} {
		if len(s.items) > 0 {
			out = append(out, s)
		}
	}
	termination := t.show(d.Termination.By, maxItem)
	if r := d.Termination.Rationale; r != nil {
		termination += " — " + quoted(t.show(r.Why, maxLong))
	}
	verdict := "unfinished, the trace has no run-completed event"
	if v := d.Verdict; v != nil {
		verdict = fmt.Sprintf("%s | %d tok | %dms", t.show(v.Status, maxItem), v.Tokens, v.DurationMS)
	}
	return append(out, section{title: "Termination", text: termination}, section{title: "Verdict", text: verdict})
}

// whyThisPath is the title of the section with the reasons.
const whyThisPath = "Why this path"

// reason returns the line of a step with its reason.
func (t texter) reason(s *Step) string {
	why := quoted(t.show(s.Rationale.Why, maxLong))
	text := fmt.Sprintf("iter %d chose %s: %s", s.Iter, t.show(s.Action, maxItem), why)
	if len(s.Rationale.Refs) > 0 {
		text += fmt.Sprintf(" (refs: %s)", t.show(strings.Join(s.Rationale.Refs, ", "), maxLong))
	}
	if c := s.Rationale.Confidence; t.confidence && c != nil {
		text += fmt.Sprintf(" (conf: %.2f)", *c)
	}
	return text
}

func quoted(text string) string { return `"` + text + `"` }

// WriteText writes the debrief as a tree. Long texts are cut.
func (d *Debrief) WriteText(to io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Debrief: run %s\n", oneLine(d.RunID, maxGoal))
	sections := d.sections(texter{show: oneLine})
	for i, s := range sections {
		branch := "├─"
		if i == len(sections)-1 {
			branch = "└─"
		}
		fmt.Fprintf(&b, "%s %s", branch, s.title)
		if s.text != "" {
			fmt.Fprintf(&b, ": %s", s.text)
		}
		b.WriteByte('\n')
		for _, item := range s.items {
			fmt.Fprintf(&b, "│   • %s\n", item.text)
			for _, option := range item.options {
				fmt.Fprintf(&b, "│     %s\n", option)
			}
		}
	}
	_, err := io.WriteString(to, b.String())
	return err
}

// WriteMarkdown writes the debrief as Markdown, without cutting. Markup in the texts of the trace is escaped.
func (d *Debrief) WriteMarkdown(to io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Debrief: run %s\n", literal(d.RunID))
	uncut := func(text string, _ int) string { return strings.Join(strings.Fields(text), " ") }
	for _, s := range d.sections(texter{show: uncut, confidence: true}) {
		title := s.title
		if title == whyThisPath {
			title = "Decision Rationale"
		}
		fmt.Fprintf(&b, "\n## %s\n\n", title)
		if s.text != "" {
			fmt.Fprintln(&b, literal(s.text))
		}
		for _, item := range s.items {
			fmt.Fprintf(&b, "- %s\n", literal(item.text))
			for _, option := range item.options {
				fmt.Fprintf(&b, "  - %s\n", literal(option))
			}
		}
	}
	_, err := io.WriteString(to, b.String())
	return err
}

// oneLine returns a text on one line, cut to at most n characters.
func oneLine(text string, n int) string {
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return strings.TrimRight(string([]rune(text)[:n-1]), " ") + "…"
}

var markup = strings.NewReplacer(`\`, `\\`, "`", "\\`", `*`, `\*`, `_`, `\_`, `[`, `\[`, `]`, `\]`,
	`<`, `\<`, `>`, `\>`, `#`, `\#`, `|`, `\|`, `~`, `\~`, `&`, `\&`)

// literal returns a text on one line, with Markdown's markup escaped.
func literal(text string) string {
	text = markup.Replace(strings.Join(strings.Fields(text), " "))
	if text == "" {
		return text
	}
	if strings.IndexByte("-+=", text[0]) >= 0 {
		return `\` + text
	}
	// A number followed by a point or a bracket would begin a list.
	rest := strings.TrimLeft(text, "0123456789")
	if rest != text && rest != "" && (rest[0] == '.' || rest[0] == ')') {
		return text[:len(text)-len(rest)] + `\` + rest
	}
	return text
}
