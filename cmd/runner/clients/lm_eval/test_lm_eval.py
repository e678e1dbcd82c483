"""Tests with EleutherAI's evaluation harness: a multiple choice over /v1/completions, with the server's tokenizer."""

import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from server import Server  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


def question(a, b):
    """A conversation in the bundled model's format that ends before the result."""
    return (
        f"<|start|>user<|message|>What is {a} + {b}?<|end|><|start|>assistant<|channel|>analysis<|message|>"
        f"The task is to add {a} and {b}.\n{a}+{b}: {a}+{b}={a + b}, so {a + b}.<|end|>"
        f"<|start|>assistant<|channel|>final<|message|>{a} + {b} ="
    )


def write_sums(path, right):
    """Twenty questions with three choices each. If right is false, the marked choice is wrong."""
    draw = random.Random(1)
    with open(path, "w") as file:
        for _ in range(20):
            a, b = draw.randint(2, 9), draw.randint(2, 9)
            choices = [a + b, a + b + 1, a + b - 2]
            draw.shuffle(choices)
            answer = choices.index(a + b if right else a + b + 1)
            file.write(json.dumps({"question": question(a, b), "choices": [f" {c}." for c in choices], "answer": answer}) + "\n")


class HarnessTest(unittest.TestCase):
    def accuracy(self, server, right, *, concurrent, batch):
        with tempfile.TemporaryDirectory(prefix="runner-lm-eval-") as folder:
            shutil.copy(HERE / "task.yaml", folder)
            write_sums(pathlib.Path(folder) / "sums.jsonl", right)
            arguments = f"model=demo,base_url={server.url}/v1/completions,num_concurrent={concurrent}"
            run = subprocess.run(
                [pathlib.Path(sys.executable).parent / "lm_eval", "--model", "local-completions", "--model_args", arguments]
                + ["--tasks", "runner_sums", "--include_path", folder, "--batch_size", str(batch)],
                cwd=folder,
                env={**os.environ, "HF_HOME": folder, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"},
                capture_output=True,
                text=True,
                timeout=120,
            )
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            self.assertIn("remote tokenizer", run.stderr, "the harness does not use the server's tokenizer")
            found = re.search(r"\|acc\s*\|\S*\s*\|\s*([0-9.]+)\|", run.stdout)
            self.assertIsNotNone(found, run.stdout + run.stderr)
            return float(found[1])

    def test_multiple_choice(self):
        with Server() as server:
            self.assertEqual(self.accuracy(server, True, concurrent=1, batch=4), 1)
            self.assertEqual(self.accuracy(server, True, concurrent=4, batch=1), 1)
            self.assertEqual(self.accuracy(server, False, concurrent=1, batch=1), 0)


if __name__ == "__main__":
    unittest.main()
