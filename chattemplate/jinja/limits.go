package jinja

// Limits limits what one template may use. A zero field means the default.
type Limits struct {
	// Source is the maximum size of a template, in bytes. Default 1 MiB.
	Source int
	// Nesting is how deep expressions and tags may nest in the source. A tag counts as ten. Default 1000.
	Nesting int
	// Steps is how many expressions and statements one render may evaluate. Each loop turn, each list item and every
	// 256 bytes of text that an operation reads or makes count as one more. Default 10 million.
	Steps int64
	// Output is the maximum length of the output and of any one text value, in bytes. Default 64 MiB.
	Output int
	// Memory limits all text and items that one render makes, whether still in use or not, in bytes. Default 1 GiB.
	Memory int64
	// Depth is how deep macro calls and recursive loops may nest at run time, and how deep values may nest when they
	// are printed or compared. Default 200.
	Depth int
	// Range is the maximum length of a range(). Default 100,000, as in jinja2's sandbox.
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

// bytesPerStep is the number of bytes of text that count as one step.
const bytesPerStep = 256

// itemBytes is the number of bytes that one item of a list or dict counts as.
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

// work counts an operation that reads n bytes of text, or n / itemBytes items.
func (r *render) work(n int) {
	before := r.steps
	r.steps += int64(n / bytesPerStep)
	if before>>12 != r.steps>>12 || r.steps > r.lim.Steps {
		r.checkSteps()
	}
}

// made counts a text of n bytes before it is made.
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

// fits fails if a text under construction is longer than allowed.
func (r *render) fits(n int) {
	if n > r.lim.Output {
		r.made(n)
	}
}

// madeItems counts a list or dict of n items before it is made.
func (r *render) madeItems(n int) {
	if n > r.lim.Output/itemBytes || n < 0 {
		r.fail(KindLimit, "the template makes a list of more than %d items", r.lim.Output/itemBytes)
	}
	r.made(n * itemBytes)
}

// enter and leave count a level of nesting at run time.
func (r *render) enter() {
	r.depth++
	if r.depth > r.lim.Depth {
		r.fail(KindLimit, "the template nests calls more than %d deep", r.lim.Depth)
	}
}

func (r *render) leave() { r.depth-- }

// tooDeep fails if a value nests deeper than allowed.
func (r *render) tooDeep(depth int) {
	if depth > r.lim.Depth {
		r.fail(KindLimit, "a value nests more than %d deep", r.lim.Depth)
	}
}
