package grammar

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runner/testenv"
	"strings"
	"testing"
)

// TestMembers writes objects with random subsets of fields in random orders. Exactly those with all required fields are
// texts of the form.
func TestMembers(t *testing.T) {
	testenv.SkipRaced(t)
	v := small(t)
	number, text := JSONSchema([]byte(`{"type":"integer"}`)), JSONSchema([]byte(`{"type":"string"}`))
	fields := []Field{{Name: "a", Value: number}, {Name: "b", Value: text, Optional: true},
		{Name: `"é`, Value: AnyObject(), Optional: true},
		{Name: "c", Value: Choices(`"x"`, "null")}, {Name: "aa", Value: number, Optional: true}}
	values := []string{"17", `"t"`, `{"a": [1]}`, "null", "-3"}
	g := compile(t, v, Members(fields...))
	rng := rand.New(rand.NewPCG(1, 2))
	for range testenv.Rounds(500) {
		var parts []string
		whole := true
		for i, f := range fields {
			if rng.IntN(4) == 0 {
				whole = whole && f.Optional
				continue
			}
			name, _ := json.Marshal(f.Name)
			parts = append(parts, fmt.Sprintf("%s:%s%s", name, strings.Repeat(" ", rng.IntN(2)), values[i]))
		}
		rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		object := "{" + strings.Join(parts, ", ") + "}"
		if got := inBytes(g, object); got != whole {
			t.Errorf("%s: %v", object, got)
		}
		if len(parts) > 0 && inBytes(g, "{"+strings.Join(append(parts, parts[0]), ",")+"}") {
			t.Errorf("%s: a field comes twice", object)
		}
	}
	for _, no := range []string{`{"a":1,"c":null,"d":1}`, `{"a":"1","c":null}`, `{"a":1,"c":"y"}`, `{"a":1,"c":null,}`,
		`{,"a":1,"c":null}`} {
		if inBytes(g, no) {
			t.Error(no)
		}
	}
	if free := compile(t, v, Members(Field{Name: "a", Value: number, Optional: true})); !inBytes(free, "{}") ||
		!inBytes(free, `{"a":1}`) {
		t.Error("an object of optional fields cannot be empty, or has none")
	}
	for _, text := range samples(t, Members(fields...)) {
		if !json.Valid([]byte(text)) {
			t.Errorf("%s is no JSON", text)
		}
	}
	many := make([]Field, MaxMembers+1)
	for i := range many {
		many[i] = Field{Name: fmt.Sprint(i), Value: number}
	}
	wide := compile(t, v, Members(many[:MaxMembers]...)) // the texts take several arenas
	for round := range 20 {
		text := "{"
		for i := range MaxMembers {
			text += fmt.Sprintf(`"%d": 7,`, (i*(2*round+1)+round)%MaxMembers)
		}
		if text = strings.TrimSuffix(text, ",") + "}"; !inBytes(wide, text) {
			t.Errorf("round %d: not all fields are taken", round)
		}
	}
	long := Field{Name: strings.Repeat("ж", maxMemberName/2+1), Value: number}
	for _, src := range []Source{Members(many...), Members(long), Members(fields[0], fields[0]),
		Members(Field{Name: "a", Value: Regex("x")})} {
		if _, err := Compile(t.Context(), src, v); err == nil {
			t.Errorf("%d fields were compiled", len(src.fields))
		}
	}
	if Members(fields...).digest() == Fields(fields...).digest() {
		t.Error("the two are taken for the same")
	}
}

func samples(t *testing.T, src Source) []string {
	t.Helper()
	texts, err := Samples(t.Context(), src, 20, 1)
	if err != nil || len(texts) == 0 {
		t.Fatal(texts, err)
	}
	return texts
}
