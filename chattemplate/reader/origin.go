package reader

import "runner/reasoning"

// origin watches where reasoning comes from, for the strategies that may fail at run time.
type origin struct {
	// chosen is json or tool, or empty, when nothing is watched; now is where reasoning came from last, or was to
	// come from.
	chosen, now reasoning.Strategy
	// from is the source of the segment that begins.
	from reasoning.Strategy
	// came says that reasoning came from a source that is no native one, native that it came from that.
	came, native bool
}

// fallbacks are the reasons for switching to a strategy.
var fallbacks = map[reasoning.Strategy]string{
	reasoning.StrategyNative:  "the reasoning came in the model's own form",
	reasoning.StrategyTool:    "the reasoning came in a call",
	reasoning.StrategyMarkers: "the reasoning came between markers",
}

// order is the order in which the strategies are tried.
var order = map[reasoning.Strategy]int{reasoning.StrategyJSON: 0, reasoning.StrategyTool: 1,
	reasoning.StrategyMarkers: 2}

// note takes the beginning of reasoning with its source, and tells when that is further down than where it came
// from so far.
func (o *origin) note(emit func(reasoning.Event)) {
	switch {
	case o.chosen == "":
	case o.from == reasoning.StrategyNative:
		o.native = true
	default:
		o.came = true
		if order[o.from] > order[o.now] {
			o.switchTo(o.from, emit)
		}
	}
}

// Finish tells when there was reasoning in the model's own form only.
func (o *origin) Finish(emit func(reasoning.Event)) {
	if o.chosen != "" && o.native && !o.came {
		o.switchTo(reasoning.StrategyNative, emit)
	}
}

func (o *origin) switchTo(s reasoning.Strategy, emit func(reasoning.Event)) {
	o.now = s
	emit(reasoning.Event{Kind: reasoning.StrategySwitched, Info: &reasoning.Info{Strategy: s}, Text: fallbacks[s]})
}
