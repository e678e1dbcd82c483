// Package contract is the reasoning contract: the fields with which a request says how much of the reasoning it
// wants and where it comes from, by the same names in every format of ours and OpenAI's, and how sealed values are
// restored, left out or refused.
//
// It serves no route and knows no event. A format embeds [Fields] in its request and hands what [Fields.Parse]
// makes of it to [Asked.Apply].
//
// Rules: a field that is null is a field that is not there; two fields that ask for different things are refused by
// both their names, and nothing is cut to what would be possible.
package contract
