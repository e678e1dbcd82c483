package jinja

// Limits bounds what one template may cost. A zero field stands for the default given with it.
type Limits struct {
	// Source is the largest template, in bytes. Default 1 MiB.
	Source int
	// Nesting is how deep expressions and tags may nest in the source; a tag counts as ten. Default 1000.
	Nesting int
	// Steps is how many expressions and statements one render may evaluate; each loop turn, list item and 256 bytes of
	// text that an operation reads or makes count as one more. Default 10 million.
	Steps int64
	// Output is the longest text that a render may make, as its output or as any one value, in bytes. Default 64 MiB.
	Output int
	// Memory bounds all text and items that one render makes, still used or not, in bytes. Default 1 GiB.
	Memory int64
	// Depth is how deep macro calls and recursive loops may nest at run time, and how deep values may nest when they
	// are printed or compared. Default 200.
	Depth int
	// Range is the longest range(). Default 100,000, as in jinja2's sandbox.
	Range int
}

func (l Limits) withDefaults() Limits {
	def := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	def(&l.Source, 1<<20)
	def(&l.Nesting, 1000)
	def(&l.Output, 64<<20)
	def(&l.Depth, 200)
	def(&l.Range, 100_000)
	if l.Steps <= 0 {
		l.Steps = 10_000_000
	}
	if l.Memory <= 0 {
		l.Memory = 1 << 30
	}
	return l
}

// bytesPerStep is how much text counts as one step.
const bytesPerStep = 256

// itemBytes is what one item of a list or dict counts as, in bytes.
const itemBytes = 32

// step counts one evaluation.
func (r *render) step() {
	r.steps++
	if r.steps&4095 == 0 || r.steps > r.lim.Steps {
		r.checkSteps()
	}
}

func (r *render) checkSteps() {
	if r.steps > r.lim.Steps {
		r.fail(KindLimit, "the template takes more than %d steps", r.lim.Steps)
	}
	if err := r.ctx.Err(); err != nil {
		panic(&Error{Kind: KindCanceled, Line: r.line, Message: "rendering was canceled", cause: err})
	}
}

// work counts an operation that reads n bytes of text, or n items at itemBytes each.
func (r *render) work(n int) {
	before := r.steps
	r.steps += int64(n / bytesPerStep)
	if before>>12 != r.steps>>12 || r.steps > r.lim.Steps {
		r.checkSteps()
	}
}

// made counts text about to be made, n bytes long.
func (r *render) made(n int) {
	if n > r.lim.Output || n < 0 {
		r.fail(KindLimit, "the template makes a text of more than %d bytes", r.lim.Output)
	}
	r.work(n)
	r.memory += int64(n)
	if r.memory > r.lim.Memory {
		r.fail(KindLimit, "the template uses more than %d bytes of memory", r.lim.Memory)
	}
}

// fits fails when a text being made is longer than allowed.
func (r *render) fits(n int) {
	if n > r.lim.Output {
		r.made(n)
	}
}

// madeItems counts a list or dict of n items about to be made.
func (r *render) madeItems(n int) {
	if n > r.lim.Output/itemBytes || n < 0 {
		r.fail(KindLimit, "the template makes a list of more than %d items", r.lim.Output/itemBytes)
	}
	r.made(n * itemBytes)
}

// enter and leave bracket a level of run-time nesting.
func (r *render) enter() {
	r.depth++
	if r.depth > r.lim.Depth {
		r.fail(KindLimit, "the template nests calls more than %d deep", r.lim.Depth)
	}
}

func (r *render) leave() { r.depth-- }

// tooDeep fails when a value nests deeper than depth allows.
func (r *render) tooDeep(depth int) {
	if depth > r.lim.Depth {
		r.fail(KindLimit, "a value nests more than %d deep", r.lim.Depth)
	}
}
