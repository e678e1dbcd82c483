package chattemplate

type jinjaTemplate struct {
	renderer
	format Format
}

func newJinja(Config) (*jinjaTemplate, error) { return nil, ErrNoTemplate }
