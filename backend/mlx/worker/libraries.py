"""MLX and mlx-lm.

They are imported when a model is loaded, so that a worker without them can still say what is missing. No other module
of the worker imports them.
"""

import importlib
import importlib.metadata
import importlib.util
import resource
import sys
import types

from .protocol import PROGRESS, LoadFailed

ADVICE = "run 'runner engines setup mlx'"


def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def without_tokenizers(package="mlx_lm"):
    """Keeps mlx-lm from importing transformers, which takes more time than everything else that a worker imports.

    Only mlx-lm's tokenizers and its programs use it, and the runner has its own. So the package begins empty, and its
    module of tokenizers has only the names that utils imports. The version of mlx-lm is fixed.
    """
    sys.modules[package] = importlib.util.module_from_spec(importlib.util.find_spec(package))
    tokenizers = types.ModuleType(package + ".tokenizer_utils")
    tokenizers.TokenizerWrapper = tokenizers.load = None
    sys.modules[tokenizers.__name__] = tokenizers


class Libraries:
    """The modules: mx (mlx.core), np (numpy), utils and caches (of mlx-lm). flatten lists the arrays of a tree."""

    def __init__(self, required, pipes):
        """Imports the modules, if the packages have the required versions."""
        for name, wanted in required.items():
            have = version(name)
            if have == "missing":
                raise LoadFailed("failed", f"the Python module {name} is missing", ADVICE)
            if have != wanted:
                raise LoadFailed("failed", f"{name} has version {have}, and version {wanted} is required", ADVICE)
        # mlx-lm lowers the limit of open files, the hard limit too. It must not.
        set_limit, resource.setrlimit = resource.setrlimit, lambda *_: None
        try:
            self.mx = importlib.import_module("mlx.core")
            self.np = importlib.import_module("numpy")
            pipes.send(PROGRESS, {"fraction": 0.1})
            without_tokenizers()
            self.utils = importlib.import_module("mlx_lm.utils")
            self.caches = importlib.import_module("mlx_lm.models.cache")
            self.flatten = importlib.import_module("mlx.utils").tree_flatten
        except (ImportError, OSError) as e:
            raise LoadFailed("failed", f"MLX cannot be imported: {e}", ADVICE) from e
        finally:
            resource.setrlimit = set_limit
