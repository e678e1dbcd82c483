package wire

import (
	"cmp"
	"maps"
	"math"
	"reflect"
	"strings"

	"runner/generation"
)

// The fields of a body say by their tags which fields of a [generation.Request] they are. With the tag sets, a number
// sets the field. With the tag of, which may list several, only errors about the field have the client's name.

// Sampling are the settings of sampling that formats share.
type Sampling struct {
	// The logits are divided by this number. 0 always takes the likeliest token.
	Temperature *float64 `json:"temperature" api:"[0..2]" sets:"Sampling.Temperature"`
	// Keep only the likeliest tokens that together have this probability. 1 keeps all tokens, 0 keeps one.
	TopP *float64 `json:"top_p" api:"[0..1]" sets:"Sampling.TopP"`
	// Drop tokens whose probability is less than this share of the likeliest token's. 0 drops none.
	MinP *float64 `json:"min_p" api:"[0..1]" sets:"Sampling.MinP"`
	// Keep only the most typical tokens that together have this probability. 0 and 1 keep all.
	TypicalP *float64 `json:"typical_p" api:"[0..1]" sets:"Sampling.TypicalP"`
	// Subtracted from the logit of each token that was already generated. Penalties count tokens only in text that the
	// API key may see, and change only such text.
	PresencePenalty *float64 `json:"presence_penalty" api:"[-2..2]" sets:"Sampling.PresencePenalty"`
	// Subtracted from a token's logit once for each time that the token was generated.
	FrequencyPenalty *float64 `json:"frequency_penalty" api:"[-2..2]" sets:"Sampling.FrequencyPenalty"`
}

// Set writes the numbers of a body into a request. Those that are nil leave the request as it is. body is a pointer.
func Set(to *generation.Request, body any) {
	all := reflect.ValueOf(body).Elem()
	for _, f := range reflect.VisibleFields(all.Type()) {
		path, sets := f.Tag.Lookup("sets")
		from := all.FieldByIndex(f.Index)
		if !sets || from.Kind() != reflect.Pointer || from.IsNil() {
			continue
		}
		field := setting(to, path)
		switch v := from.Elem(); {
		case field.Kind() == reflect.Pointer:
			field.Set(from)
		case path == "Sampling.TopP": // for clients 0 means only the best token, for the sampler no limit
			field.SetFloat(max(v.Float(), math.SmallestNonzeroFloat32))
		case field.CanFloat():
			field.SetFloat(v.Float())
		case v.CanInt():
			field.SetInt(max(0, min(v.Int(), math.MaxInt32)))
		}
	}
}

// Names returns the client's names of the fields of a request, as [FromError] wants them: those that the tags of B
// give, after a prefix, and own.
func Names[B any](prefix string, own map[string]string) map[string]string {
	names := map[string]string{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[B]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		for _, tag := range [...]string{"sets", "of"} {
			if list, ok := f.Tag.Lookup(tag); ok {
				for path := range strings.SplitSeq(list, ",") {
					_ = setting(&generation.Request{}, path).Type() // panics if there is none
					names[path] = cmp.Or(names[path], prefix+name)
				}
			}
		}
	}
	maps.Copy(names, own)
	return names
}

// setting returns the field of a request at a path, such as "Sampling.TopP".
func setting(q *generation.Request, path string) reflect.Value {
	v := reflect.ValueOf(q).Elem()
	for name := range strings.SplitSeq(path, ".") {
		v = v.FieldByName(name)
	}
	return v
}
