package library

import (
	"errors"
	"slices"
	"strings"

	"runner/models/names"
)

// hubs are the prefixes that people put before ORG/REPO. The hub that is asked is that of the configuration.
var hubs = []string{"hf.co", "huggingface.co"}

// maxName is the maximum length of a name in bytes.
const maxName = 512

// Parse reads the name of a model as a client may send it: ORG/REPO, with a quantization or a file, also after hf.co/,
// or the short name of a well-known model. It takes no path, no address and no revision. Every error is a
// [*names.Error].
func Parse(text string) (names.Name, error) {
	fail := func(detail string) (names.Name, error) {
		return names.Name{}, &names.Error{Text: text[:min(len(text), maxName)], Detail: detail,
			Advice: "name a model as ORG/REPO or ORG/REPO:QUANT"}
	}
	rest := text
	if first, after, ok := strings.Cut(rest, "/"); ok && slices.Contains(hubs, strings.ToLower(first)) {
		rest = after
	}
	first, after, _ := strings.Cut(rest, "/")
	switch {
	case len(text) > maxName:
		return fail("is too long")
	case strings.Contains(text, "://"):
		return fail("is an address")
	case strings.ContainsAny(text, `\~`) || strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, ".") ||
		strings.Contains(text, ".."):
		return fail("is a path")
	case strings.Contains(text, "@"):
		return fail("has a revision")
	case strings.Contains(first, ".") && strings.Contains(after, "/"), isHost(first) && after != "":
		return fail("is the address of another host")
	}
	n, err := names.Parse(rest)
	var why *names.Error
	switch {
	case errors.As(err, &why):
		return fail(why.Detail)
	case strings.TrimSpace(text) != text, n.Repo == "" && rest != text:
		return fail("is not a name")
	}
	return n, nil
}

// isHost reports whether the first part of a name is a host that package names knows.
func isHost(first string) bool {
	first = strings.TrimPrefix(strings.ToLower(first), "www.")
	return first == "ollama.com" || first == "registry.ollama.ai" || slices.Contains(hubs, first)
}
