package responses

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"runner/backend/fake"
	"runner/server/wiretest"
)

func ask(text string) responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model: wiretest.Name, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(text)},
		Temperature: openai.Float(0),
	}
}

func TestClient(t *testing.T) {
	f := start(t, Config{}, fake.Config{})
	request := ask(question)
	request.Reasoning = shared.ReasoningParam{Summary: shared.ReasoningSummaryConcise, Effort: shared.ReasoningEffortLow}
	got, err := f.client.Responses.New(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if got.OutputText() != answer || got.Status != responses.ResponseStatusCompleted || len(got.Output) != 2 ||
		got.Output[0].AsReasoning().Summary[0].Text != brief ||
		got.Reasoning.Effort != shared.ReasoningEffortLow || got.Usage.OutputTokensDetails.ReasoningTokens == 0 ||
		got.Output[1].AsMessage().Phase != "final_answer" {
		t.Errorf("response %s", got.RawJSON())
	}
	again, err := f.client.Responses.Get(t.Context(), got.ID, responses.ResponseGetParams{})
	if err != nil || again.OutputText() != answer {
		t.Errorf("%v, %v", again, err)
	}
	pages := f.client.Responses.InputItems.ListAutoPaging(t.Context(), got.ID,
		responses.InputItemListParams{Limit: openai.Int(1)})
	n := 0
	for pages.Next() {
		n++
		if m := pages.Current().AsMessage(); m.Content[0].Text != question {
			t.Errorf("input item %v", pages.Current())
		}
	}
	if n != 1 || pages.Err() != nil {
		t.Errorf("%d input items, %v", n, pages.Err())
	}
	count, err := f.client.Responses.InputTokens.Count(t.Context(), responses.InputTokenCountParams{
		Input: responses.InputTokenCountParamsInputUnion{OfString: openai.String(question)}})
	if err != nil || count.InputTokens == 0 {
		t.Errorf("%v, %v", count, err)
	}
	if err := f.client.Responses.Delete(t.Context(), got.ID); err != nil {
		t.Error(err)
	}
	_, err = f.client.Responses.Get(t.Context(), got.ID, responses.ResponseGetParams{})
	var e *openai.Error
	if !errors.As(err, &e) || e.StatusCode != http.StatusNotFound || e.Code != "not_found" {
		t.Errorf("error %v", err)
	}
	request.Temperature = openai.Float(7)
	if _, err = f.client.Responses.New(t.Context(), request); !errors.As(err, &e) ||
		e.StatusCode != http.StatusBadRequest || e.Param != "temperature" {
		t.Errorf("error %v", err)
	}
}

func TestClientStreams(t *testing.T) {
	f := start(t, Config{}, fake.Config{})
	for name, more := range map[string][]option.RequestOption{
		"none": nil, "summary": {option.WithJSONSet("reasoning.summary", "auto")},
		"full": {option.WithJSONSet("reasoning", "full")},
	} {
		stream := f.client.Responses.NewStreaming(t.Context(), ask(question), more...)
		var deltas, thought, summary strings.Builder
		var last responses.Response
		for stream.Next() {
			switch e := stream.Current(); e.Type {
			case "response.output_text.delta":
				deltas.WriteString(e.AsResponseOutputTextDelta().Delta)
			case "response.reasoning_text.delta":
				thought.WriteString(e.AsResponseReasoningTextDelta().Delta)
			case "response.reasoning_summary_text.delta":
				summary.WriteString(e.AsResponseReasoningSummaryTextDelta().Delta)
			case "response.completed":
				last = e.AsResponseCompleted().Response
			}
		}
		if stream.Err() != nil {
			t.Fatal(stream.Err())
		}
		if deltas.String() != answer || last.OutputText() != answer || (thought.String() == thoughts) != (name == "full") ||
			(summary.String() == brief) != (name == "summary") {
			t.Errorf("%s: %q, %q, %q, %s", name, deltas.String(), thought.String(), summary.String(), last.RawJSON())
		}
	}
}

// The client's accumulator turns a stream into the same response as the server's.
func TestClientAccumulates(t *testing.T) {
	call := fake.Reply{After: wiretest.Ask("Call it."), Say: wiretest.Call(thoughts, "I look it up.", "look", `{"at":4}`)}
	f := start(t, Config{}, fake.Config{}, append(usual(), call)...)
	for _, more := range []object{{"reasoning": "summary"}, {"reasoning": "full"}, {"input": "Call it.", "tools": look}} {
		more["stream"] = true
		events := f.stream(t, "POST", "/v1/responses", body(t, more))
		var a responses.ResponseAccumulator
		for _, e := range events {
			e["stream_id"] = "s"
			var event responses.ResponsesServerEventUnion
			if err := json.Unmarshal([]byte(encode(t, e)), &event); err != nil {
				t.Fatal(err)
			}
			if err := a.AddEvent(event); err != nil {
				t.Fatalf("%v: %v", e["type"], err)
			}
		}
		final := events[len(events)-1]["response"].(object)
		snapshot := a.Snapshot()
		if len(snapshot.Output) != len(items(final)) {
			t.Fatalf("%d items, want %d", len(snapshot.Output), len(items(final)))
		}
		for i, got := range snapshot.Output {
			want := item(final, i)
			if got.ItemID != want["id"] || got.Type != want["type"] {
				t.Errorf("item %v, want %v", got, want)
			}
			if got.Type == typeMessage && got.Text[0] != partText(want, "content", 0) || got.Type == typeCall &&
				got.Arguments != want["arguments"] {
				t.Errorf("item %v, want %v", got, want)
			}
		}
	}
}

// A conversation with a call, with the client's types: with the store, and with the items sent by the client.
func TestClientCalls(t *testing.T) {
	f := start(t, Config{}, fake.Config{}, calling()...)
	request := ask("Call it.")
	request.Tools = []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{
		Name: "look", Parameters: map[string]any{"type": "object", "properties": map[string]any{},
			"additionalProperties": false}, Strict: openai.Bool(true)}}}
	request.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{OfToolChoiceMode: param.NewOpt(
		responses.ToolChoiceOptionsRequired)}
	request.ParallelToolCalls = openai.Bool(false)
	request.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	for _, stored := range []bool{true, false} {
		request.Store = openai.Bool(stored)
		first, err := f.client.Responses.New(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		call := first.Output[1].AsFunctionCall()
		output := responses.ResponseInputItemParamOfFunctionCallOutput("the sky")
		output.OfFunctionCallOutput.CallID = openai.String(call.CallID)
		next := ask("")
		next.Tools, next.Store = request.Tools, request.Store
		if stored {
			next.PreviousResponseID = openai.String(first.ID)
			next.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{output}}
		} else {
			reasoning, called := first.Output[0].AsReasoning().ToParam(), call.ToParam()
			next.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
				responses.ResponseInputItemParamOfMessage("Call it.", responses.EasyInputMessageRoleUser),
				{OfReasoning: &reasoning}, {OfFunctionCall: &called}, output}}
		}
		second, err := f.client.Responses.New(t.Context(), next)
		if err != nil {
			t.Fatal(err)
		}
		if second.OutputText() != "You see the sky." {
			t.Errorf("response %s", second.RawJSON())
		}
	}
}

