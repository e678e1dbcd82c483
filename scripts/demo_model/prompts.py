"""The runner's own texts for models, shared so that training and the program stay the same.

The texts come from prompts.json, which `go run ./scripts/demo_model/told` writes and a Go test compares with the
runner, and from the constants of the Go files that define them.
"""

import ast
import json
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def constants(path):
    """Returns, by name, every constant of a Go file that is a single string literal or several joined with +."""
    source = re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.M)
    literal = r'(?:"(?:[^"\\\n]|\\.)*"|`[^`]*`)'
    found = {}
    for name, value in re.findall(rf"(\w+)\s*=\s*({literal}(?:\s*\+\s*{literal})*)", source):
        found[name] = "".join(part[1:-1] if part[0] == "`" else ast.literal_eval(part) for part in re.findall(literal,
            value))
    return found


def between(text, start, end):
    return text.split(start, 1)[1].split(end, 1)[0]


TOLD = json.loads((HERE / "prompts.json").read_text())
_P = constants(ROOT / "reasoning" / "prompts" / "prompts.go")
_D = constants(ROOT / "generation" / "delegation" / "prompt.go")
_E = constants(ROOT / "reasoning" / "event.go")

SUMMARY_CONCISE, SUMMARY_DETAILED = _P["SummaryConciseV1"], _P["SummaryDetailedV1"]
POSTHOC, BUDGET, IDENTITY = _P["PosthocV1"], _P["BudgetV1"], _P["DemoIdentityV2"]
MARKERS, RATIONALE, JSON, JSON_SCHEMA, JSON_SCORE = _P["MarkersV1"], _P["RationaleV1"], _P["JSONV1"], _P["JSONSchemaV1"], _P["JSONScoreV1"]
PLAN = _P["PlanV1"]
SQUASH, RANK, WORK = _D["SquashV1"], _D["rankV1"], _D["workV1"]
REPORT_NAME, DELEGATE_NAME, RETURN_NAME = _E["ReportReasoningName"], _D["DelegateName"], _D["ReturnName"]

# The report_reasoning strategy has an instruction. It and delegation have functions of their own, as the runner lists
# them.
REPORT = between(TOLD["report"], "# Instructions\n\nBe brief.\n\n", "\n\n# Tools")
REPORT_TOOLS, DELEGATE_TOOLS, RETURN_TOOLS = ("# Tools" + between(TOLD[k], "# Tools", "<|end|>") for k in ("report",
    "delegate", "specialist"))


def specialist(prompt):
    """A specialist's whole instructions, and the line that announces it."""
    line = f"<delegate-reasoning>Specialist active ({len(prompt.encode('utf-16-le')) // 2} chars)</delegate-reasoning>"
    return "\n\n".join((prompt, WORK, line)), line


def report(text):
    """A specialist's work in the form that the main agent gets."""
    return TOLD["report_text"].replace("12 + 3 = 15.", text)


def plan(tools):
    """What --plan adds to the instructions, and the section with the plan's schema. Tools have a name, a description
    and parameters."""
    lines = "".join(json.dumps({"name": t.name, "description": t.description, "parameters": t.parameters},
        separators=(",", ":")) + "\n" for t in tools)
    section = "# Response Formats" + between(TOLD["plan"], "# Response Formats", "<|end|>")
    return f"{PLAN}\n{lines}", section.replace('"enum":["multiply"]', '"enum":' + json.dumps([t.name for t in tools],
        separators=(",", ":")))
