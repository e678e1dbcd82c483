package cli

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"runner/cmd/runner/flags"
	"runner/reasoning"
	"runner/server/wiretest"
)

// visibilityFields set a visibility by name in the formats that have one.
var visibilityFields = map[string]map[reasoning.Visibility]string{
	"chat":      openVisibility,
	"responses": openVisibility,
	"agui":      openVisibility,
	"anthropic": {
		reasoning.VisibilitySummary: `,"thinking":{"type":"adaptive","display":"summarized"}`,
		reasoning.VisibilityFull:    `,"thinking":{"type":"adaptive"}`,
	},
	"ollama":   {reasoning.VisibilityFull: `,"think":true`},
	"generate": {reasoning.VisibilityFull: `,"think":true`},
}

var openVisibility = map[reasoning.Visibility]string{
	reasoning.VisibilityNone: `,"reasoning":"none"`, reasoning.VisibilitySummary: `,"reasoning":"summary"`,
	reasoning.VisibilityFull: `,"reasoning":true`,
}

// A request that names no visibility gets the server's default or its key's cap, whichever is less. It is never
// refused. A request that names more than the cap is refused.
func TestReasoningDefaultAndCap(t *testing.T) {
	for _, most := range everyVisibility {
		for _, usual := range everyVisibility {
			o := &serveOptions{Host: Host{MaxReasoning: most}}
			o.Defaults.Visibility = usual
			bare := wholeServerWith(t, io.Discard, o, false)
			keyed := wholeServerWith(t, io.Discard, o, true)
			for _, f := range formats {
				for _, by := range []struct {
					url, key string
					most     reasoning.Visibility
				}{{bare, "", most}, {keyed, "most", most}, {keyed, "least", reasoning.VisibilityNone}} {
					what := fmt.Sprintf("--reasoning %s --max-reasoning %s, %s by %q", usual, most, f.name, by.key)
					for _, how := range []string{"", f.streamed} {
						checkShown(t, what, by.url, by.key, f.name, how, min(usual, by.most))
					}
					for v, fields := range visibilityFields[f.name] {
						status, info, _, out := ask(t, by.url, by.key, f.name, "", fields)
						switch {
						case v > by.most && status != http.StatusForbidden:
							t.Errorf("%s: asked for %s: %d:\n%s", what, v, status, out)
						case v <= by.most && (status != http.StatusOK || info.Visibility != v.String()):
							t.Errorf("%s: asked for %s: %d, %+v:\n%s", what, v, status, info, out)
						}
					}
				}
			}
		}
	}
}

var deltaInAnswer = regexp.MustCompile(`"(?:delta|reasoning|reasoning_summary|thinking)":"([^"]*)"`)

// joinedDeltas returns an answer followed by its joined deltas of reasoning, which may be mixed with those of the
// answer.
func joinedDeltas(out string) string {
	var b strings.Builder
	b.WriteString(out)
	for line := range strings.Lines(out) {
		if lower := strings.ToLower(line); strings.Contains(lower, "reasoning") || strings.Contains(lower, "thinking") {
			for _, found := range deltaInAnswer.FindAllStringSubmatch(line, -1) {
				b.WriteString(found[1])
			}
		}
	}
	return b.String()
}

// checkShown sends requests that name no visibility and checks how much reasoning they get.
func checkShown(t *testing.T, what, url, key, format, how string, want reasoning.Visibility) {
	t.Helper()
	status, info, _, out := ask(t, url, key, format, how, "")
	if status != http.StatusOK || info.Visibility != want.String() {
		t.Errorf("%s: %d, %+v, want %s:\n%s", what, status, info, want, out)
	}
	text := joinedDeltas(out)
	for secret, visible := range map[string]bool{
		wiretest.Canary: want == reasoning.VisibilityFull, wiretest.SummaryCanary: want == reasoning.VisibilitySummary,
	} {
		if strings.Contains(text, secret) != visible {
			t.Errorf("%s: shows %s: %v:\n%s", what, secret, !visible, out)
		}
	}
}

// The flags of serve about reasoning reach the server and the formats.
func TestServeReasoningFlags(t *testing.T) {
	for args, want := range map[string][2]reasoning.Visibility{
		"":                     {reasoning.VisibilityNone, reasoning.VisibilityFull},
		"--reasoning full":     {reasoning.VisibilityFull, reasoning.VisibilityFull},
		"--max-reasoning none": {reasoning.VisibilityNone, reasoning.VisibilityNone},
		"--reasoning=full --max-reasoning=summary": {reasoning.VisibilityFull, reasoning.VisibilitySummary},
	} {
		a, o, cmd := newApp(Engine{}, Build{}), &serveOptions{}, &cobra.Command{}
		flags.Add(cmd, o.flags())
		if err := cmd.ParseFlags(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		if err := o.validate(cmd); err != nil {
			t.Fatal(err)
		}
		cfg, err := a.serverConfig(o)
		if err != nil || o.Defaults.Visibility != want[0] || *cfg.MaxReasoning != want[1] {
			t.Errorf("%q: default %s, cap %s, %v", args, o.Defaults.Visibility, cfg.MaxReasoning, err)
		}
	}
}
