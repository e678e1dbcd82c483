"""Writes vectors.json: sealed values made from the format's description alone, and values that are to be refused.

Needs the package PyNaCl (1.6 was used). Run it in this folder. Its output does not change from run to run.
"""
import base64
import hashlib
import hmac
import json
import struct

from nacl.bindings import crypto_secretbox

MIN_CLASS = 256
TEXT = 194  # where the text begins
NO_CALLS, WITH_CALLS = 1, 2


def hashed(name, *parts):
    h = hashlib.sha256()
    for s in (name, *parts):
        b = s if isinstance(s, bytes) else s.encode()
        h.update(struct.pack(">Q", len(b)) + b)
    return h.digest()


def digest(name, *parts):
    return hashed("runner/seal/v3 " + name, *parts)


def size_class(n):
    size, step = MIN_CLASS, MIN_CLASS // 4
    while size < n:
        size += step
        if size == step * 8:
            step *= 2
    return size


def key_id(key):
    return hashed("runner/seal/v1 key id", key)[:8]


def call_id(key, turn, i):
    mac = hmac.new(digest("call ids", key), turn + struct.pack(">Q", i), "sha256").digest()
    return "call_%s%02d" % (mac[:12].hex(), i)


def place(p):
    conversation = digest("conversation", *p["conversation"]) if p["conversation"] else bytes(32)
    key = digest("model key", p["key"]) if p["key"] else bytes(32)
    model = digest("model", p["model"]) if p["model"] else bytes(32)
    return digest("principal", p["principal"]) + conversation + key + model


def plaintext(p, t, text, version=3):
    question = bytes(32) if p["question"] is None else digest("question", p["question"])
    plain = bytes([version]) + place(p) + bytes.fromhex(t["turn"]) + struct.pack(">QIB", t["begun"], t["piece"], t["calls"]) + question
    plain += struct.pack(">I", len(text)) + text
    return plain.ljust(size_class(len(plain)), b"\0")


def spell(raw):
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def box(key, nonce, plain, version=3):
    return bytes([version]) + key_id(key) + nonce + crypto_secretbox(plain, nonce, key)


def fixed(label, n):
    return hashlib.shake_256(label.encode()).digest(n)


KEY, OTHER = fixed("key", 32), fixed("other key", 32)
TURN, TURN2 = fixed("turn", 16), fixed("other turn", 16)
# A turn without calls, one with calls, and one whose value was sealed before that was known.
QUIET = {"turn": TURN.hex(), "begun": 1_700_000_000_000_000, "piece": 0, "calls": NO_CALLS}
CALLING = {**QUIET, "calls": WITH_CALLS}
OPEN = {**QUIET, "calls": 0, "piece": 3}
THREAD = {"principal": "key-7", "key": "file:5678", "model": "sha256:1234", "conversation": ["thread", "thread-1"], "question": "What is 17 + 25?", "calls": []}
PLAIN = {**THREAD, "principal": "local", "conversation": None}
BESIDE = {**PLAIN, "calls": [call_id(KEY, TURN, 0), call_id(KEY, TURN, 1)]}

