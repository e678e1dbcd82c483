"""Tests with OpenAI's package for Python against the Responses API."""

import time
import unittest
from typing import Annotated

import openai
from pydantic import BaseModel, Field

from server import Server

PLAIN = {"model": "demo", "temperature": 0, "input": "What is 17 + 25?"}
LONG = {**PLAIN, "input": "What is 517 + 386?", "reasoning": {"effort": "high"}}
FULL = {**PLAIN, "include": ["reasoning.content"]}
Operand = Annotated[int, Field(ge=0, le=999)]


class add(BaseModel):
    """Adds two numbers."""

    a: Operand
    b: Operand


TOOL = openai.pydantic_function_tool(add)["function"]
# Without reasoning the model makes its call at once.
CALLING = {
    **PLAIN,
    "reasoning": {"effort": "none"},
    "tools": [{"type": "function", **TOOL}],
    "tool_choice": {"type": "function", "name": "add"},
}


def comparable(response):
    """Returns a response without what differs between equal responses."""
    keep = {"output", "status", "error", "incomplete_details", "usage", "text", "reasoning"}
    dump = response.model_dump(include=keep, exclude={"usage": {"input_tokens_details"}})
    for item in dump["output"]:
        item["id"] = item["id"].split("_")[0]
        item.pop("call_id", None)
        item.pop("parsed_arguments", None)
        if item.get("encrypted_content"):
            item["encrypted_content"] = "sealed"
        for part in item.get("content") or []:
            part.pop("parsed", None)
    return dump


def text_of(response, kind):
    """Returns the reasoning (content) or its summary (summary) in a response."""
    return "".join(part.text for item in response.output if item.type == "reasoning" for part in getattr(item, kind) or [])


class ResponsesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.stop)
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0, timeout=60)
        cls.addClassCleanup(cls.client.close)
        cls.responses = cls.client.responses

    def test_stream_is_the_response(self):
        for name, params in {
            "plain": PLAIN,
            "sampled": {**FULL, "temperature": 0.9, "extra_body": {"seed": 4}},
            "summary": {**PLAIN, "reasoning": {"summary": "auto"}},
            "sealed": {**PLAIN, "store": False, "include": ["reasoning.encrypted_content"]},
            "a call": CALLING,
            "cut off": {**FULL, "max_output_tokens": 20},
        }.items():
            with self.subTest(name):
                whole = self.responses.create(**params)
                text = ""
                with self.responses.stream(**params) as stream:
                    for number, event in enumerate(stream):
                        self.assertEqual(event.sequence_number, number)
                        if event.type == "response.output_text.delta":
                            text += event.delta
                    # The helper has no final response for one that was cut off, but the last event holds it.
                    final = event.response
                self.assertEqual(comparable(final), comparable(whole))
                self.assertEqual(text, whole.output_text)

    def test_reasoning_is_hidden(self):
        reasoning = text_of(self.responses.create(**FULL), "content")
        self.assertIn("17 and 25", reasoning)
        lines = [line for line in reasoning.split("\n") if len(line) > 8]
        for params in (PLAIN, {**PLAIN, "reasoning": {"summary": "concise"}}, {**PLAIN, "include": ["message.output_text.logprobs"], "top_logprobs": 5}):
            response = self.responses.create(**params)
            again = self.responses.retrieve(response.id)
            events = [event for event in self.responses.create(**params, stream=True)]
            self.assertNotIn("response.reasoning_text.delta", [event.type for event in events])
            for dump in (response, again, *events):
                for line in lines:
                    self.assertNotIn(line, dump.model_dump_json())
            self.assertEqual(bool(text_of(response, "summary")), "reasoning" in params)

    def test_parse(self):
        response = self.responses.parse(**PLAIN, text_format=add)
        self.assertIsInstance(response.output_parsed, add)

    def test_conversation(self):
        first = self.responses.create(**PLAIN)
        self.assertEqual(first.output_text, "17 + 25 = 42.")
        second = self.responses.create(**{**PLAIN, "input": "What is 532 - 187?"}, previous_response_id=first.id)
        self.assertEqual(second.output_text, "532 - 187 = 345.")
        sent = [{"role": "user", "content": PLAIN["input"]}, *first.output, {"role": "user", "content": "What is 532 - 187?"}]
        third = self.responses.create(**{**PLAIN, "input": sent}, store=False)
        self.assertEqual(third.usage.input_tokens, second.usage.input_tokens)

    def test_call_and_its_output(self):
        first = self.responses.create(**CALLING)
        call = first.output[-1]
        add.model_validate_json(call.arguments)
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "42"}
        after = self.responses.create(**{**CALLING, "tool_choice": "none", "input": [output]}, previous_response_id=first.id)
        self.assertTrue(after.output_text)

    def test_carried_reasoning(self):
        asked = {**FULL, "store": False, "include": ["reasoning.encrypted_content"]}
        first = self.responses.create(**asked)
        following = [*first.output, {"role": "user", "content": "What is 532 - 187?"}]
        ask = lambda question: self.responses.create(**{**asked, "input": [{"role": "user", "content": question}, *following]})
        kept = ask(PLAIN["input"])
        self.assertEqual(kept.output_text, "532 - 187 = 345.")
        self.assertFalse(hasattr(kept, "warnings"))
        self.assertEqual([w["code"] for w in ask("What is 18 + 25?").warnings], ["sealed_dropped"])

    def test_stored(self):
        response = self.responses.create(**PLAIN)
        self.assertEqual(self.responses.retrieve(response.id).output_text, response.output_text)
        self.responses.delete(response.id)
        with self.assertRaises(openai.NotFoundError):
            self.responses.retrieve(response.id)

    def test_background(self):
        response = self.responses.create(**PLAIN, background=True)
        deadline = time.monotonic() + 10
        while response.status in ("queued", "in_progress") and time.monotonic() < deadline:
            time.sleep(0.02)
            response = self.responses.retrieve(response.id)
        self.assertEqual(response.output_text, "17 + 25 = 42.")

    def test_cancelled_in_the_background(self):
        tokens = self.responses.create(**LONG).usage.output_tokens
        with self.server.cut(tokens):
            response = self.responses.create(**LONG, background=True)
            self.assertEqual(self.responses.cancel(response.id).status, "cancelled")

    def test_leaving_a_stream(self):
        tokens = self.responses.create(**LONG).usage.output_tokens
        with self.server.cut(tokens), self.responses.create(**LONG, include=["reasoning.content"], stream=True) as stream:
            for event in stream:
                if event.type == "response.reasoning_text.delta":
                    break

    def test_errors(self):
        for params, kind, param in (
            ({"model": "none"}, openai.NotFoundError, "model"),
            ({"reasoning": {"effort": "much"}}, openai.BadRequestError, "reasoning.effort"),
            ({"top_p": 2}, openai.BadRequestError, "top_p"),
        ):
            with self.subTest(params), self.assertRaises(kind) as raised:
                self.responses.create(**{**PLAIN, **params})
            self.assertEqual(raised.exception.param, param)


if __name__ == "__main__":
    unittest.main()
