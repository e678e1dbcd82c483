package generation

import "reflect"

// Alike reports whether what was planned for a request serves another one: all fields are equal, except those that no
// plan depends on.
func (q *Request) Alike(o *Request) bool {
	a, b := reflect.ValueOf(q).Elem(), reflect.ValueOf(o).Elem()
	for i := range a.NumField() {
		if a.Type().Field(i).Tag.Get("plan") != "free" && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			return false
		}
	}
	return true
}

// NotRaw returns the name of the first field that is set and does not work with a raw prompt, or "".
func (q *Request) NotRaw() (field string) {
	q.eachNotRaw(func(name string, _ reflect.Value) {
		if field == "" {
			field = name
		}
	})
	return field
}

// MakeRaw clears all fields that do not work with a raw prompt.
func (q *Request) MakeRaw() {
	q.eachNotRaw(func(_ string, v reflect.Value) { v.SetZero() })
}

// eachNotRaw calls visit with each field that is set and does not work with a raw prompt.
func (q *Request) eachNotRaw(visit func(name string, v reflect.Value)) {
	all := reflect.ValueOf(q).Elem()
	for i := range all.NumField() {
		f, v := all.Type().Field(i), all.Field(i)
		raw := f.Tag.Get("raw")
		empty := (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
		if raw != "" && !empty && !v.IsZero() && (v.Kind() != reflect.String || v.String() != raw) {
			visit(f.Name, v)
		}
	}
}
