package openai

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/shared"

	"runner/backend"
	"runner/backend/fake"
	"runner/server/wiretest"
)

// These tests use the official client, to find what it cannot read.

// client returns the official client for a fixture.
func (f *fixture) client() sdk.Client {
	return sdk.NewClient(option.WithBaseURL(f.url+"/v1/"), option.WithAPIKey("none"), option.WithMaxRetries(0))
}

func params(question string) sdk.ChatCompletionNewParams {
	return sdk.ChatCompletionNewParams{Model: wiretest.Name, Messages: []sdk.ChatCompletionMessageParamUnion{
		sdk.DeveloperMessage("Be short."), sdk.SystemMessage("Be kind."), sdk.UserMessage(question),
	}, Seed: sdk.Int(7)}
}

// accumulate reads a stream to its end.
func accumulate(t *testing.T, s *ssestream.Stream[sdk.ChatCompletionChunk]) *sdk.ChatCompletionAccumulator {
	t.Helper()
	acc := &sdk.ChatCompletionAccumulator{}
	for s.Next() {
		if !acc.AddChunk(s.Current()) {
			t.Fatalf("the accumulator refuses %s", s.Current().RawJSON())
		}
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return acc
}

func TestClientChat(t *testing.T) {
	f := start(t, Config{}, nil, say("2+2?", "two and two", "It is \"4\" \u2028 🙂."))
	c := f.client()
	whole, err := c.Chat.Completions.New(t.Context(), params("2+2?"))
	if err != nil {
		t.Fatal(err)
	}
	p := params("2+2?")
	p.StreamOptions.IncludeUsage = sdk.Bool(true)
	acc := accumulate(t, c.Chat.Completions.NewStreaming(t.Context(), p))
	const want = "It is \"4\" \u2028 🙂."
	if whole.Choices[0].Message.Content != want || acc.Choices[0].Message.Content != want {
		t.Errorf("got %q and %q", whole.Choices[0].Message.Content, acc.Choices[0].Message.Content)
	}
	if whole.Choices[0].FinishReason != "stop" || acc.Choices[0].FinishReason != "stop" ||
		string(acc.Choices[0].Message.Role) != "assistant" || acc.Model != wiretest.Name {
		t.Errorf("whole %s", whole.RawJSON())
	}
	u, v := whole.Usage, acc.Usage
	if u.PromptTokens != v.PromptTokens || u.CompletionTokens != v.CompletionTokens || u.TotalTokens != u.PromptTokens+
		u.CompletionTokens ||
		u.CompletionTokensDetails.ReasoningTokens == 0 || v.PromptTokensDetails.CachedTokens == 0 {
		t.Errorf("usage is %s and %s", u.RawJSON(), v.RawJSON())
	}
}

// Fields that the client does not know are available as extra fields.
func TestClientReasoning(t *testing.T) {
	f := start(t, Config{}, nil, say("2+2?", "two and two", "4"))
	c := f.client()
	whole, err := c.Chat.Completions.New(t.Context(), params("2+2?"), option.WithJSONSet("reasoning", "full"))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"reasoning", "reasoning_content"} {
		if got := whole.Choices[0].Message.JSON.ExtraFields[field].Raw(); got != `"two and two"` {
			t.Errorf("%s is %s", field, got)
		}
	}
	if got := whole.JSON.ExtraFields["reasoning_info"].Raw(); !strings.Contains(got, `"seed":7`) ||
		!strings.Contains(got, `"visibility":"full"`) {
		t.Errorf("reasoning_info is %s", got)
	}
	p := params("2+2?")
	p.ReasoningEffort = shared.ReasoningEffortLow
	s := c.Chat.Completions.NewStreaming(t.Context(), p, option.WithJSONSet("include_reasoning", true))
	var thoughts strings.Builder
	for s.Next() {
		var d struct {
			Reasoning string `json:"reasoning_content"`
		}
		for _, choice := range s.Current().Choices {
			_ = json.Unmarshal([]byte(choice.Delta.RawJSON()), &d)
			thoughts.WriteString(d.Reasoning)
		}
	}
	if s.Err() != nil || thoughts.String() != "two and two" {
		t.Errorf("%q, %v", thoughts.String(), s.Err())
	}
}

