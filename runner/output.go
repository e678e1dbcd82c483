package runner

import (
	"strings"

	"runner/chattemplate"
	"runner/chattemplate/reader"
	"runner/reasoning"
	"runner/reasoning/filter"
)

// output takes the events of a turn's reader, filters them and sends them on. It notes what they say.
type output struct {
	turn  *turn
	split reader.Reader
	stop  *filter.StopFilter
	// rationale takes the model's reasons for its calls out of the text; nil if the request does not ask for them.
	rationale *filter.RationaleFilter
	// markers says that the reader looks for the markers of strategy markers.
	markers bool

	// reasoned and answered say what has come so far, whether the caller sees it or not. calls has the client's tool
	// calls. Their arguments are kept only if remembers is set.
	reasoned, answered bool
	// thoughtful counts the stretches of reasoning.
	thoughtful int
	calls      []chattemplate.ToolCall
	remembers  bool
	arguments  strings.Builder
	// own has the calls that the loop of the turn answers. counted counts the events for it; nil if there is no loop.
	own     []chattemplate.ToolCall
	counted *counted
	// thoughts is the text of the reasoning. It is kept only if keep is set, because something needs it: the summary's
	// guard, the memory of calls, strategy tool or a loop.
	thoughts strings.Builder
	// reasons has what else counts as reasoning: the reasons for calls that were taken out of the text, and with hidden
	// all text. It is kept only for the summary's guard.
	reasons                  strings.Builder
	keep, summarizes, hidden bool
	onAnswer                 func() // called at the first text of the answer
	// onCall is called with the id of each call.
	onCall func(id string)
	// onSwitch is called with a new strategy and returns the settings that are then in effect.
	onSwitch func(reasoning.Strategy) *reasoning.Info
	// check gets the answer's text; nil if the answer is not checked.
	check *check
	// onMarkers is called once if reasoning comes between markers although the format has a place for it. It is nil
	// unless markers are a fallback.
	onMarkers func()
}

func newOutput(t *turn, start chattemplate.Start) (*output, error) {
	of, loops := &t.job.req, t.job.loop != nil
	o := &output{
		turn: t, summarizes: of.Visibility == reasoning.VisibilitySummary, hidden: t.hidden(),
		markers: t.strategy == reasoning.StrategyMarkers,
		keep: loops || of.Visibility == reasoning.VisibilitySummary || t.remembers() ||
			t.strategy == reasoning.StrategyTool,
		onAnswer: t.answerBegins, onCall: t.nameTurn, check: t.check, reasoned: t.of.Heard.Thoughts != "",
		remembers: loops || t.remembers(),
	}
	if loops {
		o.counted = &counted{as: t.of, heard: t.of.Heard.Begun}
	}
	o.onSwitch = func(to reasoning.Strategy) *reasoning.Info {
		t.strategy = to
		return t.infoNow()
	}
	callID := t.job.callIDs()
	o.stop = filter.NewStopFilter(t.req.Stop, o.take, t.sight.reach.stopsIn(t.sight.sees)...)
	if t.req.Form.IsZero() && t.strategy != reasoning.StrategyMarkers && t.family().About().LooseReasoning {
		o.markers, o.onMarkers = true, t.markersFound
	}
	cfg := reader.Config{
		Vocab: t.r.model.Vocab(), Start: start, Emit: o.stop.Push, CallID: callID, Markers: o.markers, Separator: "\n\n",
		Unbroken: t.unbroken(),
		Logprobs: t.req.Logprobs, Report: t.strategy == reasoning.StrategyTool,
		Formed: !t.req.Form.IsZero() && t.strategy != reasoning.StrategyJSON, Inner: t.answers,
	}
	if t.req.Rationale {
		o.rationale = filter.NewRationaleFilter(filter.RationaleConfig{
			Iteration: t.iteration(), Separator: cfg.Separator, Formed: !t.req.Form.IsZero(), Taken: o.keepReason,
		}, o.stop.Push)
		cfg.Emit, cfg.Separator, cfg.Rationales = o.rationale.Push, "", true
	}
	if t.strategy == reasoning.StrategyJSON {
		cfg.JSON = &reader.JSONConfig{RawAnswer: t.job.rawAnswer(t.req)}
		cfg.Markers = true // the model may fall back to them
	}
	o.split = t.model
	if !t.req.Continues {
		return o, t.model.Begin(cfg)
	}
	text := lastOf(t.req.Messages).Content
	if o.check != nil {
		o.check.answer.WriteString(text)
	}
	events := &resumed{rest: text, emit: cfg.Emit}
	cfg.Emit = events.push
	if err := t.model.Begin(cfg); err != nil {
		return nil, err
	}
	return o, t.readBeginning(events)
}

func (o *output) finish() {
	if o.rationale != nil {
		o.rationale.Cut() // a segment that ended by itself is closed already
	}
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
		o.thoughtful++
		if o.onMarkers != nil && o.split.State().Marked {
			o.onMarkers()
			o.onMarkers = nil
		}
	case e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.Reasoning:
		o.reasoned = true
		if o.keep {
			o.thoughts.WriteString(e.Text)
		}
	case o.hidden && e.Kind == reasoning.SegmentDelta && e.Segment != reasoning.ToolCall && e.Segment != reasoning.Summary:
		o.reasoned = true
		if o.summarizes {
			o.reasons.WriteString(e.Text)
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
		o.onCall(e.Call.ID)
		list := o.listOf(&e)
		*list = append(*list, chattemplate.ToolCall{ID: e.Call.ID, Name: e.Call.Name})
	case o.remembers && e.Segment == reasoning.ToolCall:
		o.takeArguments(&e)
	}
	if o.counted != nil {
		o.count(e)
	} else {
		o.turn.send(e)
	}
}

// listOf returns the list that the call of an event belongs to.
func (o *output) listOf(e *reasoning.Event) *[]chattemplate.ToolCall {
	if o.turn.answers(e.Call.Name) {
		return &o.own
	}
	return &o.calls
}

// takeArguments collects the arguments of the current call. At the call's end it stores them with the call.
func (o *output) takeArguments(e *reasoning.Event) {
	o.arguments.WriteString(e.Text)
	if list := *o.listOf(e); e.Kind == reasoning.SegmentEnd && len(list) > 0 {
		list[len(list)-1].Arguments = o.arguments.String()
		o.arguments.Reset()
	}
}

// keepReason keeps a reason for a call for the guard, because the summary must not quote it either.
func (o *output) keepReason(text string) {
	if o.summarizes {
		o.reasons.WriteString(text)
		o.reasons.WriteByte('\n')
	}
}
