#!/usr/bin/env python3
"""Writes chattemplate/jinja/testdata/golden.json: jinja2's results for the templates of cases.txt.

Needs jinja2 (made with 3.1.6 on Python 3.11). The environment is that of transformers' apply_chat_template.

Usage: python3 generate.py > ../../chattemplate/jinja/testdata/golden.json
"""

import copy
import datetime
import json
import os
import re
import sys

import jinja2
import jinja2.ext
from jinja2 import meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

VARIABLES = {
    "n": 3,
    "s": "a,b,c",
    "s2": "from outside",
    "u": "aé😀z",
    "l": ["a", "b", "c"],
    "d": {"a": 1, "b": {"c": "x"}, "list": [1, 2.5, None, True], "é": "ü"},
    "users": [
        {"name": "Bob", "age": 30, "admin": True},
        {"name": "ann", "age": 30, "admin": False},
        {"name": "Cyd", "age": 41, "admin": True},
    ],
    "messages": [
        {"role": "system", "content": " Be kind. "},
        {"role": "user", "content": "2+2?"},
        {"role": "assistant", "content": "4"},
        {"role": "user", "content": "and 3+3?"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "Says \"sun\" or <rain>.",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
                    "required": ["city"],
                },
            },
        }
    ],
    "bos_token": "<s>",
    "big": 123456789012345678901234567890,
    "flt": [1.0, 0.1, 1e16, 1.5e-7, 1e100],
    "nested": {"z": [{"y": {"x": [[], {}, ""]}}], "a": "it's"},
}
NOW = datetime.datetime(2026, 1, 5, 9, 7, 3)


class Generation(jinja2.ext.Extension):
    """The generation tag: it renders its body."""

    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_show"), [], [], body).set_lineno(lineno)

    def _show(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


env = ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
)
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = NOW.strftime


def kind(e):
    if isinstance(e, jinja2.TemplateSyntaxError):
        return "syntax"
    if isinstance(e, jinja2.exceptions.SecurityError):
        return "security"
    if isinstance(e, jinja2.exceptions.UndefinedError):
        return "undefined"
    if type(e) is jinja2.exceptions.TemplateError:
        return "raised"
    if isinstance(e, SyntaxError):
        return "syntax"
    if isinstance(e, OverflowError) and "Range" in str(e):
        return "limit"
    return "runtime"


def address_free(text):
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def run(source):
    case = {"template": source}
    try:
        case["variables"] = sorted(meta.find_undeclared_variables(env.parse(source)))
        case["output"] = address_free(env.from_string(source).render(**copy.deepcopy(VARIABLES)))
    except Exception as e:  # every failure is a case
        case["kind"], case["error"] = kind(e), address_free(str(e))
        if isinstance(e, jinja2.TemplateSyntaxError):
            case["line"] = e.lineno
    return case


def unescape(line):
    return re.sub(
        r"\\(u[0-9a-f]{4}|.)",
        lambda m: {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}.get(m[1]) or chr(int(m[1][1:], 16)),
        line,
    )


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "cases.txt"), encoding="utf-8") as f:
        lines = [x.rstrip("\n") for x in f]
    cases = [run(unescape(x)) for x in lines if x and not re.match(r"#+ ", x)]
    json.dump(
        {"now": NOW.isoformat(), "vars": VARIABLES, "cases": cases}, sys.stdout, ensure_ascii=False, indent=1
    )
    print()


if __name__ == "__main__":
    main()
