package responses

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"runner/backend/fake"
	"runner/reasoning"
	"runner/reasoning/seal"
	"runner/server/wire"
	"runner/server/wiretest"
)

// clock is a time that tests change.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func newRecord(c *clock, principal, id string, size int) *record {
	return &record{id: id, principal: principal, root: id, made: c.now, size: size, response: &Response{
		ID: id, Status: statusCompleted, Output: []Item{&Message{ID: "msg_" + id}}}}
}

// has reports which of a principal's responses are stored.
func has(s *store, principal string, ids ...string) string {
	var kept []string
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if sh := s.shelves[principal]; sh != nil && sh.records[id] != nil {
			kept = append(kept, id)
		}
	}
	return strings.Join(kept, " ")
}

func TestStoreBounds(t *testing.T) {
	c := &clock{now: wiretest.Today}
	s := newStore(StoreLimits{Responses: 3, Bytes: 100, Total: 150, Age: time.Hour}, c.Now)
	for i, id := range []string{"a", "b", "c"} {
		if !s.put(newRecord(c, "p", id, 10)) {
			t.Fatalf("response %d is not kept", i)
		}
	}
	s.get("p", "a") // the least recently used is b now
	s.put(newRecord(c, "p", "d", 10))
	if got := has(s, "p", "a", "b", "c", "d"); got != "a c d" {
		t.Errorf("by count: %s", got)
	}
	s.put(newRecord(c, "p", "e", 85))
	if got := has(s, "p", "a", "b", "c", "d", "e"); got != "d e" {
		t.Errorf("by bytes: %s", got)
	}
	if s.put(newRecord(c, "p", "f", 101)) || s.get("p", "f") != nil {
		t.Error("what is larger than the limit is kept")
	}
	s.put(newRecord(c, "q", "g", 60))
	if got := has(s, "p", "d", "e") + "|" + has(s, "q", "g"); got != "e|g" {
		t.Errorf("by the total: %s", got)
	}
	c.now = c.now.Add(time.Hour + time.Second)
	if s.get("p", "e") != nil {
		t.Error("an old response is still there")
	}
	s.put(newRecord(c, "r", "h", 10))
	if s.bytes != 10 || len(s.shelves) != 1 {
		t.Errorf("%d bytes on %d shelves are left of old responses", s.bytes, len(s.shelves))
	}
}

// After any sequence of puts, uses and removals, the store keeps its limits and its accounts.
func TestStoreKeepsItsAccounts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	c := &clock{now: wiretest.Today}
	limits := StoreLimits{Responses: 5, Bytes: 400, Total: 900, Age: time.Minute}
	s := newStore(limits, c.Now)
	for range 20_000 {
		principal, id := fmt.Sprint("p", r.IntN(4)), fmt.Sprint(r.IntN(12))
		switch r.IntN(6) {
		case 0, 1, 2:
			if s.get(principal, id) == nil {
				rec := newRecord(c, principal, id, 1+r.IntN(200))
				if r.IntN(2) == 0 {
					rec.previous = fmt.Sprint(r.IntN(12))
				}
				s.put(rec)
			}
		case 3:
			s.remove(principal, id)
		case 4:
			if item, rec := s.item(principal, "msg_"+id); item != nil && (rec.principal != principal || rec.id != id) {
				t.Fatal("a wrong item")
			}
			c.now = c.now.Add(time.Duration(r.IntN(5)) * time.Second)
		case 5:
			if rec := s.get(principal, id); rec != nil {
				s.replace(rec, newRecord(c, principal, id, 1+r.IntN(200)))
			}
		}
		total := 0
		for name, sh := range s.shelves {
			bytes := 0
			for el := sh.order.Front(); el != nil; el = el.Next() {
				rec := el.Value.(*record)
				bytes += rec.size
				if sh.records[rec.id] != el || sh.items["msg_"+rec.id] != rec || rec.principal != name {
					t.Fatal("the lists disagree")
				}
			}
			if bytes != sh.bytes || len(sh.records) != sh.order.Len() || len(sh.items) != sh.order.Len() ||
				bytes > limits.Bytes || sh.order.Len() > limits.Responses || sh.order.Len() == 0 {
				t.Fatalf("%d responses of %d bytes, noted %d and %d", sh.order.Len(), bytes, len(sh.records), sh.bytes)
			}
			total += bytes
		}
		if total != s.bytes || total > limits.Total {
			t.Fatalf("%d bytes, noted %d", total, s.bytes)
		}
	}
}

