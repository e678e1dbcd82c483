package families_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"runner/chattemplate"
	"runner/chattemplate/reader"
	"runner/chattemplate/readertest"
)

// recoveries says how malformed harmony output is read, one case for each way to break the format.
var recoveries = []struct {
	name, in string
	start    chattemplate.Start
	tools    []string
	want     string
}{
	{name: "well_formed",
		in:   `<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>final<|message|>Hi.<|return|>`,
		want: `reasoning "Think." | answer "Hi."`},
	{name: "several_messages",
		in: `<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>commentary<|message|>Look:<|end|>` +
			`<|start|>assistant<|channel|>analysis<|message|>B<|end|><|start|>assistant<|channel|>commentary to=functions.f ` +
			`<|constrain|>json<|message|>{"a":1}<|call|>`,
		want: `reasoning "A" | preamble "Look:" | reasoning "B" | call f "{\"a\":1}"`},
	{name: "starts_in_answer", start: chattemplate.StartAnswer, in: `Hi.<|return|>`, want: `answer "Hi."`},
	{name: "starts_in_reasoning", start: chattemplate.StartReasoning,
		in:   `Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hi.<|return|>`,
		want: `reasoning "Hm." | answer "Hi."`},
	{name: "recipient_before_channel", in: ` to=functions.f<|channel|>commentary <|constrain|>json<|message|>{}<|call|>`,
		want: `call f "{}"`},
	{name: "recipient_after_channel", in: `<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>`,
		want: `call f "{}"`},
	{name: "constrain_glued_to_recipient",
		in: `<|channel|>commentary to=functions.f<|constrain|>json<|message|>{}<|call|>`, want: `call f "{}"`},
	{name: "constrain_missing", in: `<|channel|>commentary to=functions.f<|message|>{}<|call|>`, want: `call f "{}"`},
	{name: "bare_json", in: `<|channel|>commentary to=functions.f json<|message|>{}<|call|>`, want: `call f "{}"`},
	{name: "functions_prefix_missing", tools: []string{"f"}, in: `<|channel|>commentary to=f<|message|>{}<|call|>`,
		want: `call f "{}"`},
	{name: "unknown_recipient", tools: []string{"f"}, in: `<|channel|>commentary to=functions.g<|message|>{}<|call|>`,
		want: `!unknown_function | call g "{}"`},
	{name: "name_in_any_language", tools: []string{"gr", "größe"},
		in: `<|channel|>commentary to=functions.größe json<|message|>{}<|call|>`, want: `call größe "{}"`},
	{name: "name_before_the_channel", tools: []string{"größe"},
		in: ` to=functions.größe<|channel|>commentary<|message|>{}<|call|>`, want: `call größe "{}"`},
	{name: "name_of_odd_characters", tools: []string{"f(x)+1"},
		in: `<|channel|>commentary to=f(x)+1 code<|message|>{}<|call|>`, want: `call f(x)+1 "{}"`},
	{name: "long_name", tools: []string{strings.Repeat("ab", 128)}, in: `<|channel|>commentary to=functions.` +
		strings.Repeat("ab", 128) + `<|message|>{}<|call|>`,
		want: `call ` + strings.Repeat("ab", 128) + ` "{}"`},
	{name: "builtin_recipient", tools: []string{"f"},
		in: `<|channel|>analysis to=browser.search code<|message|>{}<|call|>`, want: `call browser.search "{}"`},
	{name: "recipient_on_final", in: `<|channel|>final to=functions.f<|message|>{}<|call|>`,
		want: `!recipient_in_final | call f "{}"`},
	{name: "recipient_is_user", in: `<|channel|>final to=user<|message|>Hi<|return|>`,
		want: `!unknown_recipient | answer "Hi"`},
	{name: "recipient_after_space", in: `<|channel|>commentary to= functions.f<|message|>{}<|call|>`,
		want: `!malformed_header | call f "{}"`},
	{name: "message_missing_after_channel",
		in:   `<|channel|>analysis I must refuse<|end|><|start|>assistant<|channel|>final<|message|>No.<|return|>`,
		want: `!missing_message | reasoning "I must refuse" | answer "No."`},
	{name: "message_missing_in_call", in: `<|channel|>commentary to=functions.f json{"a":1}<|call|>`,
		want: `!missing_message | call f "{\"a\":1}"`},
	{name: "message_missing_in_call_with_constrain",
		in:   `<|channel|>commentary to=functions.f <|constrain|>json {"a":1}<|call|>`,
		want: `!missing_message | call f "{\"a\":1}"`},
	{name: "message_missing_one_word", in: `<|channel|>final Yes<|return|>`, want: `!missing_message | answer "Yes"`},
	{name: "message_missing_json_answer", in: `<|channel|>final {"a":1}<|return|>`,
		want: `!missing_message | answer "{\"a\":1}"`},
	{name: "message_missing_no_text", in: `<|channel|>final<|return|>`, want: `!missing_message`},
	{name: "stray_commentary_before_start",
		in:   `<|channel|>analysis<|message|>A<|end|>commentary<|start|>assistant<|channel|>final<|message|>B<|return|>`,
		want: `reasoning "A" | !malformed_header | answer "B"`},
	{name: "stray_commentary_without_start",
		in:   `<|channel|>analysis<|message|>A<|end|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>`,
		want: `reasoning "A" | !missing_start | !missing_channel | call f "{}"`},
	{name: "stray_commentary_glued_to_role",
		in:   `<|channel|>analysis<|message|>A<|end|><|start|>assistantcommentary to=functions.f<|message|>{}<|call|>`,
		want: `reasoning "A" | !missing_channel | call f "{}"`},
	{name: "stray_commentary_after_channel", in: `<|channel|>analysis commentary to=functions.f<|message|>{}<|call|>`,
		want: `!malformed_header | call f "{}"`},
	{name: "stray_commentary_glued_to_channel", in: `<|channel|>analysiscommentary to=functions.f<|message|>{}<|call|>`,
		want: `!malformed_header | call f "{}"`},
	{name: "json_glued_to_channel", in: `<|channel|>commentaryjson to=functions.f<|message|>{}<|call|>`,
		want: `!malformed_header | call f "{}"`},
	{name: "channel_without_its_token", in: `final<|message|>Hi<|return|>`, want: `!missing_channel | answer "Hi"`},
	{name: "channel_missing", in: `<|message|>Hi<|return|>`, want: `!bare_body | answer "Hi"`},
	{name: "channel_empty", in: `<|channel|><|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>Hi<|return|>`,
		want: `!empty_channel | reasoning "Hm" | answer "Hi"`},
	{name: "channel_unknown",
		in:   `<|channel|>secret<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>Hi<|return|>`,
		want: `!unknown_channel | reasoning "Hm" | answer "Hi"`},
	{name: "channel_in_capitals", in: `<|channel|>Final<|message|>Hi<|return|>`, want: `!malformed_header | answer "Hi"`},
	{name: "channel_doubled", in: `<|channel|>analysis<|channel|>final<|message|>Hi<|return|>`,
		want: `!doubled_channel | answer "Hi"`},
	{name: "channel_token_doubled", in: `<|channel|><|channel|>final<|message|>Hi<|return|>`,
		want: `!doubled_channel | answer "Hi"`},
	{name: "start_doubled",
		in:   `<|channel|>analysis<|message|>A<|end|><|start|><|start|>assistant<|channel|>final<|message|>Hi<|return|>`,
		want: `reasoning "A" | !doubled_start | answer "Hi"`},
	{name: "start_doubled_with_role",
		in: `<|channel|>analysis<|message|>A<|end|><|start|>assistant` +
			`<|start|>assistant<|channel|>final<|message|>Hi<|return|>`,
		want: `reasoning "A" | !doubled_start | answer "Hi"`},
	{name: "start_repeated_after_prompt", in: `<|start|>assistant<|channel|>final<|message|>Hi<|return|>`,
		want: `!doubled_start | answer "Hi"`},
	{name: "role_repeated_after_prompt", in: `assistant<|channel|>final<|message|>Hi<|return|>`,
		want: `!malformed_header | answer "Hi"`},
	{name: "start_missing", in: `<|channel|>analysis<|message|>A<|end|><|channel|>final<|message|>Hi<|return|>`,
		want: `reasoning "A" | !missing_start | answer "Hi"`},
	{name: "start_missing_with_role",
		in:   `<|channel|>analysis<|message|>A<|end|>assistant<|channel|>final<|message|>Hi<|return|>`,
		want: `reasoning "A" | !missing_start | answer "Hi"`},
	{name: "end_missing", in: `<|channel|>analysis<|message|>A<|start|>assistant<|channel|>final<|message|>Hi<|return|>`,
		want: `!missing_end | reasoning "A" | answer "Hi"`},
	{name: "end_and_start_missing", in: `<|channel|>analysis<|message|>A<|channel|>final<|message|>Hi<|return|>`,
		want: `!missing_end | reasoning "A" | !missing_start | answer "Hi"`},
	{name: "bare_answer", in: `It is 42.<|return|>`, want: `!bare_body | answer "It is 42."`},
	{name: "bare_answer_that_begins_like_a_header", in: `final answer is 42<|return|>`,
		want: `!bare_body | answer "final answer is 42"`},
	{name: "bare_answer_after_reasoning", in: `<|channel|>analysis<|message|>A<|end|>The answer is 42.<|return|>`,
		want: `reasoning "A" | !bare_body | answer "The answer is 42."`},
	{name: "bare_answer_as_role", in: `<|channel|>analysis<|message|>A<|end|><|start|>It is 42.<|return|>`,
		want: `reasoning "A" | !bare_body | answer "It is 42."`},
	{name: "text_in_place_of_channel",
		in:   `<|channel|>I think so.<|end|><|start|>assistant<|channel|>final<|message|>Yes<|return|>`,
		want: `!missing_message | !empty_channel | reasoning "I think so." | answer "Yes"`},
	{name: "foreign_role",
		in: `<|channel|>analysis<|message|>A<|end|><|start|>user<|message|>Hello<|end|>` +
			`<|start|>assistant<|channel|>final<|message|>Hi<|return|>`,
		want: `reasoning "A" | !foreign_role | reasoning "Hello" | answer "Hi"`},
	{name: "control_token_in_text", in: `<|channel|>final<|message|>H<|message|>i<|constrain|>!<|return|>`,
		want: `!stray_control | answer "Hi!"`},
	{name: "return_after_end", in: `<|channel|>final<|message|>Hi<|end|><|return|>`, want: `answer "Hi" | !stray_control`},
	{name: "call_without_recipient", in: `<|channel|>commentary<|message|>Hi<|call|>`,
		want: `!call_without_recipient | preamble "Hi"`},
	{name: "end_of_text_in_reasoning", in: `<|channel|>analysis<|message|>A<|endoftext|>`, want: `reasoning "A"`},
	{name: "stream_ends_in_header", in: `<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>fin`,
		want: `reasoning "A" | !unfinished_header | !empty_channel | reasoning "fin"`},
	{name: "stream_ends_after_channel", in: `<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>final`,
		want: `reasoning "A" | !unfinished_header`},
	{name: "stream_ends_in_text", in: `<|channel|>final<|message|>Hi`, want: `answer "Hi"`},
	{name: "stream_is_empty", in: ``, want: ``},
	{name: "newline_between_messages",
		in:   "<|channel|>analysis<|message|>A<|end|>\n<|start|>assistant<|channel|>final<|message|>Hi<|return|>",
		want: `reasoning "A" | answer "Hi"`},
	{name: "names_of_tokens_as_text", in: "<|channel|>final<|message|><|im_end|> \\<|\u200bend|><|return|>",
		want: "answer \"<|im_end|> \\\\<|\\u200bend|>\""},
}

func TestRecoveries(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range recoveries {
		t.Run(c.name, func(t *testing.T) {
			for name, cut := range map[string]func(string) []string{"words": readertest.ByWords, "bytes": readertest.ByBytes,
				"random": readertest.Random(r),
				"whole":  readertest.Whole} {
				x := readertest.HarmonyLexicon()
				tokens := x.Encode(c.in, cut)
				cfg := readertest.Config{Format: readertest.HarmonyFormat, Config: reader.Config{Vocab: x.Vocab(t), Start: c.start,
					Tools: c.tools}}
				events := readertest.Read(t, cfg, tokens)
				if got := readertest.Show(events); got != c.want {
					t.Errorf("cut by %s:\n got %s\nwant %s", name, got, c.want)
				}
			}
		})
	}
}
