package wiretest

import (
	"encoding/json"
	"strings"
)

// Joined returns the texts of an answer, which is JSON or frames with JSON: for each place of a string in a frame, such
// as .choices[].delta.content, the strings there in order, as one text. So words that were split over frames can be
// found.
func Joined(answer string) (texts []string) {
	places := map[string]*strings.Builder{}
	for line := range strings.SplitSeq(answer, "\n") {
		var v any
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &v) == nil {
			gather("", v, places)
		}
	}
	for _, text := range places {
		texts = append(texts, text.String())
	}
	return texts
}

// gather appends every string of a JSON value to the text at its place.
func gather(path string, v any, to map[string]*strings.Builder) {
	switch v := v.(type) {
	case string:
		if to[path] == nil {
			to[path] = &strings.Builder{}
		}
		to[path].WriteString(v)
	case []any:
		for _, e := range v {
			gather(path+"[]", e, to)
		}
	case map[string]any:
		for name, e := range v {
			gather(path+"."+name, e, to)
		}
	}
}