func TestStoredResponses(t *testing.T) {
	f := start(t, Config{}, fake.Config{})
	for _, stream := range []bool{false, true} {
		var made object
		request := body(t, object{"stream": stream, "reasoning": "full", "input": []any{
			object{"role": "system", "content": "Rules."}, object{"role": "user", "content": question}}})
		if stream {
			_, made = fold(t, f.stream(t, "POST", "/v1/responses", request))
		} else {
			made = f.post(t, request)
		}
		path := "/v1/responses/" + made["id"].(string)
		if got := f.get(t, path); encode(t, got) != encode(t, made) {
			t.Errorf("stored %s, made %s", encode(t, got), encode(t, made))
		}
		list := f.get(t, path+"/input_items?order=asc")
		data := list["data"].([]any)
		if list["object"] != "list" || list["has_more"] != false || len(data) != 2 ||
			list["first_id"] != data[0].(object)["id"] || list["last_id"] != data[1].(object)["id"] ||
			data[0].(object)["role"] != "system" || encode(t, data[1].(object)["content"]) != `[{"text":"`+question+
			`","type":"input_text"}]` {
			t.Errorf("input items %v", list)
		}
		first := f.get(t, path+"/input_items?limit=1")
		if first["has_more"] != true || first["last_id"] != data[1].(object)["id"] {
			t.Errorf("first page %v", first)
		}
		second := f.get(t, path+"/input_items?limit=1&after="+first["last_id"].(string))
		if second["has_more"] != false || second["first_id"] != data[0].(object)["id"] {
			t.Errorf("second page %v", second)
		}
		for _, query := range []string{"limit=0", "limit=101", "limit=x", "order=up", "after=msg_none"} {
			f.refused(t, "GET", path+"/input_items?"+query, "", 400)
		}
		f.refused(t, "GET", path+"?stream=true", "", 400)
		f.refused(t, "POST", path+"/cancel", "", 400)

		// For other principals, neither it nor its items exist.
		stranger := wiretest.Anyone()
		stranger.ID = "stranger"
		other := f.as(t, stranger)
		for _, request := range [][2]string{{"GET", path}, {"DELETE", path}, {"POST", path + "/cancel"},
			{"GET", path + "/input_items"}} {
			if e := other.refused(t, request[0], request[1], "", http.StatusNotFound); e["code"] != "not_found" {
				t.Errorf("%v: %v", request, e)
			}
		}
		other.refused(t, "POST", "/v1/responses", body(t, object{"previous_response_id": made["id"]}), 400)
		other.refused(t, "POST", "/v1/responses",
			body(t, object{"input": []any{object{"type": "item_reference", "id": item(made, 1)["id"]}}}), 400)

		status, got := f.do(t, "DELETE", path, "")
		if o := decode(t, got); status != 200 || o["id"] != made["id"] || o["deleted"] != true || o["object"] != "response" {
			t.Errorf("deleted: %d %s", status, got)
		}
		f.refused(t, "GET", path, "", http.StatusNotFound)
		f.refused(t, "DELETE", path, "", http.StatusNotFound)
	}
	unstored := f.post(t, body(t, object{"store": false}))
	f.refused(t, "GET", "/v1/responses/"+unstored["id"].(string), "", http.StatusNotFound)
	if f.store.bytes != 0 || len(f.store.shelves) != 0 {
		t.Errorf("%d bytes are left", f.store.bytes)
	}
}

func TestResponseTooLargeToStore(t *testing.T) {
	f := start(t, Config{Store: StoreLimits{Bytes: 3000}}, fake.Config{})
	got := f.post(t, body(t, object{"instructions": strings.Repeat("word ", 500)}))
	if w := got["warnings"].([]any); len(w) != 1 || w[0].(object)["code"] != CodeNotStored {
		t.Errorf("warnings %v", w)
	}
	f.refused(t, "GET", "/v1/responses/"+got["id"].(string), "", http.StatusNotFound)
}

// A response continues from another with all of its conversation, but without its instructions.
func TestPreviousResponse(t *testing.T) {
	more := "And one more?"
	f := start(t, Config{}, fake.Config{}, append(usual(),
		fake.Reply{Prompt: answer, After: wiretest.Ask(more), Say: wiretest.Think("", "Five.")},
		fake.Reply{Prompt: "Five.", After: wiretest.Ask("And another?"), Say: wiretest.Think("", "Six.")})...)
	first := f.post(t, body(t, object{"instructions": "Be brief."}))
	second := f.post(t, body(t, object{"input": more, "previous_response_id": first["id"], "instructions": "Be long."}))
	third := f.post(t, body(t, object{"input": "And another?", "previous_response_id": second["id"]}))
	if partText(item(second, 0), "content", 0) != "Five." || partText(item(third, 0), "content", 0) != "Six." ||
		second["previous_response_id"] != first["id"] {
		t.Errorf("responses %v and %v", second, third)
	}
	prompt := f.prompt(t, object{"input": "x", "previous_response_id": third["id"], "instructions": "Now."})
	if strings.Contains(prompt, "Be ") || !strings.Contains(prompt, "Now.") || !strings.Contains(prompt, question) {
		t.Errorf("prompt %q", prompt)
	}
	// A missing link breaks the chain.
	f.do(t, "DELETE", "/v1/responses/"+first["id"].(string), "")
	e := f.refused(t, "POST", "/v1/responses", body(t, object{"previous_response_id": third["id"]}), 400)
	if e["code"] != "previous_response_not_found" {
		t.Errorf("error %v", e)
	}
}

