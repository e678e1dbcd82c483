package jsonschema

import (
	"fmt"
)

// kinds is a set of the types of JSON values.
type kinds uint8

const (
	nullKind kinds = 1 << iota
	boolKind
	numberKind
	stringKind
	arrayKind
	objectKind
	allKinds = nullKind | boolKind | numberKind | stringKind | arrayKind | objectKind
)

func (v *value) kinds() kinds {
	switch v.kind {
	case nullValue:
		return nullKind
	case falseValue, trueValue:
		return boolKind
	case numberValue:
		return numberKind
	case stringValue:
		return stringKind
	case arrayValue:
		return arrayKind
	}
	return objectKind
}

// dialect is a version of JSON Schema. open means that the document names none. It is then read as 2020-12 plus the
// older spellings.
type dialect uint8

const (
	draft4 dialect = iota
	draft6
	draft7
	draft2019
	draft2020
	open
)

var dialects = map[string]dialect{
	"http://json-schema.org/draft-04/schema":       draft4,
	"http://json-schema.org/draft-06/schema":       draft6,
	"http://json-schema.org/draft-07/schema":       draft7,
	"https://json-schema.org/draft/2019-09/schema": draft2019,
	"https://json-schema.org/draft/2020-12/schema": draft2020,
}

// IsDraft reports whether $schema names a draft that Compile knows.
func IsDraft(name string) bool {
	_, ok := dialects[trimFragment(name)]
	return ok
}

// since is the draft that introduced a keyword which draft 4 lacks. Older documents may use the word for anything.
var since = map[string]dialect{
	"const": draft6, "contains": draft6, "propertyNames": draft6,
	"if": draft7, "then": draft7, "else": draft7,
	"dependentRequired": draft2019, "dependentSchemas": draft2019, "minContains": draft2019, "maxContains": draft2019,
	"unevaluatedProperties": draft2019, "unevaluatedItems": draft2019, "$recursiveRef": draft2019,
	"prefixItems": draft2020, "$dynamicRef": draft2020,
}

// node is a schema of the document. Its keywords are read when it is first reached.
type node struct {
	id     int32
	raw    *value
	home   *resource
	loaded bool
	busy   int  // the generation in which it is being expanded, to find references that return without descending
	always int8 // +1 for a schema that admits everything, -1 for one that admits nothing

	types   kinds       // allKinds unless type restricts them
	integer bool        // numbers must be integral
	enum    *valueSet   // nil if every value is allowed
	num     *numberPart // nil without the keyword; the same holds below
	str     *stringPart
	arr     *arrayWords
	obj     *objectWords
	logic   *logicWords
	top     [6]*alt // the constraints of the keywords on one kind, made on demand
}

type arrayWords struct {
	prefix                   []*node
	items                    *node
	contains                 *node
	min, max                 int // max < 0 means no limit
	minContains, maxContains int
	unique                   bool
	unevaluated              *node
}

type property struct {
	key  string
	node *node
}

type objectWords struct {
	props       []property
	index       map[string]*node
	patterns    []property // key is the pattern
	additional  *node
	required    []string
	min, max    int
	names       *node
	needs       []dependency
	unevaluated *node
}

func (o *objectWords) prop(key string) *node {
	if o.index != nil {
		return o.index[key]
	}
	for i := range o.props {
		if o.props[i].key == key {
			return o.props[i].node
		}
	}
	return nil
}

// dependency is what the presence of a property demands: other properties, or a schema.
type dependency struct {
	key      string
	required []string
	node     *node
}

// factor is one of the parts of a schema that must all hold.
type factor uint8

const (
	ownFactor factor = iota // everything but the following
	refFactor
	allFactor
	anyFactor
	oneFactor
	notFactor
	ifFactor
	needsFactor
)

type logicWords struct {
	order             []factor // as the text has them
	ref               *node
	all, any, one     []*node
	not               *node
	cond, then, other *node
}

// nodeOf returns the schema of raw, which is part of the resource home.
func (c *compiler) nodeOf(raw *value, home *resource) *node {
	if raw.schema != nil {
		return raw.schema
	}
	if len(c.nodes) >= c.opt.MaxSubschemas {
		fail(&Error{Class: ErrLimit, Reason: fmt.Sprintf("more than %d subschemas", c.opt.MaxSubschemas)})
	}
	n := &node{id: int32(len(c.nodes)), raw: raw, home: home}
	if c.marks {
		n.home = c.enter(raw, home)
	}
	raw.schema = n
	c.nodes = append(c.nodes, n)
	return n
}

// synthetic returns a schema that is not in the document but made of others.
func (c *compiler) synthetic(n *node) *node {
	n.id, n.loaded, n.raw = int32(len(c.nodes)), true, &value{kind: objectValue}
	if n.types == 0 {
		n.types = allKinds
	}
	c.nodes = append(c.nodes, n)
	return n
}

// load reads the keywords of n.
func (c *compiler) load(n *node) *node {
	if n.loaded {
		return n
	}
	n.loaded = true
	n.types = allKinds
	switch n.raw.kind {
	case trueValue:
		n.always = 1
	case falseValue:
		n.always = -1
	case objectValue:
		r := reader{c: c, n: n}
		if ref := n.raw.get("$ref"); ref != nil && c.dialect <= draft7 {
			r.keyword("$ref", ref)
		} else {
			for _, m := range n.raw.members {
				if first, ok := since[m.key]; !ok || c.dialect >= first {
					r.keyword(m.key, m.value)
				}
			}
			r.join()
		}
		if n.types == allKinds && !n.integer && n.enum == nil && n.num == nil && n.str == nil && n.arr == nil &&
			n.obj == nil && n.logic == nil {
			n.always = 1
		}
	default:
		fail(c.errorAt(ErrInvalid, n, "", "a schema is an object, true or false"))
	}
	return n
}
