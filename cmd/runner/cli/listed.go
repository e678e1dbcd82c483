package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rivo/uniseg"

	"runner/cmd/runner/render"
	"runner/models"
	"runner/models/catalog"
	"runner/models/installed"
	"runner/models/roofline"
)

// listed is a model in the output of list and show, or a download that did not finish.
type listed struct {
	Name  string        `json:"name"`
	Place catalog.Place `json:"place"`
	Path  string        `json:"path"`
	Parts int           `json:"parts,omitempty"`
	// Bytes is the size of the whole model, or 0 if that is not known.
	Bytes        int64  `json:"bytes"`
	Quant        string `json:"quantization,omitempty"`
	Architecture string `json:"architecture,omitempty"`
	Parameters   int64  `json:"parameters,omitempty"`
	Context      int64  `json:"context,omitempty"`
	// PerToken is how many bytes are read to generate a token, and Speed how many tokens a second the processor should
	// generate. Both are 0 if that is not known.
	PerToken int64   `json:"bytes_per_token,omitempty"`
	Speed    float64 `json:"estimated_tokens_per_second,omitempty"`
	// Runs reports that an engine here runs the model. Problem says why not. Warning says what makes it slow.
	Runs    bool   `json:"runs"`
	Problem string `json:"problem,omitempty"`
	Warning string `json:"warning,omitempty"`
	// Unfinished is set for a download that did not finish, of which Here bytes are on the disk.
	Unfinished bool  `json:"unfinished,omitempty"`
	Here       int64 `json:"bytes_here,omitempty"`
	// Written is what show reads of the vocabulary and the template.
	Written
}

// Written is how a model writes its turns.
type Written struct {
	// Template is the model's own chat template.
	Template string `json:"chat_template,omitempty"`
	// Capabilities are completion, tools and thinking, in Ollama's words.
	Capabilities []string `json:"capabilities,omitempty"`
	// Reasoning says for people how the model marks its reasoning.
	Reasoning string `json:"reasoning,omitempty"`
}

// list describes all models on this machine, and then the downloads that did not finish.
func (a *App) list(ctx context.Context) []listed {
	found, partials := installed.List()
	var all []listed
	for _, m := range found {
		all = append(all, a.describe(ctx, m))
	}
	return append(all, unfinished(partials)...)
}

// describe reads the header of a model, asks whether an engine here runs it, and estimates how fast.
func (a *App) describe(ctx context.Context, m catalog.Entry) listed {
	installed.Describe(&m)
	l := listed{Name: m.Name, Place: m.Place, Path: m.At(), Parts: len(m.Files), Bytes: m.Bytes(), Quant: m.Quant,
		Architecture: m.Architecture, Parameters: m.Parameters, Context: m.Context, PerToken: m.PerToken, Problem: m.Problem}
	if l.Problem == "" {
		if _, err := a.choose(ctx, models.Of(m), "", func(string) {}); err != nil {
			l.Problem = err.Error()
		}
	}
	if l.Runs = l.Problem == ""; l.Runs {
		l.Warning = a.lacksMemory(l.Bytes)
	}
	if l.Runs && l.Warning == "" && l.PerToken >= roofline.LeastPerToken {
		if rate, ok := a.bandwidth().Bandwidth(); ok {
			l.Speed = rate / float64(l.PerToken)
		}
	}
	return l
}

// lacksMemory says that a model of a size does not fit into the memory that is available, so that it is read from the
// disk again and again. It is empty if the model fits, or if the memory is not known.
func (a *App) lacksMemory(bytes int64) string {
	available := a.FreeMemory()
	if need := catalog.Need(bytes); available > 0 && need > available {
		return fmt.Sprintf("it needs about %s of memory, and %s are available", render.Size(need), render.Size(available))
	}
	return ""
}

// bandwidth is where the measured bandwidth of this machine's memory is kept.
func (a *App) bandwidth() *roofline.Store {
	if a.memorySpeed != nil {
		return a.memorySpeed
	}
	folder, err := os.UserCacheDir()
	if err != nil {
		folder = os.TempDir()
	}
	a.memorySpeed = &roofline.Store{Path: filepath.Join(folder, "runner", "bandwidth.json"), Machine: roofline.Machine(),
		Measure: func() (float64, bool) { return roofline.Measure(a.FreeMemory()) }}
	return a.memorySpeed
}

// FreeMemory returns how much memory the program may take, or 0 if that is not known.
func (a *App) FreeMemory() int64 {
	if a.engine.Memory == nil {
		return 0
	}
	free, _ := a.engine.Memory()
	return free
}

// speed formats an estimate, such as ~12 tok/s. It has no more digits than an estimate deserves.
func speed(perSecond float64) string {
	switch {
	case perSecond <= 0:
		return ""
	case perSecond < 10:
		return fmt.Sprintf("~%.1f tok/s", perSecond)
	case perSecond < 100:
		return fmt.Sprintf("~%.0f tok/s", perSecond)
	}
	return fmt.Sprintf("~%.0f0 tok/s", perSecond/10)
}

