"""Runs the example for LangChain in docs/clients.md as it stands there, but for the address and the model."""

import contextlib
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from server import Server  # noqa: E402

PAGE = pathlib.Path(__file__).resolve().parents[4] / "docs" / "clients.md"


class Documented(unittest.TestCase):
    def test_langchain(self):
        server = Server()
        self.addCleanup(server.stop)
        code = PAGE.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
        for shown, real in (("http://127.0.0.1:8080", server.url), ("gpt-oss-20b", "demo")):
            self.assertIn(shown, code)
            code = code.replace(shown, real)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, str(PAGE), "exec"), {"__name__": "documented"})
        self.assertEqual(printed.getvalue(), "17 + 25 = 42.\na=17 b=25 result=42\n532 - 187 = 345.")


if __name__ == "__main__":
    unittest.main()
