"""Starts the worker: python -I worker"""

import os
import sys

sys.dont_write_bytecode = True  # the folder stays as the runner wrote it
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from worker.main import main  # noqa: E402

del sys.path[0]  # no other module comes from there
main()
