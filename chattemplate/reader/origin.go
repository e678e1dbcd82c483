package reader

import "runner/reasoning"

// origin watches where reasoning comes from, because a model may ignore the strategies json and tool.
type origin struct {
	// chosen is the strategy json or tool; empty if nothing is watched. now is the strategy in effect.
	chosen, now reasoning.Strategy
	// from is the source of the segment that begins.
	from reasoning.Strategy
	// native says that reasoning came in the model's own form, and came that it came in another one.
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

// note records that reasoning from the source o.from begins. It reports a switch to a strategy further down the order.
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

// Finish reports a switch if all reasoning came in the model's own form.
func (o *origin) Finish(emit func(reasoning.Event)) {
	if o.chosen != "" && o.native && !o.came {
		o.switchTo(reasoning.StrategyNative, emit)
	}
}

func (o *origin) switchTo(s reasoning.Strategy, emit func(reasoning.Event)) {
	o.now = s
	emit(reasoning.Event{Kind: reasoning.StrategySwitched, Info: &reasoning.Info{Strategy: s}, Text: fallbacks[s]})
}
