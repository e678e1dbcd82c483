"""Runs the worker from the texts of its modules: python -I - ARGUMENTS

The runner writes the dictionary SOURCES and then this text to the standard input. So nothing is run from a file that
others could write.
"""

import importlib.util
import sys


class Sources:
    """Finds and loads the modules in SOURCES."""

    def find_spec(self, name, path=None, target=None):
        if name not in SOURCES:  # noqa: F821
            return None
        return importlib.util.spec_from_loader(name, self, origin=name, is_package="." not in name)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__name__
        exec(compile(SOURCES[name], name.replace(".", "/") + ".py", "exec"), module.__dict__)  # noqa: F821


sys.dont_write_bytecode = True
sys.meta_path.insert(0, Sources())

from worker.main import main  # noqa: E402

main()
