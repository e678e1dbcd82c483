package jsonschema

import (
	"math"
	"math/big"
	"slices"
)

// reader reads the keywords of one schema.
type reader struct {
	c                   *compiler
	n                   *node
	exclMin, exclMax    bool // draft 4: as booleans
	itemsList, listRest *value
}

func (r *reader) bad(key, reason string) { fail(r.c.errorAt(ErrInvalid, r.n, key, reason)) }

func (r *reader) schema(key string, v *value) *node {
	if v.kind != objectValue && v.kind != trueValue && v.kind != falseValue {
		r.bad(key, "it must be a schema: an object, true or false")
	}
	return r.c.nodeOf(v, r.n.home)
}

func (r *reader) schemas(key string, v *value) []*node {
	if v.kind != arrayValue || len(v.items) == 0 && key != "prefixItems" && key != "items" {
		r.bad(key, "it must be a list of schemas")
	}
	list := make([]*node, len(v.items))
	for i, item := range v.items {
		list[i] = r.schema(key, item)
	}
	return list
}

func (r *reader) named(key string, v *value) []property {
	if !v.isObject() {
		r.bad(key, "it must be an object")
	}
	list := make([]property, len(v.members))
	for i, m := range v.members {
		list[i] = property{m.key, r.schema(key, m.value)}
	}
	return list
}

// count reads a number of characters, items or properties. No text exceeds an int32.
func (r *reader) count(key string, v *value) int {
	if v.kind != numberValue || !v.num.IsInt() || v.num.Sign() < 0 {
		r.bad(key, "it must be an integer that is not negative")
	}
	if n := v.num.Num(); n.IsInt64() && n.Int64() <= math.MaxInt32 {
		return int(n.Int64())
	}
	return math.MaxInt32
}

func (r *reader) number(key string, v *value) *big.Rat {
	if v.kind != numberValue {
		r.bad(key, "it must be a number")
	}
	return v.num
}

func (r *reader) text(key string, v *value) string {
	if v.kind != stringValue {
		r.bad(key, "it must be a string")
	}
	if v.broken {
		fail(r.c.errorAt(ErrUnsupported, r.n, key, "half a surrogate pair"))
	}
	return v.text
}

