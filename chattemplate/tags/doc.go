// Package tags is the family of models whose turn is one text. If the model marks its reasoning, tags such as <think>
// and </think> stand around it. Calls of functions are in the text too, in one of the styles of package markup.
//
// [Open] finds the tags and the style by rendering small conversations with the model's chat template: detect.go finds
// the tags, and the template's switch for reasoning, and detectcalls.go finds the style of calls. So a new model needs
// no code, unless it writes calls in a new style. A new style is one more entry in the table in markup/calls.go.
//
// The family's three jobs are in these files:
//
//   - Render: family.go renders a conversation through the template, and closes or skips reasoning with its tags.
//   - Read: reader.go turns tokens into text, in which package markup finds the tags and the calls.
//   - Hold: turn.go chooses the constraint for each place of the turn. callform.go makes the form of calls, and
//     textcalls.go follows a call by it.
package tags
