package markup

import (
	"slices"

	"runner/chattemplate/reader"
)

const pythonTag = "<|python_tag|>"

// callGroup holds the styles of calls that share an opening mark.
type callGroup struct {
	open   string
	styles []*CallStyle
}

// callGroups lists the styles that a reader looks for: those with the mark of the model's own style. If that style is
// unknown, it lists those whose mark cannot mean anything else, which is a token of the vocabulary or <tool_call>.
func callGroups(cfg *reader.Config, own *CallStyle) []callGroup {
	var groups []callGroup
	_, llama := cfg.Vocab.Special(pythonTag)
	for _, s := range callStyles {
		_, token := cfg.Vocab.Special(s.Open)
		read := token || s.Open == "<tool_call>" || s.Open == "" && llama
		if own != nil {
			read = s.Open == own.Open || own.Open == "" && s.Open == pythonTag && token
		}
		if !read {
			continue
		}
		i := slices.IndexFunc(groups, func(g callGroup) bool { return g.open == s.Open })
		if i < 0 {
			i = len(groups)
			groups = append(groups, callGroup{open: s.Open})
		}
		groups[i].styles = append(groups[i].styles, s)
	}
	return groups
}
