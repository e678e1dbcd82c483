// Package catalog says what models are made of: which files of a repository or a folder make a model, and which of
// several models is meant.
//
// An [Entry] is a model, wherever its files are. Finding models needs only the paths and sizes of files, because the
// files need not be on this machine. Where a repository has GGUF models, each is an entry with all its parts; else the
// folder of safetensors that MLX reads is one, with its configuration and tokenizer. What is not a model by itself is
// none: vision projectors, importance matrices and drafts.
package catalog

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"runner/hint"
)

// File is a file of a repository.
type File struct {
	// Path is relative to the repository, with slashes.
	Path string
	// Size is in bytes, 0 if the file is missing.
	Size int64
	// Etag is the hash of the content, and what the Hugging Face cache calls the blob: the SHA-256 of a large file (64
	// hexadecimal digits), else git's SHA-1 of a blob (40 digits). It is empty if the hash is not known.
	Etag string
	// Missing reports that the place of the file is known and its bytes are not there.
	Missing bool
}

// Format is the kind of a model's files.
type Format string

// The formats of models.
const (
	GGUF        Format = "gguf"
	Safetensors Format = "safetensors"
)

// Place is the program in whose folder a model lies.
type Place string

// The places where models are looked for, in the order of their priority.
const (
	HuggingFace Place = "Hugging Face cache"
	LMStudio    Place = "LM Studio"
	Ollama      Place = "Ollama"
)

// Entry is a model: some files of a repository, or of a folder on this machine.
type Entry struct {
	// Repo is the repository on the hub, ORG/NAME, if that is known.
	Repo   string
	Format Format
	// Quant is the quantization, for instance Q4_K_M, or empty if the names do not say it.
	Quant string
	// Path is that of the first part of a GGUF model, also if that is missing, or "." for a folder.
	Path string
	// Files are all that the model needs and that are there. Those of a GGUF model are in order.
	Files []File
	// Problem says in one line why the model cannot be used. It is empty if nothing is known to be wrong.
	Problem string

	// The following are set for a model on this machine. Dir is the folder that the paths are relative to.
	Dir string
	// Place is where it was found, or empty for a file or folder that the user named. Name is what finds it, in the
	// spelling of its place: ORG/REPO, with the quantization or the file after a colon if the repository has several, or
	// the name that Ollama shows.
	Place Place
	Name  string

	// The following are in the headers of the files. Parameters is 0 for a folder. PerToken is how many bytes of the
	// weights are read to generate a token, and Context is the context that the model was trained for, in tokens. They are
	// 0 if that is not known.
	Architecture                  string
	Parameters, PerToken, Context int64
}

// Bytes is the size of all files that are there.
func (e *Entry) Bytes() (n int64) {
	for _, f := range e.Files {
		n += max(0, f.Size)
	}
	return n
}

// At is what an engine on this machine opens: the first part or the folder.
func (e *Entry) At() string { return e.local(e.Path) }

// Parts are the files on this machine.
func (e *Entry) Parts() []string {
	parts := make([]string, len(e.Files))
	for i, f := range e.Files {
		parts[i] = e.local(f.Path)
	}
	return parts
}

func (e *Entry) local(file string) string { return filepath.Join(e.Dir, filepath.FromSlash(file)) }

// Claimed is the SHA-256 that the name of the only file in the cache claims. It is empty if there are several or the
// name claims none. Nobody has compared it with the file since that was fetched.
func (e *Entry) Claimed() string {
	if len(e.Files) != 1 || len(e.Files[0].Etag) != 64 {
		return ""
	}
	return e.Files[0].Etag
}

// Spelled is the shortest name of a model that keeps its meaning when its repository gets more models.
func (e *Entry) Spelled() string {
	if e.Format != GGUF {
		return e.Repo
	}
	return e.Repo + ":" + Spell([]Entry{*e})[0]
}

// Fits reports whether the model fits into memory bytes. A memory of 0 means that it is not known.
func (e *Entry) Fits(memory int64) bool { return memory == 0 || Need(e.Bytes()) <= memory }

