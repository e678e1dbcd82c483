//go:build unix

package transcript

import (
	"fmt"
	"regexp"
	"strings"
)

// Rule replaces a part of a program's output that differs between runs or machines.
type Rule struct {
	// Pattern matches the part. If it has a group, only the group is replaced, and the text of the match before the
	// group names the kind of value.
	Pattern string
	// StandIn replaces the part. If it contains %d, the values of each kind are numbered from 1 through the whole
	// document. Equal values have the same number.
	StandIn string
}

// Rules lists all rules, in the order in which they are applied. In addition, the home folder of the commands is
// shown as /home/me, the port of the servers as 8080, and that of a server that runs already as the document has it.
var Rules = []Rule{
	// Times, durations and speeds.
	{`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)`, "…"},
	{`\bmessages? of (\d{4}-\d\d-\d\d \d\d:\d\d)`, "…"},
	{`"(?:created|created_at|completed_at|timestamp)": ?(\d{9,13})\b`, "…"},
	{`\b(\d+\.\d+) s\b`, "…"},
	{`\| (\d+)ms\b`, "…"},
	{`\b(\d+\.\d+) tokens/s`, "…"},
	{`"(?:\w+_(?:duration|ms|per_second)|durationMs)": ?(\d+(?:\.\d+)?)`, "…"},
	{`\bin ((?:\d+m)?\d+(?:\.\d+)?)s\b`, "…"},
	// How much of a prompt was cached, which depends on other requests.
	{`"(?:cached_tokens|cache_n|prompt_n|cache_read_input_tokens|cachedInputTokens)": ?(\d+)`, "…"},
	// Random seeds.
	{`\bseed (\d{10,})`, "…"},
	{`"seed": ?(\d{10,})`, "…"},
	// Keys and sealed values.
	{`\brtrace1-([A-Za-z0-9_-]{20,})`, "key%d"},
	{`\brk-([A-Za-z0-9_-]{20,})`, "key%d"},
	{`\bhead ([A-Za-z0-9_:.-]{20,})`, "%d"},
	{`\b[A-Za-z0-9_-]{100,}`, "sealed%d"},
	// The size of a sealed trace depends on the times in it, and the column's width on the size.
	{`\b(\d+ bytes  +)`, "… bytes  "},
	{`\b(\d+) bytes\b`, "…"},
	// Ids and digests are hexadecimal, with or without a prefix that names their kind.
	{`\b(?:[a-z]+\\?[_-])+([0-9a-f]{12,64})\b`, "%d"},
	{`\b(?:[0-9a-f]{64}|[0-9a-f]{32}|[0-9a-f]{16})\b`, "id%d"},
	// Versions, and facts about the machine.
	{`(?m)^runner  (\S+)$`, "…"},
	{`(?m)^go      (\S+ \S+)$`, "…"},
	{`(?m)^ok  (?:runner|processor|compiled for|kernels|memory|GPU|bandwidth) +(\S.*)$`, "…"},
	{`(?m)^ok  computed by .*; kernels: (\S.*)$`, "…"},
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

// newStandIns returns the stand-ins with all rules. fixed are texts, each with what replaces it.
func newStandIns(fixed ...string) standIns {
	s := standIns{fixed: strings.NewReplacer(fixed...), seen: map[string]string{}, count: map[string]int{}}
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

// of returns the stand-in for a value of a kind.
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
