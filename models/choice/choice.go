// Package choice chooses the files of a repository that make one model.
//
// It knows only paths and sizes, because the files need not be on this machine. Where a repository has GGUF models, it
// chooses one of them with all its parts; else the folder of safetensors that MLX reads, with its configuration and
// tokenizer. It never chooses what is not a model by itself: vision projectors, importance matrices and drafts.
package choice

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// File is a file of a repository.
type File struct {
	// Path is relative to the repository, with slashes.
	Path string
	// Size is in bytes.
	Size int64
}

// Format is the kind of a model's files.
type Format string

// The formats of models.
const (
	GGUF        Format = "gguf"
	Safetensors Format = "safetensors"
)

// Choice is one model of a repository.
type Choice struct {
	Format Format
	// Files are all that the model needs. Those of a split GGUF model are in order.
	Files []File
	// Quant is the quantization, for instance Q4_K_M, or empty if the names do not say it.
	Quant string
	// Bytes is the size of all files.
	Bytes int64
	// TooBig reports that the memory is known and no model fits. The choice is then the smallest.
	TooBig bool
	// LeftOut are the other files, sorted by path.
	LeftOut []LeftOut
}

// LeftOut is a file that is not part of the choice.
type LeftOut struct {
	File
	// Why is a reason in a few words, for instance "vision projector".
	Why string
}

// Error says why no files were chosen.
type Error struct {
	// Detail is one line.
	Detail string
	// Advice is one line that tells the user what to do.
	Advice string
	// Names are what may be asked for instead, each a quantization or a file.
	Names []string
}

func (e *Error) Error() string { return e.Detail }

// Hint tells the user what to do next.
func (e *Error) Hint() string { return e.Advice }

// Model is one GGUF model among the files of a repository or a folder.
type Model struct {
	// Path is that of the first part, also if that is missing.
	Path string
	// Quant is the quantization, or empty if the names do not say it.
	Quant string
	// Parts are the files that are there, in order. Count is how many the names call for.
	Parts []File
	Count int
	// Bytes is the size of all parts that are there.
	Bytes int64
}

// Whole reports whether no part is missing.
func (m *Model) Whole() bool { return len(m.Parts) == m.Count }

// Choose chooses one model among the files of a repository. wanted is a quantization in any case, the path or base
// name of a file, or a folder. If it is empty, Choose takes the best quantization that fits in memory bytes, by
// [Quants]. A memory of 0 means that it is not known: then Q4_K_M comes first, or what is nearest below. Every error
// is an [*Error].
func Choose(files []File, wanted string, memory int64) (Choice, error) {
	files = sorted(files)
	models, others := GGUFs(files)
	if len(models) == 0 {
		return folder(files, wanted, memory)
	}
	found := Match(models, wanted)
	if len(found) == 0 {
		return Choice{}, noMatch(models, others, wanted)
	}
	whole := slices.DeleteFunc(slices.Clone(found), func(m Model) bool { return !m.Whole() })
	if len(whole) == 0 {
		return Choice{}, &Error{Advice: "choose another quantization or repository",
			Detail: fmt.Sprintf("%s has %d of its %d parts", found[0].Path, len(found[0].Parts), found[0].Count)}
	}
	best, err := Best(whole, memory)
	if err != nil {
		return Choice{}, err
	}
	c := Choice{Format: GGUF, Files: best.Parts, Quant: best.Quant, Bytes: best.Bytes,
		TooBig: memory > 0 && Need(best.Bytes) > memory, LeftOut: others}
	for _, m := range models {
		why := "another model"
		switch {
		case m.Path == best.Path:
			continue
		case !m.Whole():
			why = "part of an incomplete model"
		case m.Quant != best.Quant:
			why = "another quantization"
		}
		for _, f := range m.Parts {
			c.LeftOut = append(c.LeftOut, LeftOut{f, why})
		}
	}
	slices.SortFunc(c.LeftOut, func(a, b LeftOut) int { return strings.Compare(a.Path, b.Path) })
	return c, nil
}

// Need returns how much memory a model of this size needs with a context of moderate length, in bytes. It is a rough
// rule, because the shape of a model is not known before its file is here: a tenth more and one gibibyte.
func Need(bytes int64) int64 { return bytes + bytes/10 + 1<<30 }

