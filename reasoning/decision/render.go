package decision

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxItem is the most characters of an item in the tree.
const maxItem = 160

// section is a part of a debrief: a line, or a title with items.
type section struct {
	title string
	text  string
	items []string
}

// sections are the parts of a debrief for people.
func (d *Debrief) sections() []section {
	goal := d.Goal
	if goal == "" {
		goal = "not recorded"
	}
	out := []section{{title: "Goal", text: goal}}
	path, why := section{title: "Path"}, section{title: "Why this path"}
	for _, s := range d.Path {
		path.items = append(path.items, fmt.Sprintf("%d. %s", s.Step, s.name()))
	}
	for _, r := range d.Why {
		text := fmt.Sprintf("%s: %s", d.stepName(r.Step), r.Why)
		if r.Confidence != nil {
			text += fmt.Sprintf(" (confidence %.2f)", *r.Confidence)
		}
		if len(r.Refs) > 0 {
			text += " [" + strings.Join(r.Refs, ", ") + "]"
		}
		why.items = append(why.items, text)
	}
	assumptions, curator, alternatives := section{title: "Assumptions"}, section{title: "Curator"}, section{title: "Alternatives"}
	for _, a := range d.Assumptions {
		text := a.Assumption
		if a.Because != "" {
			text += ", because " + a.Because
		}
		assumptions.items = append(assumptions.items, text)
	}
	for _, c := range d.Curator {
		text := c.Action
		if c.Reason != "" {
			text += ": " + c.Reason
		}
		curator.items = append(curator.items, text)
	}
	for _, a := range d.Alternatives {
		alternatives.items = append(alternatives.items, fmt.Sprintf("%s: %s, rejected because %s", d.stepName(a.Step), a.Option, a.Because))
	}
	termination := "not recorded"
	if t := d.Termination; t != nil {
		if termination = t.By; t.Rationale != "" {
			termination += ": " + t.Rationale
		}
	}
	return append(out, path, why, assumptions, curator, alternatives, section{title: "Termination", text: termination}, section{title: "Verdict", text: d.verdict()})
}

// name is what a step did.
func (s *Step) name() string {
	if s.ToolName != "" {
		return s.ToolName
	}
	return s.Decision
}

func (d *Debrief) stepName(step int) string {
	if step < 1 || step > len(d.Path) {
		return "a step that was not taken"
	}
	return fmt.Sprintf("%d. %s", step, d.Path[step-1].name())
}

// verdict is how the run ended, with its numbers.
func (d *Debrief) verdict() string {
	v := d.Verdict
	if v == nil {
		return "unfinished: the trace has no end"
	}
	calls := "1 call"
	if v.ToolCalls != 1 {
		calls = fmt.Sprintf("%d calls", v.ToolCalls)
	}
	if v.RationaleMissing != nil && *v.RationaleMissing > 0 {
		calls += fmt.Sprintf(" (%d without a stated reason)", *v.RationaleMissing)
	}
	return fmt.Sprintf("%s, %s, %d tokens, $%.2f, %.3f s", v.Status, calls, v.TotalTokens, v.TotalCostUSD, float64(v.DurationMS)/1000)
}

// WriteText writes the debrief as a tree. Long texts are cut.
func (d *Debrief) WriteText(to io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Debrief of %s\n", oneLine(d.RunID, maxItem))
	sections := d.sections()
	for i, s := range sections {
		branch := "├─"
		if i == len(sections)-1 {
			branch = "└─"
		}
		switch {
		case s.text != "":
			fmt.Fprintf(&b, "%s %s: %s\n", branch, s.title, oneLine(s.text, maxItem))
		case len(s.items) == 0:
			fmt.Fprintf(&b, "%s %s: none\n", branch, s.title)
		default:
			fmt.Fprintf(&b, "%s %s\n", branch, s.title)
		}
		for _, item := range s.items {
			fmt.Fprintf(&b, "│   • %s\n", oneLine(item, maxItem))
		}
	}
	_, err := io.WriteString(to, b.String())
	return err
}

// WriteMarkdown writes the debrief as Markdown, uncut. Texts of the trace have no markup in it.
func (d *Debrief) WriteMarkdown(to io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Debrief of %s\n", literal(d.RunID))
	for _, s := range d.sections() {
		title := s.title
		if title == "Why this path" {
			title = "Decision Rationale"
		}
		fmt.Fprintf(&b, "\n## %s\n\n", title)
		switch {
		case s.text != "":
			fmt.Fprintln(&b, literal(s.text))
		case len(s.items) == 0:
			b.WriteString("None.\n")
		}
		for _, item := range s.items {
			fmt.Fprintf(&b, "- %s\n", literal(item))
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

var markup = strings.NewReplacer(`\`, `\\`, "`", "\\`", `*`, `\*`, `_`, `\_`, `[`, `\[`, `]`, `\]`, `<`, `\<`, `>`, `\>`, `#`, `\#`, `|`, `\|`,
	`~`, `\~`, `&`, `\&`)

// literal returns a text on one line as Markdown that shows it as it is.
func literal(text string) string {
	text = markup.Replace(strings.Join(strings.Fields(text), " "))
	if text == "" {
		return text
	}
	if strings.IndexByte("-+=", text[0]) >= 0 {
		return `\` + text
	}
	// A number with a point or a bracket after it would begin a list.
	rest := strings.TrimLeft(text, "0123456789")
	if rest != text && rest != "" && (rest[0] == '.' || rest[0] == ')') {
		return text[:len(text)-len(rest)] + `\` + rest
	}
	return text
}