// With truncation auto, the oldest turns are dropped until the prompt leaves room for an answer. Prompts and the last
// question are kept.
func TestTruncation(t *testing.T) {
	f := start(t, Config{}, fake.Config{ContextSize: 600})
	input := []any{object{"role": "system", "content": "Rules."}}
	for i := range 12 {
		input = append(input, object{"role": "user", "content": fmt.Sprintf("Question %d %s", i, strings.Repeat("word ", 6))},
			object{"role": "assistant", "content": fmt.Sprintf("Answer %d.", i)})
	}
	input = append(input, object{"role": "user", "content": question})
	f.refused(t, "POST", "/v1/responses", body(t, object{"input": input}), 400)
	got := f.post(t, body(t, object{"input": input, "truncation": "auto"}))
	if got["truncation"] != "auto" || partText(item(got, 0), "content", 0) != answer ||
		got["usage"].(object)["input_tokens"].(float64) > 450 {
		t.Errorf("response %v", got)
	}
	if w := got["warnings"].([]any); len(w) != 1 || w[0].(object)["code"] != CodeTruncated {
		t.Errorf("warnings %v", w)
	}
	prompt := f.prompt(t, object{"input": input, "truncation": "auto"})
	if !strings.Contains(prompt, "Rules.") || !strings.Contains(prompt, "Question 11") ||
		strings.Contains(prompt, "Question 0") || strings.Contains(prompt, "Answer 0.") {
		t.Errorf("prompt %q", prompt)
	}
	// Less is dropped if less room is requested.
	tight := f.prompt(t, object{"input": input, "truncation": "auto", "max_output_tokens": 10})
	if len(tight) <= len(prompt) {
		t.Errorf("%d bytes with little room for the answer, %d with more", len(tight), len(prompt))
	}
	input[len(input)-1] = object{"role": "user", "content": strings.Repeat("word ", 900)}
	e := f.refused(t, "POST", "/v1/responses", body(t, object{"input": input, "truncation": "auto"}), 400)
	if e["code"] != "context_length_exceeded" {
		t.Errorf("error %v", e)
	}
}

// In a long turn of calls, the oldest calls are dropped together with their outputs.
func TestTruncationOfCalls(t *testing.T) {
	f := start(t, Config{}, fake.Config{ContextSize: 600})
	input := []any{object{"role": "user", "content": question}}
	for i := range 12 {
		id := fmt.Sprint("call_", i)
		input = append(input, object{"type": "function_call", "call_id": id, "name": "look",
			"arguments": fmt.Sprintf(`{"n":"first %d"}`, i)},
			object{"type": "function_call_output", "call_id": id, "output": fmt.Sprintf("Output %d %s", i,
				strings.Repeat("word ", 30))})
	}
	prompt := f.prompt(t, object{"input": input, "truncation": "auto"})
	if !strings.Contains(prompt, question) || !strings.Contains(prompt, "Output 11") ||
		!strings.Contains(prompt, "first 11") || strings.Contains(prompt, "first 0") ||
		strings.Contains(prompt, "Output 0 ") {
		t.Errorf("prompt %q", prompt)
	}
}

