package cli

import (
	"strings"

	"runner/cmd/runner/flags"
	"runner/reasoning/trace"
)

// Sealing are the flags that say to which keys traces and kept conversations are sealed.
type Sealing struct {
	to   []string
	Keys KeyringFlags
}

// ToFlag is the flag that names the keys.
func (s *Sealing) ToFlag(marks ...flags.Mark) flags.Table {
	return flags.Texts("trace-to", &s.to, "public `KEY` that traces are sealed to, its id in the keyring, or a file of "+
		"keys (repeatable; default: the keyring's current key)", marks...)
}

// Recipients returns the recipients that traces and conversations are sealed to.
func (s *Sealing) Recipients(a *App) (list []trace.Recipient, err error) {
	if len(s.to) == 0 {
		key, err := s.Keys.current()
		return []trace.Recipient{key}, err
	}
	seen := map[trace.Recipient]bool{}
	for _, text := range s.to {
		more, err := s.recipientsOf(a, text)
		if err != nil {
			return nil, err
		}
		for _, r := range more {
			if !seen[r] {
				list = append(list, r)
			}
			seen[r] = true
		}
	}
	if len(list) > trace.MaxRecipients {
		return nil, Usage("--trace-to names %d keys, but at most %d are allowed", len(list), trace.MaxRecipients).
			Hint("name fewer")
	}
	return list, nil
}

// keyIDSize is the number of hexadecimal digits of a key's id.
const keyIDSize = 16

// recipientsOf reads one value of --trace-to.
func (s *Sealing) recipientsOf(a *App, text string) (list []trace.Recipient, err error) {
	if r, err := trace.ParseRecipient(text); err == nil {
		return []trace.Recipient{r}, nil
	}
	if len(text) == keyIDSize && strings.Trim(text, "0123456789abcdef") == "" {
		key, err := s.Keys.public(text)
		return []trace.Recipient{key}, err
	}
	content, err := a.ReadFile("--trace-to", text)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(content) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		r, err := trace.ParseRecipient(line)
		if err != nil {
			return nil, Input("--trace-to %s: it has a line that is not a public key", text).From(err).
				Hint("give what runner trace keys export prints, one a line")
		}
		list = append(list, r)
	}
	if len(list) == 0 {
		return nil, Input("--trace-to %s: it has no key", text).Hint("give what runner trace keys export prints")
	}
	return list, nil
}