func TestClientTools(t *testing.T) {
	f := start(t, Config{}, nil,
		fake.Reply{After: wiretest.Ask("weather?"), Say: wiretest.Call("look it up", "Let me look.", "weather",
			`{"city": "Köln"}`)},
		fake.Reply{After: "sunny<|end|><|start|>assistant", Say: wiretest.Think("", "It is sunny.")})
	c := f.client()
	p := params("weather?")
	p.Tools = []sdk.ChatCompletionToolUnionParam{sdk.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "weather", Description: sdk.String("Tells the weather."),
		Parameters: shared.FunctionParameters{"type": "object",
			"properties": map[string]any{"city": map[string]any{"type": "string"}}},
	}), sdk.ChatCompletionCustomTool(sdk.ChatCompletionCustomToolCustomParam{Name: "other"})}
	p.ParallelToolCalls = sdk.Bool(false)
	acc := &sdk.ChatCompletionAccumulator{}
	finished := ""
	s := c.Chat.Completions.NewStreaming(t.Context(), p)
	for s.Next() {
		if !acc.AddChunk(s.Current()) {
			t.Fatalf("the accumulator refuses %s", s.Current().RawJSON())
		}
		if call, ok := acc.JustFinishedToolCall(); ok {
			finished = call.Name + call.Arguments
		}
		if content, ok := acc.JustFinishedContent(); ok && content != "Let me look." {
			t.Errorf("content ended as %q", content)
		}
	}
	if s.Err() != nil || finished != `weather{"city": "Köln"}` || acc.Choices[0].FinishReason != "tool_calls" {
		t.Fatalf("%v, finished %q", s.Err(), finished)
	}
	whole, err := c.Chat.Completions.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	m := whole.Choices[0].Message
	if m.Content != "Let me look." || len(m.ToolCalls) != 1 ||
		m.ToolCalls[0].Function.Arguments != acc.Choices[0].Message.ToolCalls[0].Function.Arguments {
		t.Errorf("streamed %s, whole %s", acc.Choices[0].Message.ToolCalls[0].RawJSON(), m.RawJSON())
	}
	if w := whole.JSON.ExtraFields["warnings"].Raw(); w != "" {
		t.Errorf("warnings are %s", w)
	}
	p.Messages = append(p.Messages, m.ToParam(), sdk.ToolMessage("sunny", m.ToolCalls[0].ID))
	answer, err := c.Chat.Completions.New(t.Context(), p)
	if err != nil || answer.Choices[0].Message.Content != "It is sunny." {
		t.Errorf("%v, %v", err, answer)
	}
	p.ToolChoice = sdk.ChatCompletionToolChoiceOptionUnionParam{OfAuto: sdk.String("none")}
	if _, err := c.Chat.Completions.New(t.Context(), p); err != nil {
		t.Error(err)
	}
}

func TestClientStructuredOutputs(t *testing.T) {
	f := startModel(t, Config{}, nil, fake.Config{})
	c := f.client()
	p := params("who?")
	p.ReasoningEffort = "none"
	p.MaxCompletionTokens = sdk.Int(600)
	schema := map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"grown", "kind"},
		"properties": map[string]any{"grown": map[string]any{"type": "boolean"},
			"kind": map[string]any{"enum": []string{"cat", "dog"}}},
	}
	p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
		JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
			Name: "person", Strict: sdk.Bool(true), Schema: schema,
		},
	}
	for seed := range int64(3) {
		p.Seed = sdk.Int(seed)
		answer, err := c.Chat.Completions.New(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		var v struct {
			Grown *bool
			Kind  string
		}
		if err := json.Unmarshal([]byte(answer.Choices[0].Message.Content), &v); err != nil || v.Grown == nil ||
			v.Kind != "cat" && v.Kind != "dog" {
			t.Errorf("%v in %q", err, answer.Choices[0].Message.Content)
		}
	}
	p.ResponseFormat.OfJSONSchema.JSONSchema.Schema = map[string]any{"type": "array", "uniqueItems": true,
		"items": map[string]any{}}
	_, err := c.Chat.Completions.New(t.Context(), p)
	var e *sdk.Error
	if !errors.As(err, &e) || e.StatusCode != http.StatusBadRequest || e.Param != "response_format" ||
		!strings.Contains(e.Message, "uniqueItems") {
		t.Errorf("%v: %s", err, e.RawJSON())
	}
}