// Need returns how much memory a model of this size needs with a context of moderate length, in bytes. It is a rough
// rule, because the shape of a model is not known before its file is here: a tenth more and one gibibyte.
func Need(bytes int64) int64 { return bytes + bytes/10 + 1<<30 }

// Error says why no model was chosen.
type Error struct {
	// Detail is one line.
	Detail string
	hint.Advice
}

func (e *Error) Error() string { return e.Detail }

// Choose chooses one model among the files of a repository. wanted is a quantization in any case, the path or base
// name of a file, or a folder. If it is empty, Choose takes the best quantization that fits in memory bytes. A memory
// of 0 means that it is not known: then Q4_K_M comes first, or what is nearest below. Every error is an [*Error].
func Choose(files []File, wanted string, memory int64) (Entry, error) {
	entries := GGUFs(files)
	if len(entries) == 0 {
		e, err := Folder(files)
		if wanted != "" && !slices.ContainsFunc(e.Files, func(f File) bool { return f.Path == wanted }) {
			return Entry{}, &Error{Detail: fmt.Sprintf("there is no GGUF file, so none matches %q", wanted),
				Advice: "leave out what follows the colon, or name a repository with GGUF files"}
		}
		return e, err
	}
	found := Match(entries, wanted)
	if len(found) == 0 {
		return Entry{}, noMatch(entries, files, wanted)
	}
	return Best(found, memory)
}

// Models returns the models among the files of a repository, sorted by path.
func Models(files []File) []Entry {
	if entries := GGUFs(files); len(entries) > 0 {
		return entries
	}
	if e, err := Folder(files); err == nil {
		return []Entry{e}
	}
	return nil
}

// GGUFs returns the GGUF models among files, sorted by path.
func GGUFs(files []File) (entries []Entry) {
	at := map[string]int{}
	for _, f := range sorted(files) {
		if NotModel(f.Path) != "" {
			continue
		}
		first, _, _, ok := Part(f.Path)
		if !ok {
			first = f.Path
		}
		i, ok := at[first]
		if !ok {
			i = len(entries)
			at[first] = i
			entries = append(entries, Entry{Format: GGUF, Path: first, Quant: QuantOf(first)})
		}
		entries[i].Files = append(entries[i].Files, f)
	}
	for i := range entries {
		entries[i].Problem = entries[i].missing()
	}
	return entries
}

// missing names the first part that is not there.
func (e *Entry) missing() string {
	parts := Parts(e.Path)
	for i, want := range parts {
		if !slices.ContainsFunc(e.Files, func(f File) bool { return f.Path == want }) {
			return PartMissing(i+1, len(parts), want)
		}
	}
	return ""
}

// PartMissing is the problem of a split model that lacks a part.
func PartMissing(part, count int, file string) string {
	return fmt.Sprintf("part %d of %d is missing (%s)", part, count, path.Base(file))
}

func sorted(files []File) []File {
	return slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Path, b.Path) })
}

const notGGUF = "not a GGUF model"

// NotModel says in a few words why a file of a repository is not a GGUF model by itself. It is empty for a model, also
// for a part of one.
func NotModel(file string) string {
	base := strings.ToLower(path.Base(file))
	switch {
	case path.Ext(base) != ".gguf":
		return notGGUF
	case strings.Contains(base, "mmproj"):
		return "vision projector"
	case strings.Contains(base, "imatrix"):
		return "importance matrix"
	case strings.HasPrefix(base, "mtp-"):
		return "draft for another model"
	case strings.HasPrefix(base, "ggml-vocab"):
		return "vocabulary without weights"
	}
	return ""
}

