package wire

import "slices"

// Warning says what was not done as requested, or what was wrong with the model's output. It contains none of that
// output.
//
//openapi:answer Warning
type Warning struct {
	// The kind of warning, for programs.
	Code string `json:"code" api:"example=malformed_arguments"`
	// A message for people. It contains none of the model's text.
	Message string `json:"message"`
}

// Warnings is a list of warnings.
type Warnings []Warning

// Add adds a warning.
func (w *Warnings) Add(code, message string) { *w = append(*w, Warning{code, message}) }

// AddOnce adds a warning unless there is one with its code.
func (w *Warnings) AddOnce(code, message string) {
	if !slices.ContainsFunc(*w, func(has Warning) bool { return has.Code == code }) {
		w.Add(code, message)
	}
}