// runs says whether an engine here runs the model, and else why not.
func (l *listed) runs() string {
	switch {
	case !l.Runs:
		return "no: " + l.Problem
	case l.Warning != "":
		return "slowly: " + l.Warning
	}
	return "yes"
}

// unfinished describes downloads by the model that they are part of.
func unfinished(partials []installed.Partial) []listed {
	var all []listed
	for _, p := range partials {
		i := slices.IndexFunc(all, func(l listed) bool { return l.Name == p.Name })
		if i < 0 {
			i, all = len(all), append(all, listed{Name: p.Name, Place: catalog.HuggingFace, Path: p.At, Quant: p.Quant,
				Unfinished: true})
			switch l := &all[i]; {
			case p.Active:
				l.Problem = "being downloaded"
			case p.Tool == installed.Own:
				l.Problem = "unfinished; go on with: runner pull " + p.Name
			default:
				l.Problem = "unfinished, begun by " + p.Tool + "; get it with: runner pull " + p.Name
			}
		}
		all[i].Bytes, all[i].Here = all[i].Bytes+p.Size, all[i].Here+p.Have
	}
	for i := range all {
		if l := &all[i]; l.Bytes > 0 {
			l.Problem = fmt.Sprintf("%s of %s here, %s", render.Size(l.Here), render.Size(l.Bytes), l.Problem)
		}
	}
	return all
}

// writeModels writes a table of models. On a terminal that is too narrow for it, each model gets lines of its own.
func (a *App) writeModels(all []listed) error {
	var b strings.Builder
	w := Table(&b)
	fmt.Fprintln(w, "NAME\tSIZE\tQUANTIZATION\tFAMILY\tSPEED (CPU)\tPLACE\tRUNS")
	for _, l := range all {
		row(w, l.Name, l.size(), l.Quant, l.Architecture, speed(l.Speed), string(l.Place), l.runs())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	text, width := b.String(), a.helpWidth()
	tooWide := func(line string) bool { return uniseg.StringWidth(line) > width }
	if a.outTerminal && slices.ContainsFunc(strings.Split(text, "\n"), tooWide) {
		text = stacked(all, width)
	}
	_, err := io.WriteString(a.Stdout(), text)
	return err
}

// stacked formats models for a narrow terminal.
func stacked(all []listed, width int) string {
	var b strings.Builder
	for _, l := range all {
		facts := []string{l.size(), l.Quant, l.Architecture, speed(l.Speed), string(l.Place)}
		facts = slices.DeleteFunc(facts, func(fact string) bool { return fact == "" })
		runs := "runs here"
		switch {
		case l.Unfinished:
			runs = l.Problem
		case !l.Runs:
			runs = "does not run: " + l.Problem
		case l.Warning != "":
			runs = "runs slowly: " + l.Warning
		}
		fmt.Fprintf(&b, "%s\n%s\n%s\n", render.CleanLine(l.Name), render.Hanging("  ",
			render.CleanLine(strings.Join(facts, ", ")), 2, width), render.Hanging("  ", render.CleanLine(runs), 2, width))
	}
	return b.String()
}

// size is the size of the model, or "" if that is not known.
func (l *listed) size() string {
	if l.Bytes == 0 {
		return ""
	}
	return render.Size(l.Bytes)
}

// Installed returns the model that a name means, with its entry in the list of models if it is there.
func (a *App) Installed(ctx context.Context, name string) (models.Model, error) {
	m, err := a.resolve(ctx, name)
	if err != nil {
		return m, err
	}
	m.Files.Name = m.Name
	all, _ := installed.List()
	if i := slices.IndexFunc(all, func(e catalog.Entry) bool { return e.At() == m.Path }); i >= 0 {
		m.Files = all[i]
	}
	return m, nil
}

// writeModel writes what is known of a model, a line for each fact.
func (a *App) writeModel(l listed) error {
	w := Table(a.Stdout())
	rows := [][2]string{{"name", l.Name}, {"place", string(l.Place)}, {"path", l.Path}, {"size", render.Size(l.Bytes)},
		{"quantization", l.Quant}, {"family", l.Architecture}}
	if l.Context > 0 {
		rows = append(rows, [2]string{"context", fmt.Sprintf("%d tokens in training", l.Context)})
	}
	if l.Template != "" {
		rows = append(rows, [2]string{"template", fmt.Sprintf("%d bytes of Jinja; --json prints it", len(l.Template))})
	}
	rows = append(rows, [2]string{"capabilities", strings.Join(l.Capabilities, ", ")}, [2]string{"reasoning", l.Reasoning})
	if l.Parameters > 0 {
		rows = append(rows, [2]string{"parameters", amount(float64(l.Parameters))})
	}
	if l.Speed > 0 {
		rows = append(rows, [2]string{"speed", fmt.Sprintf("%s on the processor, an estimate: a token reads %s",
			speed(l.Speed), render.Size(l.PerToken))})
	}
	for _, r := range append(rows, [2]string{"runs", l.runs()}) {
		if r[1] != "" {
			row(w, r[:]...)
		}
	}
	return w.Flush()
}
