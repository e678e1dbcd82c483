package wire

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
