package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"runner/hint"
)

// CodeIgnored is the code of the warning about a field that has no effect.
const CodeIgnored = "field_ignored"

// maxUnread is the maximum number of fields that warnings name.
const maxUnread = 8

// Unread collects the members of a body that are not fields of its struct. The struct embeds it.
type Unread struct {
	members []member
	// more counts the members that were left out.
	more int
}

// member is a member of a body that was not read. near is the field that its name is most like, or empty.
type member struct{ path, name, near string }

// Holder is a struct that keeps objects as JSON. Objects says by the names of their fields which structs read them.
type Holder interface{ Objects() map[string]any }

// elsewhere are the fields of all formats, and of other servers. The first word of a line is what they mean: a field
// of [generation.Request], or
//
//	silent   clients send them as a matter of course, and they change no answer of a local server
//	object   an object with such fields
//	nothing  nothing here has their effect
//
// A field may have the value that means the same as leaving it out. Names are in lower case.
const elsewhere = `
Form response_format format output_format json_schema response_schema guided_json guided_regex guided_choice
Form guided_grammar structured_outputs grammar regex choice
MaxTokens max_tokens max_completion_tokens max_output_tokens max_new_tokens num_predict n_predict
Stop stop stop_sequences
Effort reasoning_effort effort
Visibility reasoning include_reasoning think enable_thinking thinking
Budget reasoning_budget thinking_budget budget_tokens
Seed seed
ToolChoice tool_choice="auto"
Sampling.Temperature temperature
Sampling.TopP top_p
Sampling.TopK top_k
Sampling.MinP min_p
Sampling.TypicalP typical_p=1 typ_p=1
Sampling.PresencePenalty presence_penalty=0
Sampling.FrequencyPenalty frequency_penalty=0
Sampling.RepetitionPenalty repetition_penalty=1 repeat_penalty=1
Sampling.PenaltyWindow repeat_last_n
Sampling.Bias logit_bias
object options output_config text extra_body
nothing mirostat=0 dry_multiplier=0 xtc_probability=0 tfs_z=1 dynatemp_range=0 top_a=0 min_tokens=0 length_penalty=1
nothing best_of=1 n=1 parallel_tool_calls=true use_beam_search=false ignore_eos=false echo=false
nothing lora adapter draft_model logprobs=false top_logprobs=0 top_n_sigma=-1
silent user metadata store cache_control service_tier stream_options include_usage include_obfuscation
silent continuous_usage_stats prompt_cache_key prompt_cache_options prompt_cache_retention safety_identifier betas
silent anthropic_beta anthropic_version client_metadata prediction usage speed inference_geo provider
silent keep_alive num_keep num_batch num_gpu main_gpu num_thread numa low_vram f16_kv
silent use_mmap use_mlock cache_prompt id_slot slot_id n_keep timings_per_token return_progress
silent backend_sampling min_keep mirostat_eta mirostat_tau dry_base dry_allowed_length dry_penalty_last_n
silent dry_sequence_breakers xtc_threshold dynatemp_exponent request_id priority cache_salt session_id chat_id
silent forwardedprops.config forwardedprops.command forwardedprops.nodename forwardedprops.streammode
silent forwardedprops.streamsubgraphs forwardedprops.threadmetadata
`

// word is what elsewhere says about a field.
type word struct{ means, neutral string }

var words = sync.OnceValue(func() map[string]word {
	all := map[string]word{}
	for line := range strings.Lines(elsewhere) {
		if fields := strings.Fields(line); len(fields) > 0 {
			for _, f := range fields[1:] {
				name, neutral, _ := strings.Cut(f, "=")
				all[name] = word{fields[0], neutral}
			}
		}
	}
	return all
})

// knownFields caches the results of fieldsOf by type.
var knownFields sync.Map

// fieldsOf returns the JSON names of a struct's fields in lower case, each with the struct that reads it, or nil.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if known, ok := knownFields.Load(t); ok {
		return known.(map[string]reflect.Type)
	}
	known := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			known[strings.ToLower(name)] = structOf(f.Type)
		}
	}
	if h, ok := reflect.New(t).Interface().(Holder); ok {
		for name, object := range h.Objects() {
			known[name] = structOf(reflect.TypeOf(object))
		}
	}
	knownFields.Store(t, known)
	return known
}

// structOf returns the struct of a type, or nil.
func structOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

func (u *Unread) unread() *Unread { return u }

// look collects the members of the object at path that are not fields of a struct, and those of the objects in it.
func (u *Unread) look(path string, object []byte, known map[string]reflect.Type) {
	for name, value := range Members(object) {
		name = Clip(name)
		lower := strings.ToLower(strings.ToUpper(name)) // package json matches names like this
		t, ok := known[lower]
		at := path + name
		w := cmp.Or(words()[lower], words()[strings.ToLower(at)])
		switch {
		case ok && t != nil:
			u.look(at+".", value, fieldsOf(t))
		case ok, w.means == "silent", empty(value), w.neutral != "" && w.neutral == strings.TrimSuffix(string(value), ".0"):
		case w.means == "object" && path == "" && Is(value, '{'):
			u.look(at+".", value, nil)
		case slices.ContainsFunc(u.members, func(m member) bool { return m.path == at }):
		case len(u.members) == maxUnread:
			u.more++
		default:
			u.members = append(u.members, member{at, lower, near(lower, known)})
		}
	}
}

// empty reports whether a value of an unknown field counts as left out.
func empty(value json.RawMessage) bool {
	return !Given(value) || slices.Contains([]string{`""`, "[]", "{}"}, string(value))
}

// near returns the field that a name is most like, or an empty string: one that at most two letters make of it.
func near(name string, known map[string]reflect.Type) (best string) {
	least := min(3, (len(name)+2)/3)
	for field := range known {
		if d := hint.Distance(name, field); d < least || d == least && field < best {
			best, least = field, d
		}
	}
	return best
}

// Warn adds a warning about each member. own are the format's names of the fields of a [generation.Request].
func (u *Unread) Warn(to *Warnings, own map[string]string) {
	for _, m := range u.members {
		text := m.path + ": this field is not known here and has no effect"
		switch use := own[words()[m.name].means]; {
		case use != "":
			text += "; use " + use
		case m.near != "":
			text += "; did you mean " + m.near + "?"
		}
		to.Add(CodeIgnored, text)
	}
	if u.more > 0 {
		to.Add(CodeIgnored, fmt.Sprintf("%d more fields are not known here and have no effect", u.more))
	}
}
