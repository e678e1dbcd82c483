package runner

import (
	"encoding/json"
	"maps"
	"strings"

	"runner/generation"
	"runner/grammar"
	"runner/reasoning"
)

// separate takes a client's schema apart that describes the object of strategy json: an object with the properties
// reasoning and answer, and perhaps score. Its answer becomes the form of the answer, so that the reasoning travels
// apart as it does without a schema. Any other schema describes the answer itself.
func (j *job) separate() {
	q := &j.req
	if q.Strategy != reasoning.StrategyJSON {
		return
	}
	answer, score := answerOf(q.Form.Schema())
	if answer == nil {
		return
	}
	if _, err := j.r.grammars().Validator(answer); err != nil {
		return // it refers to another part of the whole schema
	}
	q.Form, q.Score, j.decodes = grammar.JSONSchema(answer), q.Score || score, true
	if q.ResponseFormat != nil {
		format := *q.ResponseFormat
		format.Schema = answer
		q.ResponseFormat = &format
	}
}

// besides are the keywords that a schema of the object of strategy json may have besides its properties. They change
// nothing about the answer.
var besides = map[string]bool{"type": true, "required": true, "additionalProperties": true, "title": true,
	"description": true, "examples": true, "default": true, "$schema": true, "$id": true, "$comment": true,
	"$defs": true, "definitions": true, "$ref": true}

// answerOf returns the schema of the answer in a schema of the object of strategy json, and whether the object has a
// score. It returns nil for any other schema.
func answerOf(schema []byte) (answer []byte, score bool) {
	var root map[string]json.RawMessage
	if json.Unmarshal(schema, &root) != nil {
		return nil, false
	}
	object := root
	if to, ok := referred(root); ok {
		object = to
	}
	var properties map[string]json.RawMessage
	if json.Unmarshal(object["properties"], &properties) != nil {
		return nil, false
	}
	for keyword := range object {
		if keyword != "properties" && !besides[keyword] {
			return nil, false
		}
	}
	_, thinks := properties["reasoning"]
	_, score = properties["score"]
	known := 2
	if score {
		known++
	}
	var of map[string]json.RawMessage
	if !thinks || len(properties) != known || json.Unmarshal(properties["answer"], &of) != nil || of == nil {
		return nil, false
	}
	of = maps.Clone(of)
	for _, defs := range []string{"$defs", "definitions"} {
		if _, has := of[defs]; !has && root[defs] != nil {
			of[defs] = root[defs]
		}
	}
	answer, err := json.Marshal(of)
	if err != nil {
		return nil, false
	}
	return answer, score
}

// referred returns the definition that a schema refers to, if it does nothing else.
func referred(root map[string]json.RawMessage) (to map[string]json.RawMessage, ok bool) {
	var at string
	if json.Unmarshal(root["$ref"], &at) != nil {
		return nil, false
	}
	path := strings.Split(strings.TrimPrefix(at, "#/"), "/")
	var defs map[string]json.RawMessage
	if len(path) != 2 || json.Unmarshal(root[path[0]], &defs) != nil {
		return nil, false
	}
	return to, json.Unmarshal(defs[path[1]], &to) == nil && to["$ref"] == nil
}

// rawAnswer reports whether the answer of strategy json is shown as JSON text. Without a schema of the client's own,
// and where that describes the whole object, a string is shown as its text.
func (j *job) rawAnswer(req *generation.Request) bool { return req.Form.IsJSON() && !j.decodes }
