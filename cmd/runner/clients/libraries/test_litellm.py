"""Tests with LiteLLM, which recognises errors by their words."""

import os
import pathlib
import sys
import unittest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # nothing is downloaded
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import litellm  # noqa: E402
from server import Server  # noqa: E402

litellm.suppress_debug_info = True
QUESTION = [{"role": "user", "content": "What is 17 + 25?"}]
LONG = "What is 17 + 25? " * 400  # more tokens than the server's context
LONG_CHAT = [{"role": "user", "content": LONG}]


def chat(server, model="openai/demo", base="/v1", **more):
    return litellm.completion(model=model, api_base=server.url + base, api_key="none", temperature=0, max_retries=0, **more)


class LiteLLMTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server("--ctx-size", "1024"))

    def test_answers(self):
        for model, base in ("openai/demo", "/v1"), ("anthropic/demo", ""), ("ollama_chat/demo", ""):
            with self.subTest(model):
                reply = chat(self.server, model, base, messages=QUESTION, max_tokens=500)
                self.assertEqual(reply.choices[0].message.content, "17 + 25 = 42.")
                self.assertEqual(reply.choices[0].finish_reason, "stop")
                parts = [chunk.choices[0].delta.content or "" for chunk in chat(self.server, model, base, messages=QUESTION, max_tokens=500, stream=True)]
                self.assertEqual("".join(parts), "17 + 25 = 42.")

    def test_a_prompt_that_does_not_fit(self):
        url = self.server.url + "/v1"

        def drained(stream):
            for _ in stream:
                pass

        overlong = {
            "chat completions": lambda: chat(self.server, messages=LONG_CHAT),
            "chat completions, streamed": lambda: drained(chat(self.server, messages=LONG_CHAT, stream=True)),
            "completions": lambda: litellm.text_completion(
                model="text-completion-openai/demo", prompt=LONG, api_base=url, api_key="none", max_retries=0
            ),
            "messages": lambda: chat(self.server, "anthropic/demo", "", messages=LONG_CHAT, max_tokens=9),
            "messages, streamed": lambda: drained(chat(self.server, "anthropic/demo", "", messages=LONG_CHAT, max_tokens=9, stream=True)),
            "responses": lambda: litellm.responses(model="openai/demo", input=LONG, api_base=url, api_key="none", max_retries=0),
            "responses, streamed": lambda: drained(
                litellm.responses(model="openai/demo", input=LONG, stream=True, api_base=url, api_key="none", max_retries=0)
            ),
            "embeddings": lambda: litellm.embedding(
                model="openai/demo", input=[LONG], api_base=url, api_key="none", encoding_format="float", max_retries=0
            ),
        }
        for name, call in overlong.items():
            with self.subTest(name), self.assertRaises(litellm.ContextWindowExceededError):
                call()

    def test_a_long_chat_of_ollama_is_shortened(self):
        chat_of_many = [m for _ in range(200) for m in (*QUESTION, {"role": "assistant", "content": "17 + 25 = 42."})]
        reply = chat(self.server, "ollama_chat/demo", "", messages=[*chat_of_many, *QUESTION])
        self.assertEqual(reply.choices[0].message.content, "17 + 25 = 42.")
        self.assertLess(reply.usage.prompt_tokens, 1024)


if __name__ == "__main__":
    unittest.main()