func TestClientInTheBackground(t *testing.T) {
	f := start(t, Config{}, slowly(2_000_000))
	request := ask(question)
	request.Background = openai.Bool(true)
	made, err := f.client.Responses.New(t.Context(), request)
	if err != nil || made.Status != responses.ResponseStatusQueued {
		t.Fatalf("%v, %v", made, err)
	}
	got, err := f.client.Responses.Cancel(t.Context(), made.ID)
	if err != nil || got.Status != responses.ResponseStatusCancelled {
		t.Errorf("%v, %v", got, err)
	}
	stream := f.client.Responses.NewStreaming(t.Context(), request)
	id, seen := "", int64(-1)
	for stream.Next() {
		if e := stream.Current(); e.Type == "response.created" {
			id = e.AsResponseCreated().Response.ID
		} else if seen = e.SequenceNumber; e.Type == "response.output_text.delta" {
			break
		}
	}
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	rest := f.client.Responses.GetStreaming(t.Context(), id, responses.ResponseGetParams{StartingAfter: openai.Int(seen)})
	var last responses.ResponseStreamEventUnion
	for rest.Next() {
		seen++
		if last = rest.Current(); last.SequenceNumber != seen {
			t.Fatalf("event %d, want %d", last.SequenceNumber, seen)
		}
	}
	if rest.Err() != nil || last.Type != "response.completed" ||
		last.AsResponseCompleted().Response.OutputText() != answer {
		t.Errorf("%v, last event %s", rest.Err(), last.RawJSON())
	}
}