values = []
for name, key, at, turn, text in [
    ("in a thread", KEY, THREAD, QUIET, "17 + 25 = 42."),
    ("without an id of the conversation", KEY, PLAIN, QUIET, "Ones: 7+5=12, so I write 2 and carry 1.\n"),
    ("an empty question", OTHER, {**PLAIN, "question": ""}, QUIET, "größer als 41 \U0001f60a"),
    ("no question", KEY, {**PLAIN, "question": None}, QUIET, "x"),
    ("beside its calls", KEY, BESIDE, CALLING, "I call."),
    ("beside its second call, after another question", KEY, {**BESIDE, "calls": BESIDE["calls"][1:]}, {**CALLING, "begun": 2**63}, "I call."),
    ("beside its hundredth call", KEY, {**BESIDE, "calls": [call_id(KEY, TURN, 100)]}, CALLING, "I call."),
    ("sealed before its calls", KEY, BESIDE, OPEN, "I may call."),
    ("sealed before it was known to have no calls", KEY, PLAIN, OPEN, "I may call."),
    ("empty text", KEY, THREAD, QUIET, ""),
    ("the first class is full", KEY, THREAD, QUIET, "a" * (256 - TEXT)),
    ("the second class begins", KEY, THREAD, QUIET, "a" * (256 - TEXT + 1)),
    ("in other files", KEY, {**THREAD, "key": "file:5679"}, QUIET, "the same weights"),
    ("before the digest is known", KEY, {**THREAD, "model": ""}, QUIET, "the same files"),
    ("after the digest was known", KEY, {**THREAD, "model": "sha256:1236"}, QUIET, "the same files"),
    ("zeros at the end", KEY, THREAD, QUIET, "a\0\0"),
    ("the last quarter step is full", KEY, THREAD, QUIET, "b" * (1024 - TEXT)),
    ("a new power of two begins", KEY, THREAD, QUIET, "b" * (1024 - TEXT + 1)),
]:
    nonce = fixed("nonce " + name, 24)
    sealed_at = {**at, "question": "Another?"} if "another question" in name else at
    sealed_at = {**sealed_at, **{"in other files": {"key": "file:5678"}, "after the digest was known": {"model": ""},
                                 "before the digest is known": {"model": "sha256:1234"}}.get(name, {})}
    values.append({"name": name, "key": key.hex(), "key_id": key_id(key).hex(), "nonce": nonce.hex(), "place": at,
                   "question_sealed": sealed_at["question"], "key_sealed": sealed_at["key"], "model_sealed": sealed_at["model"], "turn": turn, "text": text,
                   "value": spell(box(key, nonce, plaintext(sealed_at, turn, text.encode())))})

NONCE = fixed("nonce of refused values", 24)
GOOD = box(KEY, NONCE, plaintext(THREAD, QUIET, b"text"))
CALLED = box(KEY, NONCE, plaintext(BESIDE, CALLING, b"text"))
refused = []


def refuse(name, code, value, at=THREAD, keys=(KEY,)):
    refused.append({"name": name, "code": code, "keys": [k.hex() for k in keys], "place": at, "value": value})


for part, other in [("principal", "key-8"), ("model", "sha256:1235"), ("conversation", ["thread", "thread-2"]),
                    ("conversation", ["chain", "thread-1"]), ("conversation", None), ("question", "What is 17 + 26?"), ("question", None)]:
    refuse("another %s: %s" % (part, other), "sealed_foreign", spell(GOOD), {**THREAD, part: other})
refuse("parts exchanged", "sealed_foreign", spell(GOOD), {**THREAD, "principal": "sha256:1234", "model": "key-7"})
EARLY = box(KEY, NONCE, plaintext({**THREAD, "model": ""}, QUIET, b"text"))
KEYLESS = box(KEY, NONCE, plaintext({**THREAD, "key": ""}, QUIET, b"text"))
refuse("another model in the same files", "sealed_foreign", spell(GOOD), {**THREAD, "model": "sha256:1235", "key": "file:5678"})
refuse("sealed before the digest was known, in other files", "sealed_foreign", spell(EARLY), {**THREAD, "key": "file:5679"})
refuse("opened before the digest is known, in other files", "sealed_foreign", spell(GOOD), {**THREAD, "model": "", "key": "file:5679"})
refuse("nothing in common", "sealed_foreign", spell(EARLY), {**THREAD, "key": ""})
refuse("a key that neither has", "sealed_foreign", spell(KEYLESS), {**THREAD, "model": "", "key": "file:5678"})
refuse("no calls, beside calls", "sealed_foreign", spell(GOOD), {**THREAD, "calls": BESIDE["calls"]})
for name, calls in [
    ("no calls", []),
    ("another turn's", [call_id(KEY, TURN2, 0)]),
    ("one of another turn", [BESIDE["calls"][0], call_id(KEY, TURN2, 1)]),
    ("another key's", [call_id(OTHER, TURN, 0)]),
    ("another number", [BESIDE["calls"][0][:-1] + "1"]),
    ("a number spelled otherwise", [BESIDE["calls"][0] + "0"]),
    ("no number", [BESIDE["calls"][0][:-2]]),
    ("the client's", ["call_1"]),
]:
    refuse("calls, beside " + name, "sealed_foreign", spell(CALLED), {**BESIDE, "calls": calls})
refuse("undecided, beside another turn's call", "sealed_foreign", spell(box(KEY, NONCE, plaintext(BESIDE, OPEN, b"text"))),
       {**BESIDE, "calls": [call_id(KEY, TURN2, 0)]})
