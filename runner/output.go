package runner

import (
	"fmt"
	"strings"

	"runner/chattemplate"
	"runner/chattemplate/reader"
	"runner/reasoning"
	"runner/reasoning/filter"
)

// output takes a turn's tokens apart and sends what may be seen of them.
type output struct {
	stream *stream
	// tape gets all events, seen or not; nil where the run is not traced.
	tape  *stream
	split reader.Reader
	stop  *filter.StopFilter
	// rationale takes the model's reasons for its calls out of the text; nil where decisions are not traced.
	rationale *filter.RationaleFilter
	policy    reasoning.Visibility
	// phases passes on where hidden reasoning begins and ends.
	phases bool
	// markers says that the reader looks for the markers of strategy markers.
	markers bool

	// reasoned and answered say what has come so far, seen or not, and calls holds the tool calls; their arguments
	// only where they are remembered.
	reasoned, answered bool
	calls              []chattemplate.ToolCall
	remembers          bool
	arguments          strings.Builder
	// stage is what the run of several turns that this one is of says; nil where it is alone. inner says that the
	// turn called what that run answers.
	stage *stage
	inner bool
	// thoughts is the reasoning as text, kept only for the summary's guard and for calls that are pending.
	thoughts strings.Builder
	// reasons is what was taken out of the text as reasons for calls, kept only for the summary's guard.
	reasons  strings.Builder
	keep     bool
	onAnswer func()
	// onSwitch is told where the reasoning comes from now, and says what is in effect then.
	onSwitch func(reasoning.Strategy) *reasoning.Info
	// check gets the answer's text; nil where it is not checked.
	check *check
	// onMarkers is called when reasoning comes between markers inside an answer although the model has a place for
	// it; nil unless that is a fallback.
	onMarkers func()
}

func newOutput(t *turn, start chattemplate.Start) (*output, error) {
	o := &output{
		stream: t.out, stage: t.stage, policy: t.req.Visibility, phases: t.req.Phases,
		markers: t.strategy == reasoning.StrategyMarkers,
		keep: t.req.Visibility == reasoning.VisibilitySummary || t.remembers() ||
			t.strategy == reasoning.StrategyTool || t.req.Seal != nil,
		onAnswer: t.answerBegins, check: t.check, reasoned: t.stage.thought() != "", remembers: t.remembers(),
	}
	o.onSwitch = func(to reasoning.Strategy) *reasoning.Info {
		t.strategy = to
		return t.infoNow()
	}
	callID := t.req.CallID
	if callID == nil {
		random := t.r.cfg.Seed()
		callID = func(i int) string { return fmt.Sprintf("call_%016x%02d", random, i) }
	}
	o.stop = filter.NewStopFilter(t.req.Stop, o.take, t.sight.reach.stopsIn(t.sight.sees)...)
	auto := t.req.Strategy == "" || t.req.Strategy == reasoning.StrategyAuto
	if auto && t.req.Form.IsZero() && t.strategy == reasoning.StrategyNative &&
		t.req.Visibility != reasoning.VisibilityNone &&
		t.family().About().LooseReasoning {
		o.markers, o.onMarkers = true, t.markersFound
	}
	cfg := reader.Config{
		Vocab: t.r.model.Vocab(), Start: start, Emit: o.stop.Push, CallID: callID, Markers: o.markers, Separator: "\n\n",
		Logprobs: t.req.Logprobs, Report: t.strategy == reasoning.StrategyTool,
		Formed: !t.req.Form.IsZero() && t.strategy != reasoning.StrategyJSON,
	}
	if t.req.Rationale {
		o.rationale = filter.NewRationaleFilter(filter.RationaleConfig{
			Iteration: t.iteration(), Separator: cfg.Separator, Formed: !t.req.Form.IsZero(), Taken: o.keepReason,
		}, o.stop.Push)
		cfg.Emit, cfg.Separator, cfg.Rationales = o.rationale.Push, "", true
	}
	if t.strategy == reasoning.StrategyJSON {
		cfg.JSON = &reader.JSONConfig{RawAnswer: t.req.Form.IsJSON()}
		cfg.Markers = true // what the model falls back to
	}
	o.split = t.model
	return o, t.model.Begin(cfg)
}

func (o *output) finish() {
	o.split.Finish()
	if o.rationale != nil {
		o.rationale.Finish()
	}
	o.stop.Finish()
}

func (o *output) segment() reasoning.Segment { return o.split.State().Segment }

// take notes what an event says and sends it on.
func (o *output) take(e reasoning.Event) {
	switch {
	case e.Kind == reasoning.SegmentStart && e.Segment == reasoning.Reasoning:
		if o.onMarkers != nil && o.split.State().Marked {
			o.onMarkers()
			o.onMarkers = nil
		}
	case e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.Reasoning:
		o.reasoned = true
		if o.keep {
			o.thoughts.WriteString(e.Text)
		}
	case e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.Answer:
		if !o.answered {
			o.answered = true
			o.onAnswer()
		}
		if o.check != nil {
			o.check.answer.WriteString(e.Text)
		}
	case e.Kind == reasoning.StrategySwitched && e.Info != nil:
		e.Info = o.onSwitch(e.Info.Strategy)
	case e.Kind == reasoning.SegmentStart && e.Segment == reasoning.ToolCall:
		if o.stage.answers(e.Call.Name) {
			o.inner = true
		} else {
			o.calls = append(o.calls, chattemplate.ToolCall{ID: e.Call.ID, Name: e.Call.Name})
		}
	case o.remembers && e.Segment == reasoning.ToolCall && !o.stage.answers(e.Call.Name):
		o.takeArguments(&e)
	}
	o.send(e)
}

// takeArguments notes the arguments of the call that is under way, or at its end gives them to it.
func (o *output) takeArguments(e *reasoning.Event) {
	o.arguments.WriteString(e.Text)
	if e.Kind == reasoning.SegmentEnd && len(o.calls) > 0 {
		o.calls[len(o.calls)-1].Arguments = o.arguments.String()
		o.arguments.Reset()
	}
}

// keepReason keeps what was in a block for the summary's guard, which must not quote it either.
func (o *output) keepReason(text string) {
	if o.policy == reasoning.VisibilitySummary {
		o.reasons.WriteString(text)
		o.reasons.WriteByte('\n')
	}
}

// send passes an event to the run's trace, and through the visibility policy to the reader.
func (o *output) send(e reasoning.Event) {
	if o.tape != nil {
		o.tape.send(e)
	}
	if o.stage != nil || o.policy.Shows(&e) || o.phases && o.policy.Marks(&e) {
		o.stream.send(e)
	}
}

func (o *output) warn(code, text string) {
	o.send(reasoning.Event{Kind: reasoning.Warning, Code: code, Text: text})
}
