// Package names reads the names of models that people type and paste.
//
// A name is either a repository on the Hugging Face hub, ORG/REPO with a file or a quantization, or one word such as
// qwen3:8b, which [Find] looks up in a table of well-known models. Reading a name looks at nothing but the name.
package names

import (
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"runner/models/cache"
)

// Name is what a name says.
type Name struct {
	// Repo is ORG/REPO as it was typed, so the case may not be the hub's. It is empty if Word is not.
	Repo string
	// Word is a name of one word, for instance gpt-oss:20b.
	Word string
	// Revision is a branch, tag or commit, or empty for the main one.
	Revision string
	// Selector chooses files of the repository: the path or base name of a file, a folder, or a quantization such as
	// Q4_K_M. It is empty where the best files are wanted.
	Selector string
}

// String returns the shortest spelling, which [Parse] reads as the same name.
func (n Name) String() string {
	s := n.Repo + n.Word
	if n.Revision != "" {
		s += "@" + n.Revision
	}
	if n.Selector != "" {
		s += ":" + n.Selector
	}
	return s
}

// OnHub returns the repositories on the Hugging Face hub that the name may mean, as ORG/REPO, the likeliest first,
// and the selector of the files. There are none for a word that is not well known. What the hub calls a repository is
// its spelling.
func (n Name) OnHub() (repos []string, selector string) {
	if n.Word != "" {
		if k, quant, ok := Find(n.Word); ok {
			return []string{k.Repo}, quant
		}
		return nil, ""
	}
	repos = []string{n.Repo}
	if _, ok := cutSuffixFold(n.Repo, suffix); !ok && cache.ValidID(n.Repo+suffix) {
		repos = append(repos, n.Repo+suffix)
	}
	return repos, n.Selector
}

// suffix ends the names of most repositories with GGUF files. People leave it out.
const suffix = "-GGUF"

// Error says why a text is not the name of a model.
type Error struct {
	Text string
	// Detail is one line without the text.
	Detail string
	// Advice is one line that tells the user what to do.
	Advice string
}

func (e *Error) Error() string { return fmt.Sprintf("model name %q: %s", e.Text, e.Detail) }

// Hint tells the user what to do next.
func (e *Error) Hint() string { return e.Advice }

const maxLength = 2048

var word = regexp.MustCompile(`^[A-Za-z][\w.-]{0,95}(?::[\w.-]{1,95})?$`)

// ref is a branch, tag or commit. It may have slashes, as refs/pr/1 does.
var ref = regexp.MustCompile(`^\w[\w./-]{0,127}$`)

// hubs are the hosts whose addresses are names of models.
var hubs = []string{"huggingface.co", "www.huggingface.co", "hf.co", "www.hf.co"}

// Parse reads a name in any of the forms that people use:
//
//	ORG/REPO, ORG/REPO:QUANT, ORG/REPO:FILE, ORG/REPO/FILE, ORG/REPO@REVISION
//	hf.co/ORG/REPO:QUANT, huggingface.co/ORG/REPO, hf://ORG/REPO
//	https://huggingface.co/ORG/REPO, also with /tree/main, /blob/main/FILE or /resolve/main/FILE, and a query
//	gpt-oss:20b, qwen3-8b, llama3.2, https://ollama.com/library/llama3.2
//
// hosts are the hosts of other hubs, for instance that of HF_ENDPOINT. Every error is an [*Error].
func Parse(text string, hosts ...string) (Name, error) {
	n, err := parse(text, hosts)
	if n.Revision == "main" {
		n.Revision = ""
	}
	if strings.EqualFold(n.Selector, "latest") { // as Ollama names it
		n.Selector = ""
	}
	return n, err
}

func parse(text string, hosts []string) (Name, error) {
	trimmed := strings.TrimSpace(text)
	fail := func(detail, advice string) (Name, error) { return Name{}, &Error{text, detail, advice} }
	const shapes = "name a model as ORG/REPO, ORG/REPO:QUANT or ORG/REPO:FILE"
	if trimmed == "" || len(trimmed) > maxLength || strings.ContainsFunc(trimmed, odd) {
		return fail("is not a name", shapes)
	}
	rest, isAddress := trimmed, false
	scheme, after, found := strings.Cut(trimmed, "://")
	switch scheme = strings.ToLower(scheme); {
	case found && (scheme == "hf" || scheme == "huggingface"):
		rest = after
	case found && scheme != "https" && scheme != "http":
		return fail("has the unknown scheme "+scheme+"://", shapes)
	case found:
		rest, isAddress = after, true
	}
	host, inHub, _ := strings.Cut(rest, "/")
	isHub := slices.ContainsFunc(slices.Concat(hubs, hosts), func(h string) bool { return strings.EqualFold(h, host) })
	switch host = strings.ToLower(host); {
	case isHub:
		return parseAddress(text, inHub)
	case host == "ollama.com" || host == "www.ollama.com":
		model, _, _ := strings.Cut(strings.TrimPrefix(inHub, "library/"), "?")
		if model = strings.TrimSuffix(model, "/"); word.MatchString(model) {
			return parseWord(model), nil
		}
		return fail("is not the address of a model", "name the model, for instance llama3.2")
	case isAddress:
		return fail("is an address on "+host+", which is not the Hugging Face hub",
			shapes+"; the address of an engine has no path, such as /v1")
	}
	if word.MatchString(rest) {
		return parseWord(rest), nil
	}
	return parseRepo(text, rest)
}