func TestClientLogprobs(t *testing.T) {
	f := start(t, Config{}, nil, say("q", "hidden", "so it is"))
	p := params("q")
	p.Logprobs, p.TopLogprobs = sdk.Bool(true), sdk.Int(3)
	c := f.client()
	whole, err := c.Chat.Completions.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	acc := accumulate(t, c.Chat.Completions.NewStreaming(t.Context(), p))
	list, streamed := whole.Choices[0].Logprobs.Content, acc.Choices[0].Logprobs.Content
	text := ""
	for i := range list {
		text += list[i].Token
		if math.Exp(list[i].Logprob) > 1 || len(list[i].TopLogprobs) != 3 || list[i].Token != streamed[i].Token ||
			list[i].Logprob != streamed[i].Logprob {
			t.Errorf("%s, streamed %s", list[i].RawJSON(), streamed[i].RawJSON())
		}
	}
	if text != "so it is" || len(list) != len(streamed) {
		t.Errorf("log probabilities are of %q", text)
	}
}

func TestClientErrors(t *testing.T) {
	nobody := wiretest.Anyone()
	nobody.Scopes, nobody.Reasoning = nil, 0
	f := start(t, Config{}, nil)
	c := f.client()
	check := func(name string, err error, status int, kind, code, param string) {
		t.Helper()
		var e *sdk.Error
		if !errors.As(err, &e) || e.StatusCode != status || e.Type != kind || e.Code != code || e.Param != param ||
			e.Message == "" {
			t.Errorf("%s: %v: %s", name, err, e.RawJSON())
		}
	}
	p := params("q")
	p.Model = "other"
	_, err := c.Chat.Completions.New(t.Context(), p)
	check("an unknown model", err, http.StatusNotFound, "not_found_error", "model_not_found", "model")
	p = params("q")
	p.Temperature = sdk.Float(-1)
	_, err = c.Chat.Completions.New(t.Context(), p)
	check("a value out of range", err, http.StatusBadRequest, "invalid_request_error", "invalid_value", "temperature")
	s := c.Chat.Completions.NewStreaming(t.Context(), p)
	for s.Next() {
	}
	check("a stream", s.Err(), http.StatusBadRequest, "invalid_request_error", "invalid_value", "temperature")
	p = params("q")
	p.Messages = []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage([]sdk.ChatCompletionContentPartUnionParam{
		sdk.TextContentPart("a"), sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: "data:,"}),
	})}
	_, err = c.Chat.Completions.New(t.Context(), p)
	check("an image", err, http.StatusBadRequest, "invalid_request_error", "unsupported_value",
		"messages[0].content[1].image_url")
	closed := start(t, Config{}, nobody).client()
	_, err = closed.Models.List(t.Context())
	check("a key without scopes", err, http.StatusForbidden, "permission_error", "permission_denied", "")
}

