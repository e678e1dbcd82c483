"""Tests of worker.py that need no MLX: python worker_test.py worker.py"""

import importlib.util
import os
import sys
import types
import unittest
from unittest import mock

spec = importlib.util.spec_from_file_location("worker", sys.argv.pop(1))
worker = importlib.util.module_from_spec(spec)
sys.dont_write_bytecode = True
spec.loader.exec_module(worker)

GiB = 1 << 30


def fake_mlx(gpu, info):
    """Returns a module that records the limits that are set."""
    mx = types.SimpleNamespace(gpu="gpu", cpu="cpu", limits={})
    mx.default_device = lambda: mx.gpu if gpu else mx.cpu
    mx.device_info = lambda: info
    for name in ("memory", "cache", "wired"):
        setattr(mx, f"set_{name}_limit", lambda n, name=name: mx.limits.__setitem__(name, n))
    return mx


def engine(mx, *arguments):
    e = worker.Engine(worker.options(arguments), None)
    e.mx = mx
    return e


class AppleLimits(unittest.TestCase):
    M3 = {"device_name": "Apple M3 Max", "architecture": "applegpu_g15s", "memory_size": 64 * GiB,
          "max_recommended_working_set_size": 48 * GiB}

    def test_the_working_set_is_the_limit(self):
        e = engine(fake_mlx(True, self.M3))
        e.limits({})
        self.assertEqual(e.mx.limits, {"memory": 48 * GiB, "cache": 2 * GiB, "wired": 48 * GiB})
        self.assertEqual((e.device, e.gpu), ("Apple M3 Max", True))

    def test_the_user_can_choose_less(self):
        e = engine(fake_mlx(True, self.M3), "--memory", str(16 * GiB))
        e.limits({"others": [4 * GiB]})
        self.assertEqual(e.mx.limits, {"memory": 12 * GiB, "cache": 12 * GiB // 8, "wired": 12 * GiB})

    def test_more_than_the_working_set_is_not_wired(self):
        e = engine(fake_mlx(True, self.M3), "--memory", str(60 * GiB))
        e.limits({})
        self.assertEqual(e.mx.limits["wired"], 48 * GiB)

    def test_other_models_leave_less(self):
        reserved = {"mapped": 4 * GiB, "private": 20 * GiB, "untouched": 3 * GiB}
        for limit, want in (0, 24 * GiB), (16 * GiB, 16 * GiB), (40 * GiB, 24 * GiB):
            e = engine(fake_mlx(True, self.M3), "--memory", str(limit))
            e.limits({"reserved": reserved})
            self.assertEqual(e.memory, want)
        e.limits({"reserved": {"mapped": 0, "private": 60 * GiB}})
        self.assertEqual(e.memory, 1 << 20)

    def test_a_cpu_wires_nothing(self):
        e = engine(fake_mlx(False, {"device_name": "EPYC"}))
        e.limits({})
        self.assertNotIn("wired", e.mx.limits)
        self.assertEqual(e.device, "CPU")

    def test_stats_without_proc(self):
        e = engine(types.SimpleNamespace(get_active_memory=lambda: 3 * GiB, get_cache_memory=lambda: GiB,
                                         get_peak_memory=lambda: 5 * GiB))
        with mock.patch("builtins.open", side_effect=FileNotFoundError):
            got = e.stats()
        self.assertEqual((got["memory"], got["active"], got["peak"]), (4 * GiB, 3 * GiB, 5 * GiB))

    def test_metal_compiles(self):
        for platform, want in (("darwin", None), ("linux", "1")):
            with mock.patch.object(sys, "platform", platform), mock.patch.dict(os.environ, clear=True):
                worker.environment()
                self.assertEqual(os.environ.get("MLX_DISABLE_COMPILE"), want)
                self.assertEqual(os.environ["HF_HUB_OFFLINE"], "1")


    def test_only_a_cpu_waits_for_layers(self):
        for gpu, slow, piece in ((True, False, 256), (False, True, 8)):
            e = engine(fake_mlx(gpu, self.M3), "--memory", str(32 * GiB))
            e.mx.eval = e.mx.clear_cache = lambda *_: None
            e.pipes = types.SimpleNamespace(send=lambda *_: None, canceled=mock.Mock(is_set=lambda: False))
            model = types.SimpleNamespace(parameters=lambda: None)
            e.utils = types.SimpleNamespace(load_model=lambda *_, **__: (model, {}),
                                            get_total_parameters=lambda _: 20e9)
            e.Path = str
            e.flatten = lambda _: [("weight", types.SimpleNamespace(nbytes=12 * GiB))]
            with mock.patch.multiple(e, import_mlx=lambda: None, warm_up=lambda: None, plan=lambda q: None,
                                     loaded=lambda total: {}), mock.patch("os.path.isdir", return_value=True):
                e.load({"path": "m"})
            self.assertEqual((e.slow, e.piece), (slow, piece))


class Sequences(unittest.TestCase):
    def test_copies_leave_small_gaps(self):
        s = worker.Sequence([])
        for n in range(100, 4000, 100):
            s.keep(types.SimpleNamespace(length=n))
        lengths = [c.length for c in s.copies]
        self.assertEqual((len(lengths), lengths[-1]), (worker.KEPT, 3900))
        self.assertEqual(lengths, sorted(lengths))

    def test_memory_over_the_limit_breaks(self):
        e = engine(types.SimpleNamespace(get_active_memory=lambda: 2 * GiB, get_cache_memory=lambda: 0,
                                         clear_cache=lambda: None))
        e.memory = GiB
        self.assertRaises(MemoryError, e.check_memory)


if __name__ == "__main__":
    unittest.main()
