"""Tests with LangChain: its own error class for overflow, and conversations that trim_messages shortens."""

import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import httpx  # noqa: E402
from langchain_anthropic import ChatAnthropic  # noqa: E402
from langchain_core.exceptions import ContextOverflowError  # noqa: E402
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, trim_messages  # noqa: E402
from langchain_core.tools import tool  # noqa: E402
from langchain_openai import ChatOpenAI, OpenAI  # noqa: E402
from server import Server  # noqa: E402

LONG = "What is 17 + 25? " * 400  # more tokens than the small server's context


class Wire:
    """What goes over the wire, because LangChain does not show all of it."""

    def __init__(self):
        self.sent, self.came = [], []
        self.http = httpx.Client(event_hooks={"request": [self.send], "response": [self.come]})

    def send(self, request):
        self.sent.append(json.loads(request.read()))

    def come(self, response):
        response.read()
        self.came.append(response.text)


def openai(server, **more):
    return ChatOpenAI(model="demo", base_url=server.url + "/v1", api_key="none", temperature=0, max_retries=0, **more)


def anthropic(server, **more):
    return ChatAnthropic(model="demo", base_url=server.url, api_key="none", max_retries=0, **{"max_tokens": 2000, **more})


class OverflowTest(unittest.TestCase):
    def test_a_prompt_that_does_not_fit(self):
        with Server("--ctx-size", "1024") as server:
            models = {
                "chat completions": openai(server),
                "responses": openai(server, use_responses_api=True),
                "messages": anthropic(server),
            }
            for name, model in models.items():
                with self.subTest(name):
                    self.assertIn("42", model.invoke("What is 17 + 25?").text)
                with self.subTest(name), self.assertRaises(ContextOverflowError):
                    model.invoke(LONG)
                with self.subTest(name + ", streamed"), self.assertRaises(ContextOverflowError):
                    list(model.stream(LONG))
            completions = OpenAI(model="demo", base_url=server.url + "/v1", api_key="none", max_retries=0)
            with self.subTest("completions"), self.assertRaisesRegex(Exception, "maximum context length is 1024 tokens.*prompt"):
                completions.invoke(LONG)


@tool
def look_up(word: str) -> str:
    """Look up a word."""
    return f"{word} is nice."


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


class StreamTest(unittest.TestCase):
    """LangChain adds a delta to the item that began last. So a summary must not stand inside a call."""

    def test_calls_keep_their_arguments_beside_a_summary(self):
        with Server() as server:
            for sealed in (False, True):
                model = openai(
                    server,
                    use_responses_api=True,
                    output_version="responses/v1",
                    reasoning={"effort": "medium", "summary": "auto"},
                    **({"store": False, "include": ["reasoning.encrypted_content"]} if sealed else {}),
                ).bind_tools([add], tool_choice="add")
                for n in range(20 if os.environ.get("RUNNER_LONG") else 2):
                    with self.subTest(sealed=sealed, n=n):
                        reply = None
                        for chunk in model.stream(f"What is {10 + n} + {20 + n}?"):
                            reply = chunk if reply is None else reply + chunk
                        [call] = reply.tool_calls
                        self.assertEqual((call["name"], call["args"].keys()), ("add", {"a", "b"}))
                        kinds = [block["type"] for block in reply.content]
                        self.assertLess(kinds.index("reasoning"), kinds.index("function_call"))
                        summary = "".join(part["text"] for part in reply.content[kinds.index("reasoning")]["summary"])
                        self.assertTrue(summary)


class TrimTest(unittest.TestCase):
    """A conversation continues while its early turns are dropped. The reasoning that the client carries causes no error,
    and is kept as long as its own turn is there."""

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server())

    def converse(self, model, wire, carried):
        messages = [SystemMessage("You calculate.")]
        for n in range(8):
            messages.append(HumanMessage(f"What is {n} + {n + 3}?"))
            kept = trim_messages(
                messages, max_tokens=5, token_counter=len, strategy="last", start_on="human", include_system=True
            )
            self.assertLessEqual(len(kept), 5)
            reply = model.invoke(kept)
            self.assertIn(str(2 * n + 3), reply.text)
            self.assertNotIn("sealed_", wire.came[-1])
            messages.append(reply)
        self.assertNotIn("What is 0 + 3?", json.dumps(wire.sent[-1]))
        self.assertGreaterEqual(carried(wire.sent[-1]), 1, "the reasoning of a turn that is still there is carried")

    def test_responses(self):
        wire = Wire()
        model = openai(
            self.server,
            use_responses_api=True,
            output_version="responses/v1",
            store=False,
            include=["reasoning.encrypted_content"],
            reasoning={"effort": "medium", "summary": "auto"},
            http_client=wire.http,
        )
        self.converse(model, wire, lambda sent: sum(bool(i.get("encrypted_content")) for i in sent["input"]))

    def test_messages(self):
        wire = Wire()
        model = anthropic(self.server, thinking={"type": "enabled", "budget_tokens": 1024})
        model._client._client.event_hooks = wire.http.event_hooks
        self.converse(model, wire, lambda sent: json.dumps(sent["messages"]).count('"signature"'))

    def test_chat_completions(self):
        wire = Wire()
        model = openai(self.server, http_client=wire.http)
        self.converse(model, wire, lambda sent: len(sent["messages"]))

    def test_a_call_and_its_result_after_trimming(self):
        wire = Wire()
        model = openai(
            self.server,
            use_responses_api=True,
            output_version="responses/v1",
            store=False,
            include=["reasoning.encrypted_content"],
            http_client=wire.http,
        )
        calling = model.bind_tools([look_up], tool_choice="look_up")
        messages = [HumanMessage("What is 1 + 1?"), AIMessage("1 + 1 = 2."), HumanMessage("Look up the word sun.")]
        reply = calling.invoke(messages)
        self.assertEqual(reply.tool_calls[0]["name"], "look_up")
        messages += [reply, ToolMessage("sun is nice.", tool_call_id=reply.tool_calls[0]["id"])]
        kept = trim_messages(messages, max_tokens=3, token_counter=len, strategy="last", start_on="human")
        self.assertEqual(len(kept), 3)
        self.assertTrue(model.bind_tools([look_up]).invoke(kept).text)
        self.assertTrue(any(i.get("encrypted_content") for i in wire.sent[-1]["input"]))
        self.assertNotIn("sealed_", wire.came[-1])


if __name__ == "__main__":
    unittest.main()
