package cli

import (
	"slices"

	"runner/cmd/runner/flags"
	"runner/cmd/runner/render"
	"runner/reasoning/decision"
)

// outputText is the value of --output for people.
const outputText = "text"

// outputs lists the formats of --output, those of the rooms last.
func outputs() []Output {
	list := []Output{
		{Name: outputText, New: func(s render.Streams, _ Asked) render.Renderer {
			if s.OutTerminal {
				return render.NewTerminal(s)
			}
			return render.NewPipe(s)
		}},
		{Name: "json", New: func(s render.Streams, _ Asked) render.Renderer { return render.NewJSON(s) }},
		{Name: "events", Lines: "events", New: func(s render.Streams, _ Asked) render.Renderer {
			return render.NewEvents(s)
		}},
		{Name: "decisions", Lines: "decisions", New: func(s render.Streams, q Asked) render.Renderer {
			return render.NewTrace(s, decision.Config{RunID: q.Run, Goal: q.Prompt}, q.Interrupted)
		}},
	}
	for _, r := range registered {
		if r.Output != nil {
			list = append(list, *r.Output)
		}
	}
	return list
}

// outputNamed returns the format with a name that --output takes.
func outputNamed(name string) Output {
	list := outputs()
	return list[slices.IndexFunc(list, func(o Output) bool { return o.Name == name })]
}

// outputNames lists the values of --output.
func outputNames() (names []string) {
	for _, o := range outputs() {
		names = append(names, o.Name)
	}
	return names
}

func outputFlag(name *string) flags.Table {
	var lines []string
	for _, o := range outputs() {
		if o.Lines != "" {
			lines = append(lines, "of "+o.Lines)
		}
	}
	return flags.Name("output", name, outputNames(),
		"text, one JSON object, or JSON lines "+flags.Alternatives(lines))
}
