// Package jinja runs the template language of chat templates and records where every byte of the output came from.
//
// The language is Jinja as Python's jinja2 3.1 runs it for chat templates: the immutable sandbox, trim_blocks,
// lstrip_blocks, break and continue, the generation tag, tojson without ASCII escapes, raise_exception and
// strftime_now. Values behave as in Python: truth, printing, arithmetic, comparison, and the methods of strings, lists
// and dicts. Names are scoped at parse time, as in jinja2.
//
// It is not a general template engine. It refuses include, import, extends and block, because nothing loads other
// templates. It knows the tags, filters and methods that a prompt may need, and no others. An unknown filter or test is
// an error when the template is parsed, or in a branch, when it is reached. Integers of more than 64 bits can be read,
// compared and printed, but not calculated with. It escapes no HTML unless asked to.
//
// Origin. Each byte of a string is either Trusted or Outside, see package origin. Text literals of the template are
// trusted, and so are values that the caller marks as trusted. All other values are outside. The mark follows a byte
// through all operations. New bytes are outside: digits of numbers, the punctuation of JSON, replacements of outside
// text. Comparison ignores origin. A caller that looks for control tokens in the output must accept only those whose
// bytes are all trusted. It should tokenize the text between control tokens as a whole, across runs.
//
// Limits. A template and its values may be hostile. [Limits] bounds steps, memory, output, nesting and ranges. A render
// that exceeds a limit fails with an *Error of KindLimit.
//
// Goroutines. A Template and all values are immutable and may be shared. A render uses only its own state.
//
// Where things are: lexer.go, parser.go and parse_expr.go read a template into the tree of ast.go; resolve.go and
// scope.go bind its names; exec.go and eval.go run it. Values are in value.go, number.go and object.go. The
// filters are in filters*.go, the methods of strings, lists and dicts in methods*.go.
package jinja
