"""The server that the tests of one file share."""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request

PROGRAM = os.environ.get("RUNNER", str(pathlib.Path(__file__).resolve().parents[4] / "bin" / "runner"))
# What test.sh was told to give to every server.
MORE = os.environ.get("SERVER_FLAGS", "").splitlines()

# AT_ADDRESS says that another engine, at an address, computes the model.
AT_ADDRESS = bool(os.environ.get("AT_ADDRESS"))


def warm(temperature):
    """Returns a temperature for answers that two runs with the same seed must share. Other engines round in another way
    when a part of the prompt is cached, so there only greedy answers are the same."""
    return 0 if AT_ADDRESS else temperature


def key_of(id):
    """Returns the API key with an id."""
    return f"test-key-of-{id}-0123456789"


class Server:
    """A running "runner serve" with the bundled model."""

    def __init__(self, *flags):
        self.folder = tempfile.TemporaryDirectory(prefix="runner-clients-")
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--port", "0", *MORE, *flags],
            env={**os.environ, "XDG_DATA_HOME": self.folder.name},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.log = []
        for line in self.process.stderr:
            self.log.append(line)
            if address := re.match(r"serving .* at (http\S+)", line):
                self.url = address[1]
                break
        else:
            raise RuntimeError("the server did not start:\n" + "".join(self.log))
        self.reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr))
        self.reader.start()

    @classmethod
    def with_keys(cls, *entries):
        """Starts a server that asks for API keys. entries says what each key may do."""
        keys = [{**e, "sha256": hashlib.sha256(key_of(e["id"]).encode()).hexdigest()} for e in entries]
        with tempfile.TemporaryDirectory(prefix="runner-clients-") as folder:
            file = pathlib.Path(folder) / "keys.json"
            file.touch(mode=0o600)
            file.write_text(json.dumps({"keys": keys}))
            return cls("--api-keys", str(file))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Stops the server, which must exit without an error."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait()
        self.reader.join()
        self.process.stderr.close()
        self.folder.cleanup()
        assert status == 0, f"the server ended with {status}:\n" + "".join(self.log)

    def metric(self, name):
        """Returns one of the server's metrics."""
        with urllib.request.urlopen(self.url + "/metrics") as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(name + " "):
                    return float(line.removeprefix(name + " "))
        raise AssertionError(f"there is no metric {name}")

    def running(self, count):
        """Waits up to ten seconds until so many runs are active."""
        name = 'runner_runs_active{model="demo"}'
        for _ in range(500):
            if self.metric(name) == count:
                return
            time.sleep(0.02)
        raise AssertionError(f"{self.metric(name)} runs are active, want {count}")

    @contextlib.contextmanager
    def cut(self, tokens):
        """Checks that a run which the block leaves ends there, with fewer tokens than it has when the client stays."""
        name = 'runner_tokens_total{kind="completion",model="demo"}'
        before = self.metric(name)
        yield
        self.running(0)
        time.sleep(0.05)  # tokens are counted when the run is over
        spent = self.metric(name) - before
        assert spent < tokens, f"the server went on to the end: {spent} of {tokens} tokens"
