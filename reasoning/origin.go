package reasoning

// origin watches where reasoning comes from, for the strategies that may fail at run time.
type origin struct {
	// chosen is json or tool, or empty, when nothing is watched; now is where reasoning came from last, or was to
	// come from.
	chosen, now Strategy
	// from is the source of the segment that begins.
	from Strategy
	// came says that reasoning came from a source that is no native one, native that it came from that.
	came, native bool
}

// fallbacks are the reasons for switching to a strategy.
var fallbacks = map[Strategy]string{
	StrategyNative:  "the reasoning came in the model's own form",
	StrategyTool:    "the reasoning came in a call",
	StrategyMarkers: "the reasoning came between markers",
}

// order is the order in which the strategies are tried.
var order = map[Strategy]int{StrategyJSON: 0, StrategyTool: 1, StrategyMarkers: 2}

// note takes the beginning of reasoning with its source, and tells when that is further down than where it came
// from so far.
func (o *origin) note(emit func(Event)) {
	switch {
	case o.chosen == "":
	case o.from == StrategyNative:
		o.native = true
	default:
		o.came = true
		if order[o.from] > order[o.now] {
			o.switchTo(o.from, emit)
		}
	}
}

// finish tells when there was reasoning in the model's own form only.
func (o *origin) finish(emit func(Event)) {
	if o.chosen != "" && o.native && !o.came {
		o.switchTo(StrategyNative, emit)
	}
}

func (o *origin) switchTo(s Strategy, emit func(Event)) {
	o.now = s
	emit(Event{Kind: StrategySwitched, Info: &Info{Strategy: s}, Text: fallbacks[s]})
}
