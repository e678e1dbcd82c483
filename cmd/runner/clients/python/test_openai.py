"""Tests with OpenAI's package for Python: chat completions, embeddings and models."""

import asyncio
import json
import unittest
from typing import Annotated, Literal

import openai
from pydantic import BaseModel, Field

from server import AT_ADDRESS, Server, key_of, warm

QUESTION = {"role": "user", "content": "What is 17 + 25?"}
PLAIN = {"model": "demo", "temperature": 0, "messages": [QUESTION]}
# An answer that takes seconds, so that a client can leave it in time.
ENDLESS = {
    **PLAIN,
    "reasoning_effort": "none",
    "response_format": {
        "type": "json_schema",
        "json_schema": {
            "name": "numbers",
            "strict": True,
            "schema": {
                "type": "object",
                "properties": {"numbers": {"type": "array", "items": {"const": 1}, "minItems": 1000, "maxItems": 1000}},
                "required": ["numbers"],
                "additionalProperties": False,
            },
        },
    },
}
Operand = Annotated[int, Field(ge=0, le=999)]


def likely(logprobs):
    """Returns the part of log probabilities that is equal in two runs. The rest is rounding: the grouping of sums depends
    on what shares the step and the cache with a sequence."""
    return [(t.token, round(t.logprob, 1), len(t.top_logprobs)) for t in logprobs]


class Sum(BaseModel):
    steps: Annotated[list[Literal["ones", "tens"]], Field(max_length=2)]
    sum: Annotated[int, Field(ge=0, le=1998)]
    sure: bool | None


class add(BaseModel):
    """Adds two numbers."""

    a: Operand
    b: Operand


TOOL = openai.pydantic_function_tool(add)
# Without reasoning the model makes its call at once.
CALLING = {
    **PLAIN,
    "reasoning_effort": "none",
    "tools": [TOOL],
    "tool_choice": {"type": "function", "function": {"name": "add"}},
}


def counts(usage):
    """Returns the parts of usage that do not depend on the cache."""
    return usage.prompt_tokens, usage.completion_tokens, usage.total_tokens, usage.completion_tokens_details.reasoning_tokens


