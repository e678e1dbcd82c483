package regex

import (
	"strings"
	"sync"
	"unicode"
)

type propertyKey struct {
	name    string
	negated bool
}

// properties caches classes: propertyKey to class.
var properties sync.Map

// property returns the class of \p{name} or \P{name}. It reports false for unknown names.
func property(name string, negated bool) (class, bool) {
	key := propertyKey{name, negated}
	if c, ok := properties.Load(key); ok {
		return c.(class), true
	}
	c, ok := lookUp(name)
	if !ok {
		return nil, false
	}
	if negated {
		c = c.negate()
	}
	properties.Store(key, c)
	return c, true
}

func lookUp(name string) (class, bool) {
	if key, value, ok := strings.Cut(name, "="); ok {
		switch key {
		case "General_Category", "gc":
			return category(value)
		case "Script", "sc":
			t, ok := unicode.Scripts[value]
			return fromScript(t, ok)
		}
		return nil, false
	}
	if c, ok := binaryProperty(name); ok {
		return c, true
	}
	if c, ok := category(name); ok {
		return c, true
	}
	t, ok := unicode.Scripts[name]
	return fromScript(t, ok)
}

func fromScript(t *unicode.RangeTable, ok bool) (class, bool) {
	if !ok {
		return nil, false
	}
	return fromTables(t), true
}

func category(name string) (class, bool) {
	if alias, ok := unicode.CategoryAliases[name]; ok {
		name = alias
	}
	if t, ok := unicode.Categories[name]; ok {
		return fromTables(t), true
	}
	return nil, false
}

// binaryProperty returns the class of a binary property of ECMA-262 for which the standard library has the data.
func binaryProperty(name string) (class, bool) {
	switch name {
	case "Any":
		return anyClass, true
	case "ASCII":
		return class{{0, 0x7f}}, true
	case "Assigned":
		c, _ := category("Cn")
		return c.negate(), true
	case "Alphabetic", "Alpha":
		return fromTables(unicode.L, unicode.Nl, unicode.Other_Alphabetic), true
	case "Lowercase", "Lower":
		return fromTables(unicode.Ll, unicode.Other_Lowercase), true
	case "Uppercase", "Upper":
		return fromTables(unicode.Lu, unicode.Other_Uppercase), true
	case "Math":
		return fromTables(unicode.Sm, unicode.Other_Math), true
	case "White_Space", "space":
		return fromTables(unicode.White_Space), true
	case "ASCII_Hex_Digit", "Bidi_Control", "Dash", "Deprecated", "Diacritic", "Extender", "Hex_Digit",
		"IDS_Binary_Operator",
		"IDS_Trinary_Operator", "Ideographic", "Join_Control", "Logical_Order_Exception", "Noncharacter_Code_Point",
		"Pattern_Syntax", "Pattern_White_Space", "Quotation_Mark", "Radical", "Regional_Indicator", "Sentence_Terminal",
		"Soft_Dotted", "Terminal_Punctuation", "Unified_Ideograph", "Variation_Selector":
		return fromTables(unicode.Properties[name]), true
	}
	return nil, false
}
