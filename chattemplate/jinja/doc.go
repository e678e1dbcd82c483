// Package jinja runs the template language that models' chat templates are written in, and keeps track of where every
// byte of the output came from.
//
// The language is Jinja as Python's jinja2 3.1 runs it for chat templates: the immutable sandbox, trim_blocks,
// lstrip_blocks, break and continue, the generation tag, tojson without ASCII escapes, raise_exception and
// strftime_now. Values follow Python: truth, printing, arithmetic, comparison, methods of strings, lists and dicts.
// Names are scoped as jinja2 scopes them, at parse time.
//
// It is not a general template engine: nothing loads other templates (include, import and extends are refused),
// there is no HTML escaping by default, and nothing random (the random filter and lipsum are refused).
//
// Origin. Each byte of a string is either Trusted or Outside. Text literals of the template are trusted, and so are
// values that the caller builds as such; every other value is outside. The mark follows a byte through all
// operations. What an operation makes anew (digits of a number, the punctuation of JSON, replacements of outside
// text) is outside. Comparison ignores origin. A caller that looks for control tokens in the output must look only
// where all bytes of the token are trusted, and should tokenize the text between control tokens as a whole, across
// runs.
//
// Limits. A template and its values may be hostile. Steps, text made, output, nesting and ranges are bounded (see
// Limits), and a render that meets a bound fails with an *Error of KindLimit.
//
// Goroutines: a Template and all values are immutable and may be shared. A render uses no state but its own.
package jinja
