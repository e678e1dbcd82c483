package envelope

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// The limits of capabilities.
const (
	maxCapabilities = 256
	maxPattern      = 256
	maxPatternDepth = 16
	// maxGlobbed is the maximum length of a text that a pattern with a star can match.
	maxGlobbed = 4096
)

// Capability is a pattern of messages that a participant may send.
//
// In a pattern, * matches any text without a slash; a pattern that is only * matches any text, as ** does. The
// pattern of a payload is an object. Each of its members must match the payload's member of the same name. A list
// matches what one of its items matches. Numbers, true, false and null match themselves. reasoning/step means
// reasoning/thought.
type Capability struct {
	Kind string `json:"kind"`
	// Payload is the pattern of the payload; nil matches any.
	Payload map[string]any `json:"payload,omitempty"`
}

// Capabilities are what a participant may send: everything that one of them matches.
type Capabilities []Capability

// ParseCapabilities reads an operator's list of capabilities. It refuses patterns that are not supported.
func ParseCapabilities(data []byte) (Capabilities, error) {
	if err := keysOnce(data); err != nil {
		return nil, err
	}
	var raw []map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, wrong("capabilities", "must be a list of objects")
	}
	if len(raw) > maxCapabilities {
		return nil, wrong("capabilities", "has more than %d entries", maxCapabilities)
	}
	list := Capabilities{}
	for _, fields := range raw {
		var c Capability
		for name := range fields {
			if name != "kind" && name != "payload" {
				return nil, wrong("capabilities", "can have only a kind and a payload")
			}
		}
		if err := json.Unmarshal(fields["kind"], &c.Kind); err != nil || !understood(c.Kind, 0) || c.Kind == "" {
			return nil, wrong("capabilities", "need a kind, as in chat, reasoning/* or *")
		}
		if p := fields["payload"]; len(p) > 0 {
			if err := json.Unmarshal(p, &c.Payload); err != nil || c.Payload == nil {
				return nil, wrong("capabilities", "need an object as the pattern of a payload")
			}
			if !understood(c.Payload, 0) {
				return nil, wrong("capabilities", "take texts with *, numbers, true, false, null, lists and objects as "+
					"patterns; /.../, !... and keys with $ or * are not supported")
			}
		}
		list = append(list, c)
	}
	return list, nil
}

// UnmarshalJSON reads the capabilities that a space lists for a participant. Invalid entries are skipped, because they
// allow nothing.
func (c *Capabilities) UnmarshalJSON(data []byte) error {
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	*c = nil
	for _, item := range raw[:min(len(raw), maxCapabilities)] {
		var one struct {
			Kind    string          `json:"kind"`
			Payload json.RawMessage `json:"payload"`
		}
		if json.Unmarshal(item, &one) != nil {
			continue
		}
		known := Capability{Kind: one.Kind}
		if len(one.Payload) > 0 && (json.Unmarshal(one.Payload, &known.Payload) != nil || known.Payload == nil) {
			continue
		}
		*c = append(*c, known)
	}
	return nil
}

// understood reports whether matches supports a pattern.
func understood(pattern any, depth int) bool {
	if depth > maxPatternDepth {
		return false
	}
	switch p := pattern.(type) {
	case string:
		return len(p) <= maxPattern && !strings.HasPrefix(p, "!") && (len(p) < 2 || p[0] != '/' || p[len(p)-1] != '/')
	case []any:
		return !slices.ContainsFunc(p, func(item any) bool { return !understood(item, depth+1) })
	case map[string]any:
		for key, value := range p {
			if strings.ContainsAny(key, "*$?") || !understood(value, depth+1) {
				return false
			}
		}
	}
	return true
}

// Allow reports whether a participant with these capabilities may send e. A pattern that is not supported allows
// nothing. Only the space may send kinds that begin with system/.
func (c Capabilities) Allow(e *Envelope) bool {
	if strings.HasPrefix(e.Kind, "system/") {
		return false
	}
	return slices.ContainsFunc(c, func(one Capability) bool {
		return one.covers(e.Kind) && (one.Payload == nil || one.fits(e.Payload))
	})
}

// AllowKind reports whether these capabilities allow at least some messages of a kind.
func (c Capabilities) AllowKind(kind string) bool {
	return slices.ContainsFunc(c, func(one Capability) bool { return one.covers(kind) })
}

func (c *Capability) covers(kind string) bool {
	return understood(c.Kind, 0) && glob(canonicalKind(c.Kind), kind)
}

func (c *Capability) fits(payload json.RawMessage) bool {
	var value map[string]any
	return understood(c.Payload, 0) && json.Unmarshal(payload, &value) == nil && matches(c.Payload, value)
}

// matches reports whether a pattern matches a value.
func matches(pattern, value any) bool {
	switch p := pattern.(type) {
	case string:
		text, ok := value.(string)
		return ok && glob(p, text)
	case []any:
		return slices.ContainsFunc(p, func(item any) bool { return matches(item, value) })
	case map[string]any:
		object, ok := value.(map[string]any)
		if !ok {
			return false
		}
		for key := range maps.Keys(p) {
			member, ok := object[key]
			if !ok || !matches(p[key], member) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(pattern, value)
}

// glob reports whether a pattern with stars matches a text. It tries all alternatives at once, so that no text takes
// long.
func glob(pattern, text string) bool {
	if pattern == "*" || pattern == text {
		return true
	}
	if len(pattern) > maxPattern || len(text) > maxGlobbed {
		return false
	}
	// at[i] says that pattern[:i] can match the text so far. A star keeps its position, because it can match more
	// characters.
	at, next := make([]bool, len(pattern)+1), make([]bool, len(pattern)+1)
	reach := func(set []bool, i int) {
		for set[i] = true; i < len(pattern) && pattern[i] == '*'; {
			i++
			set[i] = true
		}
	}
	reach(at, 0)
	for t := range len(text) {
		clear(next)
		for i := range len(pattern) {
			switch {
			case !at[i]:
			case strings.HasPrefix(pattern[i:], "**"):
				reach(next, i)
			case pattern[i] == '*':
				if text[t] != '/' {
					reach(next, i)
				}
			case pattern[i] == text[t]:
				reach(next, i+1)
			}
		}
		at, next = next, at
	}
	return at[len(pattern)]
}