// An error in the middle of a stream is returned to the program.
func TestClientErrorInStream(t *testing.T) {
	f := startModel(t, Config{}, nil, fake.Config{
		Script: fake.Replies(fake.Harmony(), say("q", "", strings.Repeat("on ", 100))),
		Fail: func(step int, _ []backend.Input) error {
			if step > 9 {
				return errors.New("broken")
			}
			return nil
		},
	})
	c := f.client()
	s := c.Chat.Completions.NewStreaming(t.Context(), params("q"))
	n := 0
	for s.Next() {
		n++
	}
	if s.Err() == nil || n < 2 || !strings.Contains(s.Err().Error(), "internal_error") {
		t.Errorf("%d chunks, then %v", n, s.Err())
	}
}

func TestClientCancels(t *testing.T) {
	f := startModel(t, Config{}, nil, fake.Config{
		Script: fake.Replies(fake.Harmony(), say("q", "", strings.Repeat("on ", 2000))),
		Delay:  func(int) time.Duration { return time.Millisecond },
	})
	c := f.client()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := c.Chat.Completions.NewStreaming(ctx, params("q"))
	for n := 0; n < 5 && s.Next(); n++ {
	}
	cancel()
	for s.Next() {
	}
	if !errors.Is(s.Err(), context.Canceled) {
		t.Errorf("the stream ends with %v", s.Err())
	}
	for deadline := time.Now().Add(5 * time.Second); !f.models.Idle(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the request still holds its model")
		}
	}
}

func TestClientChoices(t *testing.T) {
	f := startModel(t, Config{}, nil, fake.Config{})
	c := f.client()
	p := params("q")
	p.N, p.Temperature, p.MaxTokens, p.ReasoningEffort = sdk.Int(3), sdk.Float(1), sdk.Int(10), "none"
	whole, err := c.Chat.Completions.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	acc := accumulate(t, c.Chat.Completions.NewStreaming(t.Context(), p))
	if len(whole.Choices) != 3 || len(acc.Choices) != 3 {
		t.Fatalf("%d and %d choices", len(whole.Choices), len(acc.Choices))
	}
	for i := range 3 {
		if whole.Choices[i].Message.Content != acc.Choices[i].Message.Content || acc.Choices[i].FinishReason == "" {
			t.Errorf("choice %d: %q, streamed %q", i, whole.Choices[i].Message.Content, acc.Choices[i].Message.Content)
		}
	}
}

func TestClientOthers(t *testing.T) {
	f := start(t, Config{}, nil, fake.Reply{After: "once", Say: " upon<|return|>"})
	c := f.client()
	text := sdk.CompletionNewParams{Model: wiretest.Name,
		Prompt: sdk.CompletionNewParamsPromptUnion{OfString: sdk.String("once")}, Logprobs: sdk.Int(2), Seed: sdk.Int(1)}
	whole, err := c.Completions.New(t.Context(), text)
	if err != nil || whole.Choices[0].Text != " upon" || len(whole.Choices[0].Logprobs.Tokens) == 0 ||
		whole.Choices[0].FinishReason != "stop" {
		t.Fatalf("%v, %v", err, whole)
	}
	s := c.Completions.NewStreaming(t.Context(), text)
	streamed := ""
	for s.Next() {
		streamed += s.Current().Choices[0].Text
	}
	if s.Err() != nil || streamed != " upon" {
		t.Errorf("%q, %v", streamed, s.Err())
	}
	vectors, err := c.Embeddings.New(t.Context(), sdk.EmbeddingNewParams{Model: wiretest.Name,
		Input: sdk.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", "b"}}})
	if err != nil || len(vectors.Data) != 2 || len(vectors.Data[1].Embedding) == 0 || vectors.Usage.TotalTokens == 0 {
		t.Errorf("%v, %v", err, vectors)
	}
	models, err := c.Models.List(t.Context())
	if err != nil || len(models.Data) != 1 || models.Data[0].ID != wiretest.Name {
		t.Errorf("%v, %v", err, models)
	}
	if m, err := c.Models.Get(t.Context(), wiretest.Name); err != nil || m.ID != wiretest.Name || m.OwnedBy == "" {
		t.Errorf("%v, %v", err, m)
	}
}
