//go:build unix

package transcript

import (
	"fmt"
	"regexp"
	"strings"
)

// Rule says what of a program's output is replaced because it differs from run to run, or from machine to machine.
type Rule struct {
	// Pattern finds it. Where it has a group, that alone is replaced, and what the match has before it is the kind
	// of the thing.
	Pattern string
	// StandIn is put in its place. One with %d numbers the things of a kind in all of a document, from 1; the same
	// thing has the same number everywhere.
	StandIn string
}

// Rules are all that are applied, in this order. Beside them, the home folder of the commands stands as /home/me,
// and the port of the servers, which is any free one, as 8080.
var Rules = []Rule{
	// Points in time, times taken, speeds.
	{`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)`, "…"},
	{`"(?:created|created_at|completed_at|timestamp)": ?(\d{9,13})\b`, "…"},
	{`\b(\d+\.\d+) s\b`, "…"},
	{`\| (\d+)ms\b`, "…"},
	{`\b(\d+\.\d+) tokens/s`, "…"},
	{`"(?:\w+_(?:duration|ms|per_second)|durationMs)": ?(\d+(?:\.\d+)?)`, "…"},
	{`\bin ((?:\d+m)?\d+(?:\.\d+)?)s\b`, "…"},
	// How much of a prompt the cache had, which other requests decide.
	{`"(?:cached_tokens|cache_n|prompt_n|cache_read_input_tokens|cachedInputTokens)": ?(\d+)`, "…"},
	// Seeds that were drawn.
	{`\bseed (\d{10,})`, "…"},
	{`"seed": ?(\d{10,})`, "…"},
	// What seals, and what is sealed.
	{`\brtrace1-([A-Za-z0-9_-]{20,})`, "key%d"},
	{`\brk-([A-Za-z0-9_-]{20,})`, "key%d"},
	{`\bhead ([A-Za-z0-9_:.-]{20,})`, "%d"},
	{`\b[A-Za-z0-9_-]{100,}`, "sealed%d"},
	// Sealed traces are as long as the times in them, and columns as wide as those.
	{`\b(\d+ bytes  +)`, "… bytes  "},
	{`\b(\d+) bytes\b`, "…"},
	// Ids and digests are hexadecimal, with or without a prefix that tells their kind.
	{`\b(?:[a-z]+\\?[_-])+([0-9a-f]{12,64})\b`, "%d"},
	{`\b(?:[0-9a-f]{64}|[0-9a-f]{32}|[0-9a-f]{16})\b`, "id%d"},
	// Versions and the machine.
	{`(?m)^runner  (\S+)$`, "…"},
	{`(?m)^go      (\S+ \S+)$`, "…"},
	{`(?m)^ok  (?:runner|processor|compiled for|kernels|memory|GPU) +(\S.*)$`, "…"},
	{`(?m)^ok  loads .* with (\d+ threads?),`, "…"},
}

// standIns applies the rules to a document's output.
type standIns struct {
	fixed *strings.Replacer
	rules []compiled
	seen  map[string]string
	count map[string]int
}

type compiled struct {
	pattern *regexp.Regexp
	standIn string
}

func newStandIns(home, freePort string) standIns {
	s := standIns{fixed: strings.NewReplacer(home, "/home/me", ":"+freePort, ":"+port), seen: map[string]string{},
		count: map[string]int{}}
	for _, r := range Rules {
		s.rules = append(s.rules, compiled{regexp.MustCompile(r.Pattern), r.StandIn})
	}
	return s
}

func (s *standIns) replace(text string) string {
	text = s.fixed.Replace(text)
	for _, r := range s.rules {
		var b strings.Builder
		end := 0
		for _, m := range r.pattern.FindAllStringSubmatchIndex(text, -1) {
			from, to := m[len(m)-2], m[len(m)-1]
			b.WriteString(text[end:from])
			b.WriteString(s.of(r.standIn, text[m[0]:from], text[from:to]))
			end = to
		}
		text = b.String() + text[end:]
	}
	return text
}

// of returns what stands for a thing of a kind.
func (s *standIns) of(standIn, kind, thing string) string {
	if !strings.Contains(standIn, "%d") {
		return standIn
	}
	kind += standIn
	key := kind + " " + thing
	if s.seen[key] == "" {
		s.count[kind]++
		s.seen[key] = fmt.Sprintf(standIn, s.count[kind])
	}
	return s.seen[key]
}
