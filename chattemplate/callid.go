package chattemplate

import "fmt"

// idForm is the form of the ids of calls in a template.
type idForm uint8

const (
	// givenIDs: any id.
	givenIDs idForm = iota
	// shortIDs: nine letters and digits, as Mistral's models write them.
	shortIDs
	// namedIDs: the function's name and the number of the call in the conversation, as Kimi's models write them.
	namedIDs
	// turnIDs: the same with the number of the call in its message.
	turnIDs
)

// namedID returns the id of a call as Kimi's models write it. Source: the model card of Kimi K2.
func namedID(function string, n int) string { return fmt.Sprintf("functions.%s:%d", function, n) }

// callIDs gives the calls of a conversation ids in the form that the model writes. Clients have ids of another form,
// and some give the same id to calls of different turns.
type callIDs struct {
	form idForm
	// shown are the ids in the prompt, by those of the client. calls and inTurn count the calls so far.
	shown         map[string]string
	calls, inTurn int
}

// begin begins a message with calls.
func (c *callIDs) begin() { c.inTurn = 0 }

// call returns the id to show for the next call.
func (c *callIDs) call(call *ToolCall) string {
	id := call.ID
	switch c.form {
	case shortIDs:
		id = fmt.Sprintf("call%05d", (c.calls+1)%100_000)
	case namedIDs:
		id = namedID(call.Name, c.calls)
	case turnIDs:
		id = namedID(call.Name, c.inTurn)
	}
	c.calls++
	c.inTurn++
	c.shown[call.ID] = id
	return id
}

// result returns the id to show for a result, that of the latest call with the client's id.
func (c *callIDs) result(m *Message) string {
	if shown, ok := c.shown[m.ToolCallID]; ok {
		return shown
	}
	return c.call(&ToolCall{ID: m.ToolCallID, Name: m.ToolName}) // a template may insist on the form
}