refuse("undecided, after another question", "sealed_foreign", spell(box(KEY, NONCE, plaintext(PLAIN, OPEN, b"text"))), {**PLAIN, "question": "?"})
refuse("begun before everything", "sealed_repeated", spell(box(KEY, NONCE, plaintext(THREAD, {**QUIET, "begun": 0}, b"text"))))
refuse("key not held", "sealed_unknown_key", spell(GOOD), keys=[OTHER])
refuse("key id altered", "sealed_unknown_key", spell(GOOD[:1] + bytes([GOOD[1] ^ 1]) + GOOD[2:]))
refuse("key id of another key", "sealed_tampered", spell(GOOD[:1] + key_id(OTHER) + GOOD[9:]), keys=[KEY, OTHER])
refuse("empty", "sealed_tampered", "")
refuse("version 0", "sealed_tampered", spell(b"\0" + GOOD[1:]))
refuse("version 1", "sealed_tampered", spell(b"\1" + GOOD[1:]))
refuse("version 2", "sealed_tampered", spell(b"\2" + GOOD[1:]))
refuse("version 1, under another key", "sealed_tampered", spell(b"\1" + GOOD[1:]), keys=[OTHER])
refuse("version 4", "sealed_tampered", spell(b"\4" + GOOD[1:]))
refuse("nonce altered", "sealed_tampered", spell(GOOD[:32] + bytes([GOOD[32] ^ 128]) + GOOD[33:]))
refuse("authenticator altered", "sealed_tampered", spell(GOOD[:33] + bytes([GOOD[33] ^ 1]) + GOOD[34:]))
refuse("last byte altered", "sealed_tampered", spell(GOOD[:-1] + bytes([GOOD[-1] ^ 1])))
refuse("header alone", "sealed_tampered", spell(GOOD[:33]))
refuse("cut by one byte", "sealed_tampered", spell(GOOD[:-1]))
refuse("longer by one byte", "sealed_tampered", spell(GOOD + b"\0"))
refuse("longer by a class", "sealed_tampered", spell(GOOD + bytes(64)))
refuse("padded base64", "sealed_tampered", spell(GOOD) + "=")
refuse("line break", "sealed_tampered", spell(GOOD)[:40] + "\n" + spell(GOOD)[40:])
refuse("line break in place of a character", "sealed_tampered", spell(GOOD)[:-1] + "\n")
refuse("plain base64", "sealed_tampered", base64.b64encode(GOOD).decode().rstrip("="))
STANDARD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
refuse("unused bits are not zero", "sealed_tampered", spell(GOOD)[:-1] + STANDARD[STANDARD.index(spell(GOOD)[-1]) + 1])

# What only a holder of the key could make.
INSIDE = plaintext(THREAD, QUIET, b"text")
for name, plain in [
    ("authentic, version 1 inside", plaintext(THREAD, QUIET, b"text", version=1)),
    ("authentic, text longer than the plaintext", INSIDE[:TEXT - 4] + struct.pack(">I", 200) + INSIDE[TEXT:]),
    ("authentic, length of 4 GiB", INSIDE[:TEXT - 4] + b"\xff\xff\xff\xff" + INSIDE[TEXT:]),
    ("authentic, padding is not zero", INSIDE[:-1] + b"\1"),
    ("authentic, larger class than needed", INSIDE + bytes(64)),
    ("authentic, unknown kind of calls", plaintext(THREAD, {**QUIET, "calls": 3}, b"text")),
]:
    refuse(name, "sealed_tampered", spell(box(KEY, NONCE, plain)))
refuse("authentic, without a plaintext", "sealed_tampered", spell(box(KEY, NONCE, b"")))
refuse("authentic, padding not zero, in another place", "sealed_foreign", spell(box(KEY, NONCE, INSIDE[:-1] + b"\1")),
       {**THREAD, "principal": "key-8"})

calls = [{"key": k.hex(), "turn": t.hex(), "number": i, "id": call_id(k, t, i)}
         for k, t, i in [(KEY, TURN, 0), (KEY, TURN, 1), (KEY, TURN, 99), (KEY, TURN, 100), (OTHER, TURN, 0), (KEY, TURN2, 0)]]

with open("vectors.json", "w", encoding="utf-8") as f:
    json.dump({"calls": calls, "values": values, "refused": refused}, f, ensure_ascii=False, indent=1)
    f.write("\n")