// Match returns the models that wanted names: by the file, else by the quantization, else by the folder, else by a
// word of the file's name. An equal spelling has priority over one in another case. An empty name means all models, and
// a folder of safetensors has no other.
func Match(entries []Entry, wanted string) []Entry {
	if wanted == "" {
		return entries
	}
	first, _, _, isPart := Part(wanted)
	if !isPart {
		first = wanted
	}
	fold := strings.EqualFold
	for _, same := range []func(e Entry) bool{
		func(e Entry) bool { return e.Path == first },
		func(e Entry) bool { return path.Base(e.Path) == first },
		func(e Entry) bool { return fold(e.Path, first) || fold(path.Base(e.Path), first) },
		func(e Entry) bool { return fold(e.Quant, wanted) },
		func(e Entry) bool { return fold(path.Dir(e.Path), wanted) },
		func(e Entry) bool { return hasWord(e.Path, wanted) },
	} {
		var found []Entry
		for _, e := range entries {
			if e.Format == GGUF && same(e) {
				found = append(found, e)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// hasWord reports whether word is a word of the file's name, so that Q4_K does not mean Q4_K_M.
func hasWord(file, word string) bool {
	name, word := strings.ToLower(strings.TrimSuffix(path.Base(file), path.Ext(file))), strings.ToLower(word)
	isWord := func(b byte) bool { return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' }
	for at := 0; word != ""; {
		i := strings.Index(name[at:], word)
		if i < 0 {
			return false
		}
		start, end := at+i, at+i+len(word)
		if (start == 0 || !isWord(name[start-1])) && (end == len(name) || !isWord(name[end])) {
			return true
		}
		at = start + 1
	}
	return false
}

func noMatch(entries []Entry, files []File, wanted string) error {
	names := Spell(entries)
	e := &Error{Detail: fmt.Sprintf("no GGUF file matches %q; there is %s", wanted, List(names)),
		Advice: hint.Advice("name one after a colon, for instance :" + names[0])}
	for _, f := range files {
		why := NotModel(f.Path)
		if why != notGGUF && (strings.EqualFold(f.Path, wanted) || strings.EqualFold(path.Base(f.Path), wanted)) {
			e.Detail = fmt.Sprintf("%s is not a model (%s)", f.Path, why)
		}
	}
	return e
}

// Spell returns the shortest selector of each model that means no other: its quantization, the base name or the path.
func Spell(entries []Entry) []string {
	var names []string
	for _, e := range entries {
		name := e.Path
		for _, short := range []string{e.Quant, path.Base(e.Path)} {
			if short != "" && len(Match(entries, short)) == 1 {
				name = short
				break
			}
		}
		names = append(names, name)
	}
	return names
}

// List names the names in one line. Of many it names only the first few.
func List(names []string) string {
	const most = 8
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// Best returns the best model that fits, else the smallest. Models with a problem do not count. Models whose names
// differ in more than the quantization are an error, because nothing says which is meant.
func Best(entries []Entry, memory int64) (Entry, error) {
	whole := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.Problem != "" })
	switch {
	case len(whole) == 0:
		e := &entries[0]
		return Entry{}, &Error{Advice: "choose another quantization or repository",
			Detail: fmt.Sprintf("%s has %d of its %d parts", e.Path, len(e.Files), len(Parts(e.Path)))}
	case len(whole) == 1:
		return whole[0], nil
	}
	different := func(e Entry) bool { return e.Format != GGUF || stem(e.Path) != stem(whole[0].Path) }
	if slices.ContainsFunc(whole, different) {
		return Entry{}, ambiguous(whole)
	}
	place := func(e Entry) int { return rankOf(e.Path, e.Quant).place(memory > 0) }
	fitting := slices.DeleteFunc(slices.Clone(whole), func(e Entry) bool { return !e.Fits(memory) })
	if len(fitting) == 0 {
		return slices.MinFunc(whole, func(a, b Entry) int {
			return cmp.Or(cmp.Compare(a.Bytes(), b.Bytes()), cmp.Compare(place(a), place(b)), strings.Compare(a.Path, b.Path))
		}), nil
	}
	best := slices.MinFunc(fitting, func(a, b Entry) int { return cmp.Compare(place(a), place(b)) })
	same := slices.DeleteFunc(fitting, func(e Entry) bool { return place(e) != place(best) })
	if len(same) > 1 {
		return Entry{}, ambiguous(same)
	}
	return best, nil
}

func ambiguous(entries []Entry) error {
	names := Spell(entries)
	return &Error{Detail: fmt.Sprintf("%d GGUF files match: %s", len(names), List(names)),
		Advice: hint.Advice("name one after a colon, for instance :" + names[0])}
}
