package hold

// Owed is what a turn must write, what it is offered, and how far it has come. It decides for every family whether an
// answer, a call or the end of the turn may come next.
type Owed struct {
	// Form says that an answer must match a form. Call says that a call is required, and Report that report_reasoning
	// must be called first.
	Form, Call, Report bool
	// Offered says that the model may call functions, and Single that it may make only one call.
	Offered, Single bool

	reported, made bool
}

// Any reports whether anything was asked of the turn. Then it may not end outside of an answer or a call.
func (o *Owed) Any() bool { return o.Form || o.Call || o.Report }

// Reports reports whether the report must come next.
func (o *Owed) Reports() bool { return o.Report && !o.reported }

// MustCall reports whether the turn may only call and not answer.
func (o *Owed) MustCall() bool { return o.Reports() || o.Call && o.Offered }

// MayCall reports whether a call may come next.
func (o *Owed) MayCall() bool { return o.Reports() && !o.made || o.Offered && !o.spent() }

// MayAnswer reports whether an answer in the form may come next.
func (o *Owed) MayAnswer() bool { return !o.MustCall() && !o.made }

// MayEnd reports whether the turn may end before anything else comes.
func (o *Owed) MayEnd() bool { return o.made }

// Free reports whether any text may come next. After a call it may, unless an answer has a form or a call is required.
func (o *Owed) Free() bool { return !o.Form && !o.MustCall() && !o.spent() }

// Made says that a call has come.
func (o *Owed) Made() { o.made = true }

// Resume says that the report has been answered and the turn goes on.
func (o *Owed) Resume() { o.reported, o.made = true, false }

// spent reports whether no further call may come. A report comes alone.
func (o *Owed) spent() bool { return o.made && (o.Single || o.Reports()) }