// odd reports characters that no name has.
func odd(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar
}

func parseWord(text string) Name {
	name, tag, _ := strings.Cut(text, ":")
	if strings.EqualFold(tag, "latest") {
		return Name{Word: name}
	}
	return Name{Word: text}
}

// parseRepo reads ORG/REPO with what may follow.
func parseRepo(text, rest string) (Name, error) {
	id, selector, selected := strings.Cut(rest, ":")
	id, revision, pinned := strings.Cut(id, "@")
	org, repo, ok := strings.Cut(id, "/")
	repo, file, inside := strings.Cut(strings.TrimSuffix(repo, "/"), "/")
	n := Name{Repo: org + "/" + repo, Revision: revision, Selector: selector}
	if inside && !selected {
		n.Selector = file
	}
	switch {
	case !ok || !cache.ValidID(n.Repo) || inside && selected:
		return Name{}, &Error{text, "is not a name", "name a model as ORG/REPO, ORG/REPO:QUANT or ORG/REPO:FILE"}
	case selected && selector == "" || n.Selector != "" && !isFile(n.Selector):
		return Name{}, &Error{text, fmt.Sprintf("%q is not a file or a quantization", n.Selector),
			"name one after the colon, for instance " + n.Repo + ":Q4_K_M"}
	case pinned && !isRef(revision):
		return Name{}, &Error{text, fmt.Sprintf("%q is not a revision", revision), "name a branch, a tag or a commit"}
	}
	return n, nil
}

func isRef(s string) bool {
	return ref.MatchString(s) && path.Clean(s) == s && !strings.Contains(s, "..")
}

// isFile reports whether s can be the path of a file in a repository. It is relative and leads nowhere else.
func isFile(s string) bool {
	return fs.ValidPath(s) && s != "." && !strings.ContainsAny(s, "\\:@") && !strings.ContainsFunc(s, odd)
}

// parseAddress reads what follows the host in an address of the hub.
func parseAddress(text, rest string) (Name, error) {
	fail := func(detail string) (Name, error) {
		return Name{}, &Error{text, detail, "paste the address of a model's page, such as https://huggingface.co/ORG/REPO"}
	}
	rest, _, _ = strings.Cut(rest, "#")
	rest, query, _ := strings.Cut(rest, "?")
	var segments []string
	for s := range strings.SplitSeq(rest, "/") {
		if s, err := url.PathUnescape(s); err == nil && s != "" {
			segments = append(segments, s)
		} else if err != nil {
			return fail("has a broken escape")
		}
	}
	if len(segments) > 2 && segments[0] == "api" && segments[1] == "models" {
		segments = segments[2:]
	}
	switch {
	case len(segments) > 0 && (segments[0] == "datasets" || segments[0] == "spaces" || segments[0] == "collections"):
		return fail("is the address of one of the hub's " + segments[0])
	case len(segments) < 2:
		return fail("is not the address of a model")
	}
	repo, tail := segments[0]+"/"+segments[1], segments[2:]
	if !strings.Contains(segments[1], ":") {
		repo = strings.TrimSuffix(repo, ".git")
	}
	if len(tail) == 0 || strings.Contains(segments[1], ":") {
		n, err := parseRepo(text, strings.Join(append([]string{repo}, tail...), "/"))
		if values, bad := url.ParseQuery(query); err == nil && bad == nil && n.Selector == "" {
			// The hub's page of a repository shows a file's header at this query.
			if file := values.Get("show_file_info"); isFile(file) {
				n.Selector = file
			}
		}
		return n, err
	}
	view, tail := tail[0], tail[1:]
	switch {
	case view == "tree" || view == "blob" || view == "resolve" || view == "raw" || view == "blame" || view == "commits" ||
		view == "commit" || view == "revision":
	case strings.EqualFold(path.Ext(segments[len(segments)-1]), ".gguf"):
		return parseRepo(text, strings.Join(append([]string{repo, view}, tail...), "/"))
	default: // discussions and other pages about the repository
		return parseRepo(text, repo)
	}
	n, err := parseRepo(text, repo)
	if err != nil || len(tail) == 0 {
		return n, err
	}
	n.Revision, tail = tail[0], tail[1:]
	if n.Selector = strings.Join(tail, "/"); n.Revision != "" && !isRef(n.Revision) || n.Selector != "" &&
		!isFile(n.Selector) {
		return fail("is not the address of a file")
	}
	if strings.EqualFold(path.Ext(n.Selector), ".md") { // whoever reads about a model means the model
		n.Selector = ""
	}
	return n, nil
}

// LooksLike reports whether text has the form of a model's name, even if there is no such model. That is an address,
// or one word that begins with a letter, has a digit and one of "-", ":", "." and "/", and no character that names do
// not have.
func LooksLike(text string) bool {
	if scheme, _, ok := strings.Cut(text, "://"); ok && word.MatchString(scheme) {
		return !strings.ContainsFunc(text, odd)
	}
	if text == "" || !isLetter(rune(text[0])) || !strings.ContainsAny(text, "-:./") ||
		!strings.ContainsAny(text, "0123456789") {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool {
		return !isLetter(r) && (r < '0' || r > '9') && !strings.ContainsRune("-:./_@", r)
	})
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
