package tokenizer

import "strings"

// pattern is a way to split text into words, which merges do not cross. The fields describe a regular expression of
// one of the three common shapes:
//
//	plain: 's|'t|...| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//	loose: 's|'t|...|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//	cased: [^\r\n\p{L}\p{N}]?UPPER*LOWER+('s|'t|...)?|[^\r\n\p{L}\p{N}]?UPPER+LOWER*('s|'t|...)?|\p{N}{1,3}|...
type pattern struct {
	shape        shape
	contractions contractions
	digits       int    // maximum number of digits in a word, for loose and cased
	tail         string // what may follow punctuation, for loose and cased
	digitsAlone  bool   // for plain: digits are first split off one by one
	lastSpaces   bool   // for loose: spaces and newlines at the end of the text are one word (\s++$)
	upper, lower class  // for cased
}

type shape uint8

const (
	plain shape = iota
	loose
	cased
)

// contractions is the way in which 's, 't, 're, 've, 'm, 'll and 'd are matched.
type contractions uint8

const (
	noContractions contractions = iota
	lowerCase
	anyCase
	// anyCaseUnicode also accepts the long s as an s, as Unicode's case folding does.
	anyCaseUnicode
)

const (
	newlines         = "\r\n"
	newlinesAndSlash = "\r\n/"
)

// The patterns in llama.cpp's versions. Its llama-vocab.cpp says which model family uses which.
var (
	gpt2      = pattern{shape: plain, contractions: lowerCase}
	starcoder = pattern{shape: plain, contractions: lowerCase, digitsAlone: true}
	llama3    = pattern{shape: loose, contractions: anyCase, digits: 3, tail: newlines}
	qwen2     = pattern{shape: loose, contractions: anyCase, digits: 1, tail: newlines}
	gpt4o     = pattern{shape: cased, contractions: anyCase, digits: 3, tail: newlinesAndSlash, upper: notLowerASCII,
		lower: notUpperASCII}
	tekken = pattern{shape: cased, digits: 1, tail: newlinesAndSlash, upper: notLowerASCII, lower: notUpperASCII}
)

// ggufPatterns maps the values of tokenizer.ggml.pre.
var ggufPatterns = map[string]pattern{
	"gpt-2": gpt2, "phi-2": gpt2, "gigachat": gpt2, "a.x-4.0": gpt2, "mellum": gpt2, "exaone4": gpt2, "olmo": gpt2,
	"jais": gpt2,
	"mpt":  gpt2, "trillion": gpt2, "granite-docling": gpt2,
	"starcoder": starcoder, "refact": starcoder, "command-r": starcoder, "smollm": starcoder, "codeshell": starcoder,
	"exaone": starcoder, "minerva-7b": starcoder,
	"llama3": llama3, "llama-v3": llama3, "llama-bpe": llama3, "falcon3": llama3, "falcon-h1": llama3, "pixtral": llama3,
	"midm-2.0": llama3, "lfm2": llama3, "dbrx": llama3, "smaug-bpe": llama3, "glm4": llama3, "chatglm-bpe": llama3,
	"qwen2": qwen2, "deepseek-r1-qwen": qwen2, "kormo": qwen2, "stablelm2": qwen2, "megrez": qwen2, "hunyuan": qwen2,
	"grok-2":     qwen2,
	"bailingmoe": qwen2, "bailingmoe2": qwen2, "llada-moe": qwen2,
	"gpt-4o": gpt4o, "llama4": gpt4o, "minimax-m2": gpt4o,
	"tekken": tekken,
}

// wholeWords lists the values of tokenizer.ggml.pre for which llama.cpp does not split a word that is a token.
var wholeWords = map[string]bool{
	"llama3": true, "llama-v3": true, "llama-bpe": true, "falcon3": true, "falcon-h1": true, "pixtral": true,
	"midm-2.0": true,
	"lfm2":     true, "tekken": true,
}

