package backend

// FormKind is a way to describe what a text must look like.
type FormKind string

// The kinds of form.
const (
	FormJSONSchema FormKind = "JSON Schema"
	FormRegex      FormKind = "pattern"
	FormChoices    FormKind = "choices"
	FormGBNF       FormKind = "GBNF"
)

// Form describes what a text must look like, for engines that enforce such descriptions themselves.
type Form struct {
	Kind FormKind
	// Text is the schema, the pattern or the grammar. Choices are in List.
	Text string
	List []string
}

// Formed is a [Constraint] that may know what its text must look like as a whole. A backend may hand that to its engine
// as a hint. It must ask the constraint about every token all the same.
type Formed interface {
	Constraint
	// Form returns the form of the text that begins with the next token. ok is false if none begins here.
	Form() (form Form, ok bool)
	// Follow says whether the engine follows the form from now on. Then its owner need not force tokens, which the engine
	// would write in its own way.
	Follow(on bool)
}