// After a key lost a permission, it sees no more of its earlier responses than it could request now.
func TestStoredReasoningStillNeedsThePermission(t *testing.T) {
	f := start(t, Config{}, fake.Config{})
	for _, tt := range []struct {
		ask, now reasoning.Visibility
	}{{reasoning.VisibilityFull, reasoning.VisibilitySummary}, {reasoning.VisibilityFull, reasoning.VisibilityNone},
		{reasoning.VisibilitySummary, reasoning.VisibilityNone}} {
		made := f.post(t, body(t, object{"reasoning": tt.ask.String()}))
		events := f.stream(t, "POST", "/v1/responses",
			body(t, object{"reasoning": tt.ask.String(), "background": true, "stream": true}))
		less := wiretest.Anyone()
		less.Reasoning = tt.now
		lesser := f.as(t, less)
		for id, paths := range map[any][]string{
			made["id"]: {"", "/input_items"}, events[0]["response"].(object)["id"]: {"", "?stream=true",
				"?stream=true&starting_after=3"},
		} {
			for _, path := range paths {
				e := lesser.refused(t, "GET", "/v1/responses/"+id.(string)+path, "", http.StatusForbidden)
				if e["code"] != wire.CodeForbidden {
					t.Errorf("%s now %s, %s: %v", tt.ask, tt.now, path, e)
				}
			}
		}
		// The model's reasoning is still used, but nothing shows it.
		again := lesser.post(t, body(t, object{"input": []any{
			object{"role": "user", "content": question}, object{"type": "item_reference", "id": item(made, 0)["id"]},
			object{"role": "assistant", "content": "x"},
			object{"role": "user", "content": question}}}))
		items := encode(t, lesser.get(t, "/v1/responses/"+again["id"].(string)+"/input_items"))
		if strings.Contains(items, secret) || strings.Contains(items, brief) ||
			!strings.Contains(items, item(made, 0)["id"].(string)) {
			t.Errorf("%s now %s: input items %s", tt.ask, tt.now, items)
		}
		if status, _ := lesser.do(t, "DELETE", "/v1/responses/"+made["id"].(string), ""); status != http.StatusOK {
			t.Errorf("%s now %s: deleting is answered with %d", tt.ask, tt.now, status)
		}
	}
}

// The store has no readable reasoning, whatever was shown of it.
func TestStoreSealsReasoning(t *testing.T) {
	f := start(t, Config{}, fake.Config{}, append(usual(), fake.Reply{After: wiretest.Ask("Look."),
		Say: wiretest.Call(`I look. <rationale call="1">{"why":"`+secret+`","confidence":0.5}</rationale>`, "", "look",
			`{"q":"a"}`)})...)
	reasons := object{"input": "Look.", "reasoning": "full", "rationale": true,
		"tools": []any{object{"type": "function", "name": "look", "parameters": object{"type": "object"}}}}
	if made := f.post(t, body(t, reasons)); !strings.Contains(encode(t, made["rationale"]), secret) ||
		encode(t, f.get(t, "/v1/responses/"+made["id"].(string))["rationale"]) != encode(t, made["rationale"]) {
		t.Errorf("the reasons of %v are not those that were stored", made)
	}
	for _, more := range []object{{}, {"reasoning": "full"}, {"reasoning": "summary"},
		{"reasoning": "full", "background": true, "stream": true},
		{"input": []any{object{"role": "user", "content": question}, object{"type": "reasoning", "id": "rs_in",
			"summary": []any{}, "content": []any{object{"type": "reasoning_text", "text": thoughts}}},
			object{"role": "assistant", "content": "x"}, object{"role": "user", "content": question}}}} {
		if _, got := f.do(t, "POST", "/v1/responses", body(t, more)); !strings.Contains(got, "resp_") {
			t.Fatal(got)
		}
	}
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	n := 0
	for _, sh := range f.store.shelves {
		for _, el := range sh.records {
			n++
			if where := search(reflect.ValueOf(el.Value), secret, map[uintptr]bool{}); where != "" {
				t.Errorf("the store holds reasoning in the clear at record%s", where)
			}
		}
	}
	if n != 6 {
		t.Errorf("%d responses are stored", n)
	}
}

// search looks for a text in everything that a value refers to, and returns where it is.
func search(v reflect.Value, text string, seen map[uintptr]bool) string {
	switch v.Kind() {
	case reflect.String:
		if strings.Contains(v.String(), text) {
			return " = " + v.String()
		}
	case reflect.Pointer:
		if v.IsNil() || seen[v.Pointer()] || v.Type() == reflect.TypeFor[*seal.Keyring]() {
			return ""
		}
		seen[v.Pointer()] = true
		return search(v.Elem(), text, seen)
	case reflect.Interface:
		if !v.IsNil() {
			return search(v.Elem(), text, seen)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if at := search(v.Field(i), text, seen); at != "" {
				return "." + v.Type().Field(i).Name + at
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if v.Kind() == reflect.Slice && strings.Contains(string(v.Bytes()), text) {
				return " (bytes)"
			}
			return ""
		}
		for i := range v.Len() {
			if at := search(v.Index(i), text, seen); at != "" {
				return fmt.Sprintf("[%d]%s", i, at)
			}
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			if at := search(k, text, seen) + search(v.MapIndex(k), text, seen); at != "" {
				return "[...]" + at
			}
		}
	}
	return ""
}