// The patterns in the versions of their own libraries.
var (
	o200k = pattern{
		shape: cased, contractions: anyCaseUnicode, digits: 3, tail: newlinesAndSlash, upper: upper, lower: lower,
	}
	cl100k = pattern{shape: loose, contractions: anyCaseUnicode, digits: 3, tail: newlines, lastSpaces: true}
	// llama3JSON and qwen2JSON differ from llama.cpp's only in the long s.
	llama3JSON = pattern{shape: loose, contractions: anyCaseUnicode, digits: 3, tail: newlines}
	qwen2JSON  = pattern{shape: loose, contractions: anyCaseUnicode, digits: 1, tail: newlines}
	tekkenJSON = pattern{shape: cased, digits: 1, tail: newlinesAndSlash, upper: upper, lower: lower}
)

// regexps maps the regular expressions of tokenizer.json and tiktoken.
var regexps = map[string]pattern{
	`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`:      gpt2,
	`'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s`: gpt2,

	`(?i:'s|'t|'re|'ve|'m|'ll|'d)` + looseRegexp(
		`\p{N}{1,3}`): llama3JSON,
	`(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])` + looseRegexp(
		`\p{N}{1,3}`): llama3,
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)` + looseRegexp(
		`\p{N}`): qwen2JSON,
	`(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])` + looseRegexp(
		`\p{N}`): qwen2,
	`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+` +
		`| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s`: cl100k,

	casedRegexp(`(?i:'s|'t|'re|'ve|'m|'ll|'d)?`, `\p{N}{1,3}`): o200k,
	casedRegexp(``, `\p{N}`):                                   tekkenJSON,
}

