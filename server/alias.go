package server

import (
	"strings"

	"runner/server/wire"
)

// Alias gives a model more names.
type Alias struct {
	// Pattern is a name, or a pattern of names in which * matches any text.
	Pattern string
	// Model is the name of the model that they mean.
	Model string
}

// Matches reports whether a name matches the alias, with or without the tag latest.
func (a *Alias) Matches(name string) bool {
	return matches(a.Pattern, name) || matches(a.Pattern, wire.BareName(name))
}

// matches reports whether a name matches a pattern. It takes time in proportion to the product of their lengths at
// most.
func matches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if last == 0 {
		return pattern == name
	}
	if !strings.HasPrefix(name, parts[0]) {
		return false
	}
	name = name[len(parts[0]):]
	for _, part := range parts[1:last] {
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
	return strings.HasSuffix(name, parts[last])
}
