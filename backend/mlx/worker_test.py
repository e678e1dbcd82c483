"""Tests of the worker that need no MLX: python worker_test.py"""

import os
import resource
import sys
import types
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from worker import caches, main, memory, model, protocol  # noqa: E402

GiB = 1 << 30


def fake_mlx(gpu, info):
    """Returns a module that records the limits that are set."""
    mx = types.SimpleNamespace(gpu="gpu", cpu="cpu", limits={})
    mx.default_device = lambda: mx.gpu if gpu else mx.cpu
    mx.device_info = lambda: info
    for name in ("memory", "cache", "wired"):
        setattr(mx, f"set_{name}_limit", lambda n, name=name: mx.limits.__setitem__(name, n))
    return mx


def limits(mx, most=0, **request):
    return memory.Memory(mx, most, request)


class AppleLimits(unittest.TestCase):
    M3 = {"device_name": "Apple M3 Max", "architecture": "applegpu_g15s", "memory_size": 64 * GiB,
          "max_recommended_working_set_size": 48 * GiB}

    def test_the_working_set_is_the_limit(self):
        mx = fake_mlx(True, self.M3)
        m = limits(mx)
        self.assertEqual(mx.limits, {"memory": 48 * GiB, "cache": 2 * GiB, "wired": 48 * GiB})
        self.assertEqual((m.device, m.gpu), ("Apple M3 Max", True))

    def test_the_user_can_choose_less(self):
        mx = fake_mlx(True, self.M3)
        limits(mx, 16 * GiB, others=[4 * GiB])
        self.assertEqual(mx.limits, {"memory": 12 * GiB, "cache": 12 * GiB // 8, "wired": 12 * GiB})

    def test_more_than_the_working_set_is_not_wired(self):
        mx = fake_mlx(True, self.M3)
        limits(mx, 60 * GiB)
        self.assertEqual(mx.limits["wired"], 48 * GiB)

    def test_other_models_leave_less(self):
        reserved = {"mapped": 4 * GiB, "private": 20 * GiB, "untouched": 3 * GiB}
        for limit, want in (0, 24 * GiB), (16 * GiB, 16 * GiB), (40 * GiB, 24 * GiB):
            self.assertEqual(limits(fake_mlx(True, self.M3), limit, reserved=reserved).limit, want)
        m = limits(fake_mlx(True, self.M3), reserved={"mapped": 0, "private": 60 * GiB})
        self.assertEqual(m.limit, 1 << 20)

    def test_a_cpu_wires_nothing(self):
        mx = fake_mlx(False, {"device_name": "EPYC"})
        m = limits(mx)
        self.assertNotIn("wired", mx.limits)
        self.assertEqual(m.device, "CPU")

    def test_the_kernel_limits_a_cpu_too(self):
        for gpu, platform, most, set_it in ((False, "linux", GiB, True), (False, "linux", 0, False),
                                            (True, "linux", GiB, False), (False, "darwin", GiB, False)):
            with mock.patch.object(sys, "platform", platform), mock.patch("resource.setrlimit") as limit, \
                    mock.patch.object(memory, "private", lambda: 100 << 20):
                limits(fake_mlx(gpu, self.M3), most)
            want = [mock.call(resource.RLIMIT_DATA, (GiB + (356 << 20),) * 2)] if set_it else []
            self.assertEqual(limit.mock_calls, want)

    @unittest.skipUnless(sys.platform == "linux", "macOS has no such file")
    def test_what_counts_for_the_limit(self):
        before = memory.private()
        more = bytearray(64 << 20)
        self.assertLess(abs(memory.private() - before - len(more)), 8 << 20)

    def test_metal_compiles(self):
        for platform, want in (("darwin", None), ("linux", "1")):
            with mock.patch.object(sys, "platform", platform), mock.patch.dict(os.environ, clear=True):
                main.environment()
                self.assertEqual(os.environ.get("MLX_DISABLE_COMPILE"), want)
                self.assertEqual(os.environ["HF_HUB_OFFLINE"], "1")

    def test_only_a_cpu_waits_for_layers(self):
        for gpu, slow, piece in ((True, False, 256), (False, True, 8)):
            mx = fake_mlx(gpu, self.M3)
            mx.eval = lambda *_: None
            module = types.SimpleNamespace(parameters=lambda: None)
            utils = types.SimpleNamespace(load_model=lambda *_, **__: (module, {}), get_total_parameters=lambda _: 20e9)
            lib = types.SimpleNamespace(
                mx=mx, utils=utils, flatten=lambda _: [("weight", types.SimpleNamespace(nbytes=12 * GiB))])
            pipes = types.SimpleNamespace(send=lambda *_: None, canceled=mock.Mock(is_set=lambda: False))
            m = model.Model(lib, limits(mx, 32 * GiB), main.options([]), pipes, protocol.Progress(pipes))
            with mock.patch.object(m, "warm_up", lambda: None), mock.patch("os.path.isdir", return_value=True):
                m.load("m", {})
            self.assertEqual((m.slow, m.piece), (slow, piece))

    def test_memory_over_the_limit_breaks(self):
        mx = fake_mlx(True, self.M3)
        mx.get_active_memory, mx.get_cache_memory, mx.clear_cache = lambda: 2 * GiB, lambda: 0, lambda: None
        self.assertRaises(MemoryError, limits(mx, GiB).check)


class Sequences(unittest.TestCase):
    def test_copies_leave_small_gaps(self):
        s = caches.Sequence([])
        for n in range(100, 4000, 100):
            s.keep(types.SimpleNamespace(length=n))
        lengths = [c.length for c in s.copies]
        self.assertEqual((len(lengths), lengths[-1]), (caches.KEPT, 3900))
        self.assertEqual(lengths, sorted(lengths))


if __name__ == "__main__":
    unittest.main()
