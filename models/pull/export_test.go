package pull

// NewFilesPlan is NewPlan for files that a test chooses.
var NewFilesPlan = newPlan

// OneFileAtOnce has later runs fetch one file after the other, until the function that it returns is called.
func OneFileAtOnce() (undo func()) {
	filesAtOnce = 1
	return func() { filesAtOnce = 3 }
}