// GGUFs groups the GGUF files into models, sorted by path. The other files come with the reason why they are no model.
func GGUFs(files []File) (models []Model, others []LeftOut) {
	files = sorted(files)
	at := map[string]int{}
	for _, f := range files {
		if why := NotModel(f.Path); why != "" {
			others = append(others, LeftOut{f, why})
			continue
		}
		first, _, count, ok := Part(f.Path)
		if !ok {
			first, count = f.Path, 1
		}
		i, ok := at[first]
		if !ok {
			i = len(models)
			at[first] = i
			models = append(models, Model{Path: first, Quant: QuantOf(first), Count: count})
		}
		models[i].Parts = append(models[i].Parts, f)
		models[i].Bytes += max(0, f.Size)
	}
	return models, others
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
// word of the file's name. An equal spelling has priority over one in another case. An empty name means all models.
func Match(models []Model, wanted string) []Model {
	if wanted == "" {
		return models
	}
	first, _, _, isPart := Part(wanted)
	if !isPart {
		first = wanted
	}
	fold := strings.EqualFold
	for _, same := range []func(m Model) bool{
		func(m Model) bool { return m.Path == first },
		func(m Model) bool { return path.Base(m.Path) == first },
		func(m Model) bool { return fold(m.Path, first) || fold(path.Base(m.Path), first) },
		func(m Model) bool { return fold(m.Quant, wanted) },
		func(m Model) bool { return fold(path.Dir(m.Path), wanted) },
		func(m Model) bool { return hasWord(m.Path, wanted) },
	} {
		var found []Model
		for _, m := range models {
			if same(m) {
				found = append(found, m)
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

func noMatch(models []Model, others []LeftOut, wanted string) error {
	e := &Error{Names: Spell(models)}
	e.Detail = fmt.Sprintf("no GGUF file matches %q; there is %s", wanted, List(e.Names))
	for _, o := range others {
		if o.Why == notGGUF {
			continue
		}
		if strings.EqualFold(o.Path, wanted) || strings.EqualFold(path.Base(o.Path), wanted) {
			e.Detail = fmt.Sprintf("%s is not a model (%s)", o.Path, o.Why)
		}
	}
	e.Advice = "name one after a colon, for instance :" + e.Names[0]
	return e
}

// Spell returns the shortest name of each model that means no other: its quantization, the base name or the path.
func Spell(models []Model) []string {
	var names []string
	for _, m := range models {
		name := m.Path
		for _, short := range []string{m.Quant, path.Base(m.Path)} {
			if short != "" && len(Match(models, short)) == 1 {
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

// Best returns the best model that fits, else the smallest. Models whose names differ in more than the quantization
// are an error, because nothing says which is meant.
func Best(models []Model, memory int64) (Model, error) {
	if len(models) == 1 {
		return models[0], nil
	}
	different := func(m Model) bool { return stem(m.Path) != stem(models[0].Path) }
	if slices.ContainsFunc(models, different) {
		return Model{}, ambiguous(models)
	}
	place := func(m Model) int { return rankOf(m.Path, m.Quant).place(memory > 0) }
	fitting := slices.DeleteFunc(slices.Clone(models), func(m Model) bool { return memory > 0 && Need(m.Bytes) > memory })
	if len(fitting) == 0 {
		return slices.MinFunc(models, func(a, b Model) int {
			return cmp.Or(cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(place(a), place(b)), strings.Compare(a.Path, b.Path))
		}), nil
	}
	best := slices.MinFunc(fitting, func(a, b Model) int { return cmp.Compare(place(a), place(b)) })
	same := slices.DeleteFunc(fitting, func(m Model) bool { return place(m) != place(best) })
	if len(same) > 1 {
		return Model{}, ambiguous(same)
	}
	return best, nil
}

func ambiguous(models []Model) error {
	names := Spell(models)
	return &Error{Detail: fmt.Sprintf("%d GGUF files match: %s", len(names), List(names)), Names: names,
		Advice: "name one after a colon, for instance :" + names[0]}
}
