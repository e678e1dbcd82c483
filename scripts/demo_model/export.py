"""Writes a checkpoint as GGUF: python export.py OUT/checkpoint.pt model.gguf [--raw]

Experts are stored in MXFP4 (ggml type 39), attention, embeddings and the output matrix in F16, everything else in F32.
--raw exports the last weights instead of their running average.
"""

import argparse
import hashlib
import struct
from pathlib import Path

import numpy as np
import torch

from model import MXFP4_VALUES, Config
from tokenizer import CONTROL, Tokenizer

HERE = Path(__file__).parent
ALIGN = 32
F32, F16, MXFP4 = 0, 1, 39
U32, I32, FLOAT, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
NORMAL, CONTROL_TYPE = 1, 3


def text(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def value(kind, v):
    if kind == STRING:
        return text(v)
    return struct.pack({U32: "<I", I32: "<i", FLOAT: "<f", BOOL: "<?"}[kind], v)


def field(key, kind, v):
    if isinstance(v, (list, tuple)):
        return text(key) + struct.pack("<IIQ", ARRAY, kind, len(v)) + b"".join(value(kind, x) for x in v)
    return text(key) + struct.pack("<I", kind) + value(kind, v)


def pack_mxfp4(w):
    """Blocks of 32 along the last axis: one exponent byte and 16 bytes of two values each."""
    b = w.float().reshape(-1, 32)
    amax = b.abs().amax(dim=1, keepdim=True)
    exponent = torch.where(amax > 0, torch.floor(torch.log2(amax)) - 2, torch.zeros_like(amax))
    x = b / torch.exp2(exponent)
    table = torch.tensor(MXFP4_VALUES)
    code = torch.bucketize(x.abs(), (table[1:] + table[:-1]) / 2)
    code = (code + torch.where(x < 0, 8, 0)).to(torch.uint8).numpy()
    out = np.empty((len(code), 17), np.uint8)
    out[:, 0] = (exponent[:, 0].to(torch.int32) + 127).clamp(0, 254).numpy().astype(np.uint8)
    out[:, 1:] = code[:, :16] | code[:, 16:] << 4
    return out.tobytes()


def encode(w, kind):
    if kind == F32:
        return w.float().numpy().tobytes()
    if kind == F16:
        return w.float().numpy().astype(np.float16).tobytes()
    return pack_mxfp4(w)


def tensors(w, cfg):
    yield "token_embd.weight", w["embed"], F16
    yield "output_norm.weight", w["norm"], F32
    yield "output.weight", w["head"], F16
    names = (("attn_norm.weight", "attn_norm", F32), ("attn_q.weight", "q.weight", F16), ("attn_q.bias", "q.bias", F32),
             ("attn_k.weight", "k.weight", F16), ("attn_k.bias", "k.bias", F32), ("attn_v.weight", "v.weight", F16),
             ("attn_v.bias", "v.bias", F32), ("attn_output.weight", "o.weight", F16),
             ("attn_output.bias", "o.bias", F32),
             ("attn_sinks.weight", "sinks", F32), ("post_attention_norm.weight", "ffn_norm", F32),
             ("ffn_gate_inp.weight", "router.weight", F32), ("ffn_gate_inp.bias", "router.bias", F32),
             ("ffn_gate_exps.weight", "gate", MXFP4), ("ffn_gate_exps.bias", "gate_b", F32),
             ("ffn_up_exps.weight", "up", MXFP4), ("ffn_up_exps.bias", "up_b", F32),
             ("ffn_down_exps.weight", "down", MXFP4), ("ffn_down_exps.bias", "down_b", F32))
    for i in range(cfg.layers):
        for name, key, kind in names:
            yield f"blk.{i}.{name}", w[f"layers.{i}.{key}"], kind


def metadata(cfg, tok):
    a = "gpt-oss"
    ids = tok.control
    types = [NORMAL] * (len(tok.tokens) - len(CONTROL)) + [CONTROL_TYPE] * len(CONTROL)
    return [
        ("general.architecture", STRING, a), ("general.type", STRING, "model"), ("general.name", STRING, "runner demo"),
        ("general.description", STRING, "A small gpt-oss-shaped model that reasons about small whole numbers, word problems, time, money and units, step by step."),
        ("general.license", STRING, "mit"), ("general.languages", STRING, ["en"]), ("general.file_type", U32, 38),
        ("general.quantization_version", U32, 2),
        (f"{a}.block_count", U32, cfg.layers), (f"{a}.context_length", U32, cfg.context),
        (f"{a}.embedding_length", U32, cfg.width), (f"{a}.feed_forward_length", U32, cfg.expert_width),
        (f"{a}.expert_feed_forward_length", U32, cfg.expert_width), (f"{a}.attention.head_count", U32, cfg.heads),
        (f"{a}.attention.head_count_kv", U32, cfg.kv_heads), (f"{a}.attention.key_length", U32, cfg.head_dim),
        (f"{a}.attention.value_length", U32, cfg.head_dim), (f"{a}.attention.sliding_window", U32, cfg.window),
        (f"{a}.attention.layer_norm_rms_epsilon", FLOAT, cfg.eps), (f"{a}.expert_count", U32, cfg.experts),
        (f"{a}.expert_used_count", U32, cfg.experts_used), (f"{a}.vocab_size", U32, cfg.vocab),
        (f"{a}.rope.dimension_count", U32, cfg.head_dim), (f"{a}.rope.freq_base", FLOAT, cfg.rope_base),
        (f"{a}.rope.scaling.type", STRING, "yarn"), (f"{a}.rope.scaling.factor", FLOAT, cfg.rope_factor),
        (f"{a}.rope.scaling.original_context_length", U32, cfg.rope_original),
        ("tokenizer.ggml.model", STRING, "gpt2"), ("tokenizer.ggml.pre", STRING, "gpt-4o"),
        ("tokenizer.ggml.tokens", STRING, tok.tokens), ("tokenizer.ggml.token_type", I32, types),
        ("tokenizer.ggml.merges", STRING, [f"{x} {y}" for x, y in tok.merges]),
        ("tokenizer.ggml.bos_token_id", U32, ids["<|startoftext|>"]), ("tokenizer.ggml.eos_token_id", U32,
        ids["<|return|>"]),
        ("tokenizer.ggml.padding_token_id", U32, ids["<|endoftext|>"]), ("tokenizer.ggml.add_bos_token", BOOL, False),
        ("tokenizer.chat_template", STRING, (HERE / "chat_template.jinja").read_text().rstrip("\n")),
    ]


def write(path, weights, cfg, tok):
    meta = metadata(cfg, tok)
    infos, blobs, offset = b"", [], 0
    listed = list(tensors(weights, cfg))
    for name, w, kind in listed:
        data = encode(w, kind)
        dims = list(reversed(w.shape))
        infos += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
        data += b"\0" * (-len(data) % ALIGN)
        blobs.append(data)
        offset += len(data)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(meta)) + b"".join(field(*m) for m in meta) + infos
    head += b"\0" * (-len(head) % ALIGN)
    body = head + b"".join(blobs)
    Path(path).write_bytes(body)
    return body


def main():
    p = argparse.ArgumentParser()
    p.add_argument("checkpoint")
    p.add_argument("gguf")
    p.add_argument("--tokenizer", default=str(HERE / "tokenizer.json"))
    p.add_argument("--raw", action="store_true")
    a = p.parse_args()
    state = torch.load(a.checkpoint, map_location="cpu")
    weights = {**state["model"], **({} if a.raw else state["average"])}
    body = write(a.gguf, weights, Config(**state["config"]), Tokenizer.load(a.tokenizer))
    print(f"{a.gguf}: {len(body):,} bytes, step {state['step']}, sha256 {hashlib.sha256(body).hexdigest()}")


if __name__ == "__main__":
    main()