func looseRegexp(digits string) string {
	return `|[^\r\n\p{L}\p{N}]?\p{L}+|` + digits + `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
}

func casedRegexp(contractions, digits string) string {
	const start, up, low = `[^\r\n\p{L}\p{N}]?`, `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`, `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	return start + up + `*` + low + `+` + contractions + `|` + start + up + `+` + low + `*` + contractions + `|` +
		digits + `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
}

// next returns the end of the word that starts at i, which is inside s.
func (p *pattern) next(s string, i int) int {
	c, n := at(s, i)
	if p.shape == plain {
		return p.nextPlain(s, i, c, n)
	}
	if p.shape == cased {
		if end := p.casedWord(s, i, c, n); end > 0 {
			return end
		}
	} else {
		if end := p.contraction(s, i); end > i {
			return end
		}
		if end := looseWord(s, i, c, n); end > 0 {
			return end
		}
	}
	if c&number != 0 {
		for left := p.digits; left > 0 && c&number != 0; left-- {
			i += n
			c, n = at(s, i)
		}
		return i
	}
	if end := punctuation(s, i, c, n, 0); end > 0 {
		for end < len(s) && strings.IndexByte(p.tail, s[end]) >= 0 {
			end++
		}
		return end
	}
	return p.spaces(s, i, true, 0)
}

// nextPlain is next for the plain shape. With digitsAlone, a digit acts as the end of the text for the text before
// it.
func (p *pattern) nextPlain(s string, i int, c class, n int) int {
	end := class(0)
	if p.digitsAlone {
		if c&number != 0 {
			return i + n
		}
		end = number
	}
	if e := p.contraction(s, i); e > i {
		return e
	}
	j, d, m := i, c, n
	if s[i] == ' ' {
		j = i + 1
		d, m = at(s, j)
	}
	for _, kind := range [2]class{letter, number} {
		if d&kind != 0 && d&end == 0 {
			for d&kind != 0 {
				j += m
				d, m = at(s, j)
			}
			return j
		}
	}
	if e := punctuation(s, i, c, n, end); e > 0 {
		return e
	}
	return p.spaces(s, i, false, end)
}

// looseWord matches [^\r\n\p{L}\p{N}]?\p{L}+ at i, where a character of class c and n bytes starts; 0 if there is
// no match.
func looseWord(s string, i int, c class, n int) int {
	if c&(newline|letter|number) == 0 {
		i += n
		if c, n = at(s, i); c&letter == 0 {
			return 0
		}
	}
	if c&letter == 0 {
		return 0
	}
	for c&letter != 0 {
		i += n
		c, n = at(s, i)
	}
	return i
}

// casedWord matches the first two alternatives of the cased shape at i; 0 if there is no match. Like a backtracking
// engine, it tries the first alternative with and without the leading character, then the second.
func (p *pattern) casedWord(s string, i int, c class, n int) int {
	var first, second int
	if c&(newline|letter|number) == 0 {
		first, second = p.halves(s, i+n)
	}
	if first == 0 && c&(p.upper|p.lower) != 0 {
		a, b := p.halves(s, i)
		first = a
		if second == 0 {
			second = b
		}
	}
	end := first
	if end == 0 {
		end = second
	}
	if end == 0 {
		return 0
	}
	return p.contraction(s, end)
}

// halves matches UPPER*LOWER+ and UPPER+LOWER* at i and returns the end of each; 0 for no match.
func (p *pattern) halves(s string, i int) (first, second int) {
	j, shared := i, 0 // shared is the end of the last character that could be either
	c, n := at(s, j)
	for c&p.upper != 0 {
		j += n
		if c&p.lower != 0 {
			shared = j
		}
		c, n = at(s, j)
	}
	end := j
	for c&p.lower != 0 {
		end += n
		c, n = at(s, end)
	}
	first, second = shared, 0 // UPPER* gives back as much as LOWER+ needs
	if end > j {
		first = end
	}
	if j > i {
		second = end
	}
	return first, second
}

// contraction returns the end of 's, 't, 're, 've, 'm, 'll or 'd at i, or i.
func (p *pattern) contraction(s string, i int) int {
	if p.contractions == noContractions || i+1 >= len(s) || s[i] != '\'' {
		return i
	}
	fold := func(b byte) byte {
		if p.contractions != lowerCase && b >= 'A' && b <= 'Z' {
			return b + 'a' - 'A'
		}
		return b
	}
	a := fold(s[i+1])
	switch a {
	case 's', 't', 'm', 'd':
		return i + 2
	}
	if i+2 < len(s) {
		b := fold(s[i+2])
		switch {
		case a == 'r' && b == 'e', a == 'v' && b == 'e', a == 'l' && b == 'l':
			return i + 3
		case p.contractions == anyCaseUnicode && s[i+1:i+3] == "ſ":
			return i + 3
		}
	}
	return i
}

// punctuation matches " ?[^\s\p{L}\p{N}]+" at i; 0 if there is no match. Characters of the class end count as the
// end of the text.
func punctuation(s string, i int, c class, n int, end class) int {
	if s[i] == ' ' {
		i++
		c, n = at(s, i)
	}
	if n == 0 || c&(space|letter|number|end) != 0 {
		return 0
	}
	for n > 0 && c&(space|letter|number|end) == 0 {
		i += n
		c, n = at(s, i)
	}
	return i
}

// spaces matches "\s*[\r\n]+|\s+(?!\S)|\s+" at i; without newlines it omits the first alternative. If there is no
// space at i, it returns the end of the character.
func (p *pattern) spaces(s string, i int, newlines bool, end class) int {
	j, last, lastNewline := i, i, 0
	c, n := at(s, j)
	if c&space == 0 {
		return i + n
	}
	for c&space != 0 {
		last = j
		j += n
		if c&newline != 0 {
			lastNewline = j
		}
		c, n = at(s, j)
	}
	switch {
	case p.lastSpaces && n == 0:
		return j
	case newlines && lastNewline > 0:
		return lastNewline
	case n == 0 || c&end != 0 || last == i: // at the end, or a single space
		return j
	}
	return last // the last space belongs to the next word
}
