package notation

import "runner/grammar/regex"

// Rule is a named part of a grammar. References hold a pointer to it, so a rule may be used before it is defined.
type Rule struct {
	Name string
	Body *Node // nil until it is defined
	// Defined and Used are the byte offsets of its definition and of its first use.
	Defined, Used int
	// Uses are the nodes that refer to it.
	Uses []*Node
}

// Op is the kind of a node.
type Op uint8

// The kinds of nodes.
const (
	Literal   Op = iota // Text
	Class               // one character of Chars
	Pattern             // a text that the regular expression Text matches
	Sequence            // its kids, one after another
	Choice              // one of its kids
	Repeat              // its kid, Min to Max times
	Reference           // Rule
)

// Node is a part of a rule's body.
type Node struct {
	Op       Op
	Text     string
	Chars    regex.Chars
	Kids     []*Node
	Min, Max int // Max is negative when there is no upper bound
	Rule     *Rule

	ID int // its index in Reader.Nodes
	// Parent is the node above. The body of a rule has an Owner instead.
	Parent *Node
	Owner  *Rule

	height int
}

// Add adds a node whose kids are already there.
func (r *Reader) Add(n *Node) *Node {
	n.ID = len(r.Nodes)
	for _, k := range n.Kids {
		k.Parent = n
		n.height = max(n.height, k.height+1)
	}
	r.Nodes = append(r.Nodes, n)
	return n
}

// AddSymbols counts symbols that are no nodes.
func (r *Reader) AddSymbols(n int) { r.more += n }

// Lookup returns the rule of a name, or nil if the text does not mention it.
func (r *Reader) Lookup(name string) *Rule { return r.byName[name] }

// Mention returns the rule of a name that stands at an offset.
func (r *Reader) Mention(name string, offset int) *Rule {
	if rule, ok := r.byName[name]; ok {
		return rule
	}
	if len(r.Rules) == MaxRules {
		r.Fail(offset, "", "there are more than %d rules", MaxRules)
	}
	rule := &Rule{Name: name, Used: offset}
	r.byName[name] = rule
	r.Rules = append(r.Rules, rule)
	return rule
}

// New returns the rule of a name that is defined at an offset. It fails if the rule is defined already.
func (r *Reader) New(name string, offset int) *Rule {
	rule := r.Mention(name, offset)
	if rule.Body != nil {
		line, _ := r.position(rule.Defined)
		r.Fail(offset, "", "rule %s is defined a second time, after line %d", Quoted(name), line)
	}
	rule.Defined = offset
	return rule
}

// Define sets the body of a rule.
func (rule *Rule) Define(body *Node) { rule.Body, body.Owner = body, rule }

// Body reads the body of a rule up to the end of its last line.
func (r *Reader) Body(rule *Rule) {
	body := r.alternatives()
	if !r.AtEnd() {
		r.unexpected()
	}
	rule.Define(body)
}

// unexpected fails at a character that continues neither a rule nor a group.
func (r *Reader) unexpected() {
	switch c := r.Peek(); {
	case r.Has(r.Define):
		r.Fail(r.Pos, "", "expected the end of the rule before the name of the next one")
	case c == ')' || c == ']':
		r.Fail(r.Pos, "", "there is no group for %c to close", c)
	}
	r.Fail(r.Pos, "", "unexpected %s", r.Found())
}

// Refer reads a name and returns a reference to its rule.
func (r *Reader) Refer() *Node {
	start := r.Pos
	rule := r.Mention(r.Word(r.IsName), start)
	n := r.Add(&Node{Op: Reference, Rule: rule})
	rule.Uses = append(rule.Uses, n)
	r.Skip(0)
	return n
}

// Group reads alternatives in brackets.
func (r *Reader) Group(end byte) *Node {
	start := r.Pos
	if r.depth == MaxNesting {
		r.Fail(start, "", "groups are nested more than %d deep", MaxNesting)
	}
	r.depth++
	r.Skip(1)
	n := r.alternatives()
	switch {
	case r.Pos == len(r.Text) || r.Has(r.Define):
		r.Fail(start, "", "the group is not closed")
	case r.Peek() != end:
		r.unexpected()
	}
	r.depth--
	r.Skip(1)
	return n
}

// alternatives reads sequences separated by |, up to the first character that continues none.
func (r *Reader) alternatives() *Node {
	if r.BarFirst {
		r.bar() // one may stand before the first
	}
	var kids []*Node
	for more := true; more; more = r.bar() {
		kids = append(kids, r.sequence())
		if r.Alternative != nil {
			r.Alternative()
		}
	}
	if len(kids) == 1 {
		return kids[0]
	}
	return r.Add(&Node{Op: Choice, Kids: kids})
}

// bar reads a | with the line break that may stand at it.
func (r *Reader) bar() bool {
	start := r.Pos
	if r.BarFirst {
		r.Blanks(true)
	}
	if r.Peek() != '|' {
		r.Pos = start
		return false
	}
	r.Skip(1)
	if !r.BarFirst {
		r.Blanks(true)
	}
	return true
}

// sequence reads items and the repetitions after them. It may be empty.
func (r *Reader) sequence() *Node {
	var kids []*Node
	for {
		if len(r.Nodes)+r.more > MaxSymbols {
			r.Fail(r.Pos, "", "there are more than %d symbols", MaxSymbols)
		}
		n := r.Item()
		if n == nil {
			break
		}
		kids = append(kids, r.repetitions(n))
	}
	switch len(kids) {
	case 0:
		return r.Add(&Node{Op: Literal})
	case 1:
		return kids[0]
	}
	return r.Add(&Node{Op: Sequence, Kids: kids})
}

// repetitions wraps n in the repetitions that follow it.
func (r *Reader) repetitions(n *Node) *Node {
	for {
		start, least, most := r.Pos, 0, -1
		switch r.Peek() {
		case '*':
			r.Skip(1)
		case '+':
			least = 1
			r.Skip(1)
		case '?':
			most = 1
			r.Skip(1)
		default:
			ok := false
			if least, most, ok = r.Bounds(); !ok {
				return n
			}
		}
		if n.height >= 4*MaxNesting { // a group adds a choice, a sequence and a repetition
			r.Fail(start, "", "repetitions and groups are nested too deep")
		}
		n = r.Add(&Node{Op: Repeat, Kids: []*Node{n}, Min: least, Max: most})
	}
}
