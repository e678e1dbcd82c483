"""Reads the weights from a GGUF file written by export.py, so that training can continue from the committed model."""

import struct

import numpy as np
import torch

from export import ALIGN, ARRAY, BOOL, F16, F32, FLOAT, I32, MXFP4, STRING, U32, tensors
from model import MXFP4_VALUES

WIDTH = {U32: 4, I32: 4, FLOAT: 4, BOOL: 1}


class Reader:
    def __init__(self, body):
        self.body, self.at = body, 0

    def take(self, form):
        values = struct.unpack_from("<" + form, self.body, self.at)
        self.at += struct.calcsize("<" + form)
        return values if len(values) > 1 else values[0]

    def text(self):
        n = self.take("Q")
        self.at += n
        return self.body[self.at - n:self.at].decode()

    def skip(self, kind):
        if kind == STRING:
            self.text()
        elif kind == ARRAY:
            inner, n = self.take("IQ")
            for _ in range(n):
                self.skip(inner)
        else:
            self.at += WIDTH[kind]


def unpack_mxfp4(data):
    b = np.frombuffer(data, np.uint8).reshape(-1, 17)
    code = np.concatenate((b[:, 1:] & 15, b[:, 1:] >> 4), axis=1)
    table = np.array(MXFP4_VALUES + tuple(-v for v in MXFP4_VALUES), np.float32)
    return table[code] * np.exp2(b[:, :1].astype(np.float32) - 127)


def read(path, like, cfg):
    """The model's weights, under the names that they have in `like`, a state of the same shape."""
    with open(path, "rb") as f:
        r = Reader(f.read())
    magic, _, count, fields = r.take("4sIQQ")
    if magic != b"GGUF":
        raise ValueError(f"{path} is not a GGUF file")
    for _ in range(fields):
        r.text()
        r.skip(r.take("I"))
    infos = {}
    for _ in range(count):
        name = r.text()
        dims = [r.take("Q") for _ in range(r.take("I"))]
        kind, offset = r.take("IQ")
        infos[name] = dims[::-1], kind, offset
    start = -(-r.at // ALIGN) * ALIGN
    key_of = {id(v): k for k, v in like.items()}
    out = {}
    for name, w, _ in tensors(like, cfg):
        shape, kind, offset = infos[name]
        if shape != list(w.shape):
            raise ValueError(f"{name} is {shape} in {path}, and {list(w.shape)} here")
        n, at = w.numel(), start + offset
        if kind == MXFP4:
            values = unpack_mxfp4(r.body[at:at + n // 32 * 17])
        else:
            values = np.frombuffer(r.body, {F32: np.float32, F16: np.float16}[kind], n, at)
        out[key_of[id(w)]] = torch.from_numpy(np.array(values, np.float32).reshape(shape))
    return out