class OpenAITest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.stop)
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0, timeout=60)
        cls.addClassCleanup(cls.client.close)

    def create(self, **params):
        return self.client.chat.completions.create(**{**PLAIN, **params})

    def reasoning(self):
        return self.create(extra_body={"reasoning": "full"}).choices[0].message.reasoning

    def assert_hidden(self, dump):
        lines = [line for line in self.reasoning().split("\n") if len(line) > 8]
        self.assertGreater(len(lines), 1)
        for line in lines:
            self.assertNotIn(line, dump)

    def test_completion(self):
        c = self.create()
        self.assertEqual(c.choices[0].message.content, "17 + 25 = 42.")
        self.assertEqual(c.choices[0].finish_reason, "stop")
        self.assertEqual(c.usage.total_tokens, c.usage.prompt_tokens + c.usage.completion_tokens)
        self.assertGreater(c.usage.completion_tokens_details.reasoning_tokens, 10)
        self.assertRegex(c._request_id, "^req_")

    def test_stream_is_the_completion(self):
        for name, params in {
            "plain": {},
            "sampled": {"temperature": warm(0.9), "seed": 4},
            "full": {"seed": 4, "temperature": warm(0.9), "extra_body": {"reasoning": "full"}},
            "summary": {"extra_body": {"reasoning": "summary"}},
            "choices": {"temperature": warm(0.9), "seed": 4, "n": 2},
            "log probabilities": {"logprobs": True, "top_logprobs": 2},
            "stopped": {"stop": [" ="]},
            "cut off": {"max_completion_tokens": 20},
            "a schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "sum", "strict": True, "schema": TOOL["function"]["parameters"]}}},
        }.items():
            with self.subTest(name):
                whole = self.create(**params)
                joined, usage = {}, None
                for chunk in self.create(**params, stream=True, stream_options={"include_usage": True}):
                    usage = chunk.usage or usage
                    for choice in chunk.choices:
                        parts = joined.setdefault(choice.index, {"logprobs": []})
                        for field, text in choice.delta.model_dump(exclude_none=True, exclude={"role"}).items():
                            parts[field] = parts.get(field, "") + text
                        if choice.logprobs:
                            parts["logprobs"] += likely(choice.logprobs.content)
                        if choice.finish_reason:
                            parts["finish"] = choice.finish_reason
                self.assertEqual(counts(usage), counts(whole.usage))
                self.assertEqual(
                    joined,
                    {
                        c.index: {
                            **c.message.model_dump(exclude_none=True, exclude={"role"}),
                            "logprobs": likely(c.logprobs.content) if c.logprobs else [],
                            "finish": c.finish_reason,
                        }
                        for c in whole.choices
                    },
                )

    def test_stream_helper(self):
        with self.client.chat.completions.stream(**CALLING) as stream:
            done = [e for e in stream if e.type == "tool_calls.function.arguments.done"]
            final = stream.get_final_completion()
        self.assertEqual([e.name for e in done], ["add"])
        self.assertIsInstance(final.choices[0].message.tool_calls[0].function.parsed_arguments, add)

    def test_visibility(self):
        reasoning = self.reasoning()
        self.assertIn("17 and 25", reasoning)
        message = self.create(extra_body={"reasoning": "summary"}).choices[0].message
        self.assertTrue(message.reasoning_summary)
        self.assert_hidden(message.model_dump_json())
        for body in ({}, {"reasoning": "none"}, {"include_reasoning": False}, {"reasoning": {"exclude": True}}):
            c = self.create(extra_body=body, logprobs=True, top_logprobs=5)
            self.assertFalse({"reasoning", "reasoning_content", "reasoning_summary"} & c.choices[0].message.model_fields_set)
            self.assert_hidden(c.model_dump_json())
            fields = {}
            for chunk in self.create(extra_body=body, stream=True):
                for field, text in chunk.choices[0].delta.model_dump(exclude_none=True).items():
                    fields[field] = fields.get(field, "") + text
            self.assertEqual(fields, {"role": "assistant", "content": "17 + 25 = 42."})

    def test_effort(self):
        count = lambda effort: self.create(reasoning_effort=effort).usage.completion_tokens_details.reasoning_tokens
        self.assertEqual(count("none"), 0)
        self.assertLess(count("low"), count("high"))

    def test_log_probabilities(self):
        choice = self.create(logprobs=True, top_logprobs=2).choices[0]
        self.assertEqual("".join(t.token for t in choice.logprobs.content), choice.message.content)
        for t in choice.logprobs.content:
            self.assertEqual(len(t.top_logprobs), 2)
            self.assertLessEqual(t.logprob, 0)

    def test_parse(self):
        c = self.client.chat.completions.parse(**PLAIN, response_format=Sum)
        self.assertIsInstance(c.choices[0].message.parsed, Sum)
        with self.client.chat.completions.stream(**PLAIN, response_format=Sum) as stream:
            for _ in stream:
                pass
            self.assertEqual(stream.get_final_completion().choices[0].message.parsed, c.choices[0].message.parsed)

    def test_parse_that_was_cut(self):
        with self.assertRaises(openai.LengthFinishReasonError):
            self.client.chat.completions.parse(**PLAIN, response_format=Sum, max_tokens=3)

    def test_json_object(self):
        c = self.create(response_format={"type": "json_object"}, max_tokens=200)
        self.assertTrue(c.choices[0].message.content.startswith("{"))
        if c.choices[0].finish_reason == "stop":
            self.assertIsInstance(json.loads(c.choices[0].message.content), dict)

    def test_call_and_its_result(self):
        c = self.client.chat.completions.parse(**CALLING)
        self.assertEqual(c.choices[0].finish_reason, "tool_calls")
        call = c.choices[0].message.tool_calls[0]
        self.assertIsInstance(call.function.parsed_arguments, add)
        messages = [QUESTION, c.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "42"}]
        after = self.client.chat.completions.create(**{**CALLING, "tool_choice": "none", "messages": messages})
        self.assertTrue(after.choices[0].message.content)

    def test_conversation(self):
        first = self.create()
        second = self.create(messages=[QUESTION, first.choices[0].message, {"role": "user", "content": "What is 532 - 187?"}])
        self.assertEqual(second.choices[0].message.content, "532 - 187 = 345.")
        self.assertGreater(second.usage.prompt_tokens_details.cached_tokens, 0)

    def test_errors(self):
        for params, kind, param in (
            ({"model": "none"}, openai.NotFoundError, "model"),
            ({"temperature": -1}, openai.BadRequestError, "temperature"),
            ({"messages": []}, openai.BadRequestError, "messages"),
            ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, openai.BadRequestError, "messages[0].content[0]"),
            ({"extra_body": {"reasoning": "all"}}, openai.BadRequestError, "reasoning"),
            ({"stream": True, "top_p": 2}, openai.BadRequestError, "top_p"),
        ):
            with self.subTest(params), self.assertRaises(kind) as raised:
                self.create(**params)
            self.assertTrue(raised.exception.param.startswith(param), raised.exception.param)
            self.assertTrue(raised.exception.code)

    def test_keys_and_limits(self):
        with Server.with_keys({"id": "full", "reasoning": "full"}, {"id": "hidden"}, {"id": "rare", "requests_per_minute": 1}) as server:

            def ask(key, **params):
                with openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0, timeout=60) as client:
                    return client.chat.completions.create(**PLAIN, **params)

            with self.assertRaises(openai.AuthenticationError):
                ask("wrong")
            self.assertTrue(ask(key_of("full"), extra_body={"reasoning": "full"}).choices[0].message.reasoning)
            with self.assertRaises(openai.PermissionDeniedError):
                ask(key_of("hidden"), extra_body={"reasoning": "full"})
            ask(key_of("rare"), max_tokens=1)
            with self.assertRaises(openai.RateLimitError) as raised:
                ask(key_of("rare"), max_tokens=1)
            self.assertGreaterEqual(int(raised.exception.response.headers["retry-after"]), 1)

    def test_leaving_a_stream(self):
        tokens = self.create(**ENDLESS).usage.completion_tokens
        with self.server.cut(tokens), self.create(**ENDLESS, stream=True) as stream:
            for chunk in stream:
                if chunk.choices[0].delta.content:
                    break

    def test_async_client_and_cancellation(self):
        async def run():
            async with openai.AsyncOpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0, timeout=60) as client:
                for answer in await asyncio.gather(*(client.chat.completions.create(**PLAIN) for _ in range(3))):
                    self.assertEqual(answer.choices[0].message.content, "17 + 25 = 42.")
                tokens = (await client.chat.completions.create(**ENDLESS)).usage.completion_tokens
                task = asyncio.create_task(client.chat.completions.create(**ENDLESS))
                with self.server.cut(tokens):
                    await asyncio.to_thread(self.server.running, 1)
                    task.cancel()
                    with self.assertRaises(asyncio.CancelledError):
                        await task

        asyncio.run(run())

    def test_completions(self):
        params = {"model": "demo", "prompt": "What is 17 + 25?", "max_tokens": 12, "temperature": warm(1), "seed": 3}
        whole = self.client.completions.create(**params)
        streamed = self.client.completions.create(**params, stream=True)
        self.assertEqual("".join(chunk.choices[0].text for chunk in streamed if chunk.choices), whole.choices[0].text)

    def test_embeddings(self):
        texts = ["one apple", "two apples"]
        if AT_ADDRESS:
            with self.assertRaisesRegex(openai.BadRequestError, "does not give embeddings"):
                self.client.embeddings.create(model="demo", input=texts)
            return
        numbers = self.client.embeddings.create(model="demo", input=texts, encoding_format="float")
        packed = self.client.embeddings.create(model="demo", input=texts)  # the client asks for base64 and decodes it
        for a, b in zip(numbers.data, packed.data, strict=True):
            self.assertAlmostEqual(sum(x * x for x in a.embedding), 1, places=3)
            self.assertEqual(len(a.embedding), len(b.embedding))
            for x, y in zip(a.embedding, b.embedding):
                self.assertAlmostEqual(x, y, places=6)

    def test_models(self):
        self.assertEqual([m.id for m in self.client.models.list()], ["demo"])
        self.assertEqual(self.client.models.retrieve("demo").object, "model")
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("none")


if __name__ == "__main__":
    unittest.main()
