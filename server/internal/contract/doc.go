// Package contract has what several wire formats accept about reasoning. Its fields say how much of the reasoning a
// request wants and where the reasoning comes from. They have the same names in OpenAI's formats and in AG-UI. It also
// decides whether sealed values that clients send back are restored, ignored or refused.
//
// A format embeds [Fields] in its request and passes the result of [Fields.Parse] to [Asked.Apply]. The package has no
// routes and encodes no events.
//
// A field that is null counts as left out. Two fields that contradict each other are refused, and the error names both.
// A value that cannot be honoured is refused, never reduced to what is possible.
package contract