func (r *reader) texts(key string, v *value) []string {
	if v.kind != arrayValue {
		r.bad(key, "it must be a list of strings")
	}
	var list []string
	for _, item := range v.items {
		if text := r.text(key, item); !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

func (r *reader) num() *numberPart {
	if r.n.num == nil {
		r.n.num = &numberPart{}
	}
	return r.n.num
}

func (r *reader) str() *stringPart {
	if r.n.str == nil {
		r.n.str = &stringPart{max: -1}
	}
	return r.n.str
}

func (r *reader) arr() *arrayWords {
	if r.n.arr == nil {
		r.n.arr = &arrayWords{max: -1, minContains: 1, maxContains: -1}
	}
	return r.n.arr
}

func (r *reader) obj() *objectWords {
	if r.n.obj == nil {
		r.n.obj = &objectWords{max: -1}
	}
	return r.n.obj
}

func (r *reader) logic(f factor) *logicWords {
	if r.n.logic == nil {
		r.n.logic = &logicWords{}
	}
	l := r.n.logic
	if !slices.Contains(l.order, f) {
		l.order = append(l.order, f)
	}
	return l
}

// keyword reads one keyword. All others put no constraint on instances: annotations, and unknown words, which JSON
// Schema says to ignore.
func (r *reader) keyword(key string, v *value) {
	switch key {
	case "type":
		r.types(v)
	case "enum":
		if v.kind != arrayValue {
			r.bad(key, "it must be a list")
		}
		r.values(key, v.items)
	case "const":
		r.values(key, []*value{v})
	case "$ref":
		r.logic(refFactor).ref = r.c.resolve(r.n, key, r.text(key, v))
	case "$dynamicRef", "$recursiveRef":
		ref := r.c.resolveDynamic(r.n, key, r.text(key, v))
		if l := r.logic(allFactor); ref != nil {
			l.all = append(l.all, ref)
		}
	case "allOf":
		l := r.logic(allFactor)
		l.all = append(l.all, r.schemas(key, v)...)
	case "anyOf":
		r.logic(anyFactor).any = r.schemas(key, v)
	case "oneOf":
		r.logic(oneFactor).one = r.schemas(key, v)
	case "not":
		r.logic(notFactor).not = r.schema(key, v)
	case "if":
		r.logic(ifFactor).cond = r.schema(key, v)
	case "then", "else":
		if r.n.raw.get("if") != nil {
			node := r.schema(key, v)
			if l := r.logic(ifFactor); key == "then" {
				l.then = node
			} else {
				l.other = node
			}
		}
	default:
		r.numberKeyword(key, v)
		r.stringKeyword(key, v)
		r.arrayKeyword(key, v)
		r.objectKeyword(key, v)
	}
}

var typeNames = map[string]kinds{
	"null": nullKind, "boolean": boolKind, "number": numberKind, "integer": numberKind,
	"string": stringKind, "array": arrayKind, "object": objectKind,
}

func (r *reader) types(v *value) {
	list := []*value{v}
	if v.kind == arrayValue {
		list = v.items
	}
	var set kinds
	number, integer := false, false
	for _, item := range list {
		k, ok := typeNames[item.text]
		if item.kind != stringValue || !ok {
			r.bad("type", "it must name one or more of null, boolean, number, integer, string, array and object")
		}
		set |= k
		number = number || item.text == "number"
		integer = integer || item.text == "integer"
	}
	r.n.types, r.n.integer = set, integer && !number
}

func (r *reader) values(key string, list []*value) {
	for _, v := range list {
		if v.hasBroken() {
			fail(r.c.errorAt(ErrUnsupported, r.n, key, "half a surrogate pair"))
		}
	}
	if both := r.n.enum; both != nil { // enum and const together
		list = slices.DeleteFunc(slices.Clone(list), func(v *value) bool { return !both.has(v) })
	}
	r.n.enum = newValueSet(list)
}

func (v *value) hasBroken() bool {
	return v.broken || slices.ContainsFunc(v.items, (*value).hasBroken) ||
		slices.ContainsFunc(v.members, func(m member) bool { return m.value.hasBroken() })
}

func (r *reader) numberKeyword(key string, v *value) {
	switch key {
	case "minimum":
		r.num().raise(r.number(key, v), false)
	case "maximum":
		r.num().lower(r.number(key, v), false)
	case "exclusiveMinimum":
		if v.kind == trueValue || v.kind == falseValue {
			r.exclMin = v.kind == trueValue
		} else {
			r.num().raise(r.number(key, v), true)
		}
	case "exclusiveMaximum":
		if v.kind == trueValue || v.kind == falseValue {
			r.exclMax = v.kind == trueValue
		} else {
			r.num().lower(r.number(key, v), true)
		}
	case "multipleOf":
		if r.number(key, v).Sign() <= 0 {
			r.bad(key, "it must be greater than 0")
		}
		r.num().multiple = []*big.Rat{v.num}
	}
}

func (r *reader) stringKeyword(key string, v *value) {
	switch key {
	case "minLength":
		r.str().min = r.count(key, v)
	case "maxLength":
		r.str().max = r.count(key, v)
	case "pattern":
		r.str().patterns = []string{r.text(key, v)}
	case "format":
		if v.kind == stringValue && formatIsEnforced(v.text) {
			r.str().formats = []string{v.text}
		}
	}
}

func (r *reader) arrayKeyword(key string, v *value) {
	switch key {
	case "prefixItems":
		r.arr().prefix = r.schemas(key, v)
	case "items":
		if v.kind == arrayValue {
			r.itemsList = v
		} else {
			r.arr().items = r.schema(key, v)
		}
	case "additionalItems":
		r.listRest = v
	case "minItems":
		r.arr().min = r.count(key, v)
	case "maxItems":
		r.arr().max = r.count(key, v)
	case "uniqueItems":
		if v.kind != trueValue && v.kind != falseValue {
			r.bad(key, "it must be true or false")
		}
		r.arr().unique = v.kind == trueValue
	case "contains":
		r.arr().contains = r.schema(key, v)
	case "minContains":
		r.arr().minContains = r.count(key, v)
	case "maxContains":
		r.arr().maxContains = r.count(key, v)
	case "unevaluatedItems":
		r.arr().unevaluated = r.schema(key, v)
	}
}

func (r *reader) objectKeyword(key string, v *value) {
	switch key {
	case "properties":
		o := r.obj()
		o.props = r.named(key, v)
		if len(o.props) > manyMembers {
			o.index = make(map[string]*node, len(o.props))
			for _, p := range o.props {
				o.index[p.key] = p.node
			}
		}
		if r.n.logic != nil {
			r.logic(ownFactor)
		}
	case "patternProperties":
		r.obj().patterns = r.named(key, v)
	case "additionalProperties":
		r.obj().additional = r.schema(key, v)
	case "required":
		r.obj().required = r.texts(key, v)
	case "minProperties":
		r.obj().min = r.count(key, v)
	case "maxProperties":
		r.obj().max = r.count(key, v)
	case "propertyNames":
		r.obj().names = r.schema(key, v)
	case "unevaluatedProperties":
		r.obj().unevaluated = r.schema(key, v)
	case "dependentRequired", "dependentSchemas", "dependencies":
		r.dependencies(key, v)
	}
}

func (r *reader) dependencies(key string, v *value) {
	if !v.isObject() {
		r.bad(key, "it must be an object")
	}
	for _, m := range v.members {
		d := dependency{key: m.key}
		switch {
		case m.value.kind == arrayValue && key != "dependentSchemas":
			d.required = r.texts(key, m.value)
		case key == "dependentRequired":
			r.bad(key, "it must hold lists of strings")
		default:
			d.node = r.schema(key, m.value)
		}
		o := r.obj()
		o.needs = append(o.needs, d)
	}
	if len(v.members) > 0 {
		r.logic(needsFactor)
	}
}

// join handles the keywords that depend on one another.
func (r *reader) join() {
	n := r.n
	if r.exclMin && n.num != nil && n.num.min != nil {
		n.num.exclMin = true
	}
	if r.exclMax && n.num != nil && n.num.max != nil {
		n.num.exclMax = true
	}
	if r.itemsList != nil {
		if a := r.arr(); a.prefix == nil {
			a.prefix = r.schemas("items", r.itemsList)
			if r.listRest != nil {
				a.items = r.schema("additionalItems", r.listRest)
			}
		}
	}
	if n.logic != nil && !slices.Contains(n.logic.order, ownFactor) {
		n.logic.order = slices.Insert(n.logic.order, 0, ownFactor)
	}
}
