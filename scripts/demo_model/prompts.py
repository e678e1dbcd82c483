"""The runner's own prompts, read from the Go file that defines them, so that training and the program cannot drift apart."""

import ast
import re
from pathlib import Path

GO_FILE = Path(__file__).resolve().parents[2] / "reasoning" / "prompts.go"


def load(path=GO_FILE):
    """Returns every string constant of the Go file by name; adjacent literals joined with + are concatenated."""
    source = re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.M)
    literal = r'"(?:[^"\\\n]|\\.)*"'
    found = {}
    for name, value in re.findall(rf"(\w+)\s*=\s*({literal}(?:\s*\+\s*{literal})*)", source):
        found[name] = "".join(ast.literal_eval(part) for part in re.findall(literal, value))
    return found


_P = load()
SUMMARY_CONCISE = _P["SummaryConciseV1"]
SUMMARY_DETAILED = _P["SummaryDetailedV1"]
POSTHOC = _P["PosthocV1"]
BUDGET = _P["BudgetV1"]
IDENTITY = _P["DemoIdentityV1"]
