package catalog

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// quants are the known quantizations, best first, in the order in which [Choose] prefers them. Those of four bits and
// more are in the order of the loss in perplexity, as the usual tables of model cards have it. The weights without
// quantization come after them: they are twice as large and slow as Q8_0, and their answers are not noticeably better.
// Those of three bits and less lose much.
var quants = []string{
	"Q8_K_XL", "Q8_0", "Q8_1", "Q6_K_XL", "Q6_K_L", "Q6_K", "Q5_K_XL", "Q5_K_L", "Q5_K_M", "Q5_K_S", "Q5_K", "Q5_1",
	"Q5_0", "Q4_K_XL", "Q4_K_L",
	"Q4_K_M", "Q4_K", "MXFP4_MOE", "MXFP4", "NVFP4", "Q4_K_S", "IQ4_NL", "Q4_1", "IQ4_XS", "Q4_0",
	"BF16", "F16", "FP16", "F32", "FP32",
	"Q3_K_XL", "Q3_K_L", "IQ3_M", "Q3_K_M", "Q3_K", "IQ3_S", "Q3_K_S", "IQ3_XS", "IQ3_XXS",
	"Q2_K_XL", "Q2_K_L", "Q2_K", "Q2_K_S", "IQ2_M", "IQ2_S", "IQ2_XS", "IQ2_XXS", "TQ2_0", "TQ1_0", "IQ1_M", "IQ1_S",
}

// rank is a place in the order. A file whose name does not say its quantization comes last.
type rank struct {
	at int
	// own reports a recipe of the quantizer's own, which Unsloth marks with UD. It goes before the plain one.
	own bool
}

// native is the place of MXFP4 where the model was trained in it. Any other format is larger and no better.
const native = -1

// trainedInMXFP4 finds the names of models that were.
var trainedInMXFP4 = regexp.MustCompile(`(?i)gpt-?oss`)

func rankOf(file, quant string) rank {
	base, own := strings.CutPrefix(quant, "UD-")
	if strings.HasPrefix(base, "MXFP4") && trainedInMXFP4.MatchString(file) {
		return rank{at: native}
	}
	if i := slices.Index(quants, base); i >= 0 {
		return rank{i, own}
	}
	return rank{at: len(quants)}
}

// place returns a number that is lower for a better choice. If the memory is not known, the usual quantization comes
// first, then those below it, then those above, and weights without quantization last.
func (r rank) place(memoryKnown bool) int {
	usual, whole, low := slices.Index(quants, "Q4_K_M"), slices.Index(quants, "BF16"), slices.Index(quants, "Q3_K_XL")
	at := r.at
	switch {
	case memoryKnown || at == native || at == len(quants):
	case at < usual:
		at = 2*len(quants) - at
	case at >= whole && at < low:
		at = 3*len(quants) + at
	}
	at *= 2
	if r.own {
		at--
	}
	return at
}

var quantWord = regexp.MustCompile(`(?i)(?:^|[-._/ ])((?:UD-)?(?:I?Q\d_(?:K_(?:XL|XXL|L|M|S)|K|NL|XXS|XS|S|M|0|1)|` +
	`TQ\d_0|MXFP4(?:_MOE)?|NVFP4|BF16|FP?16|FP?32))(?:$|[-._/ ])`)

// QuantOf returns the quantization that a file's name says, in upper case, for instance Q4_K_M or UD-Q4_K_XL. It is
// empty if the name says none. Where the base name says none, the folder's name may.
func QuantOf(file string) string {
	base := plain(file)
	for _, text := range []string{base, path.Base(path.Dir(file))} {
		if start, end := findQuant(text); start >= 0 {
			return strings.ToUpper(text[start:end])
		}
	}
	return ""
}

// stem returns the base name without the quantization, in lower case.
func stem(file string) string {
	base := plain(file)
	if start, end := findQuant(base); start >= 0 {
		base = base[:start] + base[end:]
	}
	return strings.ToLower(strings.Trim(base, "-._ "))
}

// plain returns the base name without the number of the part and the extension.
func plain(file string) string {
	base := path.Base(file)
	if m := splitName.FindStringSubmatch(base); m != nil {
		return m[1]
	}
	return strings.TrimSuffix(base, path.Ext(base))
}

// findQuant returns where the last quantization in text is, or -1.
func findQuant(text string) (start, end int) {
	start = -1
	for at := 0; at < len(text); {
		m := quantWord.FindStringSubmatchIndex(text[at:])
		if m == nil {
			break
		}
		start, end = at+m[2], at+m[3]
		at = end
	}
	return start, end
}

// The files of a split model end in "-00001-of-00003.gguf", as llama.cpp's gguf-split writes them.
var splitName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})(\.gguf)$`)

// Part reports whether file is a part of a split model, which part, of how many, and the path of the first.
func Part(file string) (first string, part, count int, ok bool) {
	m := splitName.FindStringSubmatch(file)
	if m == nil {
		return "", 0, 0, false
	}
	part, _ = strconv.Atoi(m[2])
	count, _ = strconv.Atoi(m[3])
	if part < 1 || part > count {
		return "", 0, 0, false
	}
	return partOf(m, 1, count), part, count, true
}

// partOf returns the path of a part of a split model, of whose files m has a name.
func partOf(m []string, part, count int) string {
	return fmt.Sprintf("%s-%05d-of-%05d%s", m[1], part, count, m[4])
}

// Parts returns the paths of all parts of the split model that file belongs to, or file alone.
func Parts(file string) []string {
	_, _, count, ok := Part(file)
	if !ok {
		return []string{file}
	}
	m := splitName.FindStringSubmatch(file)
	parts := make([]string, count)
	for i := range parts {
		parts[i] = partOf(m, i+1, count)
	}
	return parts
}
