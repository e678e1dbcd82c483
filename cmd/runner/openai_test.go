package main

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

// official returns OpenAI's client for a server, and the number of its requests.
func official(s *serving) (openai.Client, *atomic.Int64) {
	made := new(atomic.Int64)
	return openai.NewClient(option.WithBaseURL(s.url+"/v1/"), option.WithAPIKey("none"),
		option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			made.Add(1)
			return next(r)
		})), made
}

const sum = "What is 17 + 25?"

// TestOfficialClientChats: the official Go client gets the right answer of the bundled model. A stream gives the same
// answer, even a sampled one.
func TestOfficialClientChats(t *testing.T) {
	client, _ := official(serve(t))
	for _, temperature := range []float64{0, 0.9} {
		params := openai.ChatCompletionNewParams{Model: "demo", Seed: openai.Int(7), Temperature: openai.Float(temperature),
			Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(sum)}}
		whole, err := client.Chat.Completions.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		if text := whole.Choices[0].Message.Content; temperature == 0 && text != "17 + 25 = 42." {
			t.Errorf("%q", text)
		}
		params.StreamOptions.IncludeUsage = openai.Bool(true)
		stream := client.Chat.Completions.NewStreaming(t.Context(), params)
		var streamed openai.ChatCompletionAccumulator
		for stream.Next() {
			if !streamed.AddChunk(stream.Current()) {
				t.Fatalf("the client cannot add %s", stream.Current().RawJSON())
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		if !repeats(t) {
			continue
		}
		if a, b := whole.Choices[0], streamed.Choices[0]; a.Message.Content != b.Message.Content ||
			a.FinishReason != b.FinishReason || whole.Usage.CompletionTokens != streamed.Usage.CompletionTokens {
			t.Errorf("at temperature %v a stream is %+v, and the answer %+v", temperature, b, a)
		}
	}
}

// TestOfficialClientConverses continues a stored response. A stream gives the same result.
func TestOfficialClientConverses(t *testing.T) {
	client, _ := official(serve(t))
	ask := func(text, previous string) responses.ResponseNewParams {
		p := responses.ResponseNewParams{Model: "demo", Temperature: openai.Float(0),
			Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(text)}}
		if previous != "" {
			p.PreviousResponseID = openai.String(previous)
		}
		return p
	}
	first, err := client.Responses.New(t.Context(), ask(sum, ""))
	if err != nil {
		t.Fatal(err)
	}
	second, err := client.Responses.New(t.Context(), ask("Add 8 to that.", first.ID))
	if err != nil {
		t.Fatal(err)
	}
	if first.OutputText() != "17 + 25 = 42." || second.OutputText() != "42 + 8 = 50." {
		t.Errorf("%q, then %q", first.OutputText(), second.OutputText())
	}
	stream := client.Responses.NewStreaming(t.Context(), ask("Add 8 to that.", first.ID))
	var text strings.Builder
	for stream.Next() {
		if e := stream.Current(); e.Type == "response.output_text.delta" {
			text.WriteString(e.Delta)
		}
	}
	if err := stream.Err(); err != nil || text.String() != second.OutputText() {
		t.Errorf("the stream says %q, %v", text.String(), err)
	}
}

// TestOfficialClientDoesNotRetryTimeouts: by default the client repeats failed requests, but the server tells it
// not to repeat a run that timed out.
func TestOfficialClientDoesNotRetryTimeouts(t *testing.T) {
	client, made := official(serve(t, "--request-timeout", "1ms"))
	_, err := client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{Model: "demo",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(sum)}})
	var refused *openai.Error
	if !errors.As(err, &refused) || refused.Code != "request_timeout" {
		t.Errorf("%v", err)
	}
	if n := made.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}
