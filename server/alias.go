package server

import (
	"strings"

	"runner/server/wire"
)

// Alias gives a model more names.
type Alias struct {
	// Pattern is a name, or several: * stands for any text.
	Pattern string
	// Model is the name of the model that they stand for.
	Model string
}

// Matches reports whether a name is one of the alias's, with or without the tag latest.
func (a *Alias) Matches(name string) bool {
	return matches(a.Pattern, name) || matches(a.Pattern, wire.BareName(name))
}

// matches reports whether a name has the form of a pattern. Its time is at most the product of their lengths.
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
