"""Writes vectors.json: sealed values made from the format's description alone, and values that are to be refused.

Needs the package PyNaCl (1.6 was used). Run it in this folder. Its output does not change from run to run.
"""
import base64
import hashlib
import json
import struct

from nacl.bindings import crypto_secretbox

MIN_CLASS = 256


def digest(name, *parts):
    h = hashlib.sha256()
    for s in ("runner/seal/v1 " + name, *parts):
        b = s if isinstance(s, bytes) else s.encode()
        h.update(struct.pack(">Q", len(b)) + b)
    return h.digest()


def size_class(n):
    size, step = MIN_CLASS, MIN_CLASS // 4
    while size < n:
        size += step
        if size == step * 8:
            step *= 2
    return size


def key_id(key):
    return digest("key id", key)[:8]


def bound(b):
    conversation = digest("conversation id", b["conversation_id"]) if "conversation_id" in b \
        else digest("conversation message", b["first_user_message"])
    entity = digest("entity id", b["entity_id"]) if "entity_id" in b else digest("entity messages", *b["preceding"])
    return digest("principal", b["principal"]) + conversation + entity + digest("model", b["model"])


def plaintext(b, text, version=1):
    plain = bytes([version]) + bound(b) + struct.pack(">I", len(text)) + text
    return plain.ljust(size_class(len(plain)), b"\0")


def spell(raw):
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def box(key, nonce, plain, version=1):
    return bytes([version]) + key_id(key) + nonce + crypto_secretbox(plain, nonce, key)


def fixed(label, n):
    return hashlib.shake_256(label.encode()).digest(n)


KEY, OTHER = fixed("key", 32), fixed("other key", 32)
BY_ID = {"principal": "key-7", "conversation_id": "thread-1", "entity_id": "msg-1", "model": "sha256:1234"}
BY_MESSAGE = {"principal": "local", "first_user_message": "What is 17 + 25?",
              "preceding": ["What is 17 + 25?"], "model": "sha256:1234"}
AFTER_TOOLS = {"principal": "local", "first_user_message": "", "preceding": ["{\"sum\": 42}", "", "größer"], "model": "m"}

values = []
for name, key, binding, text in [
    ("ids", KEY, BY_ID, "17 + 25 = 42."),
    ("messages", KEY, BY_MESSAGE, "Ones: 7+5=12, so I write 2 and carry 1.\n"),
    ("several tool messages", OTHER, AFTER_TOOLS, "größer als 41 \U0001f60a"),
    ("nothing precedes", KEY, {**BY_MESSAGE, "preceding": []}, "x"),
    ("empty text", KEY, BY_ID, ""),
    ("the first class is full", KEY, BY_ID, "a" * 123),
    ("the second class begins", KEY, BY_ID, "a" * 124),
    ("zeros at the end", KEY, BY_ID, "a\0\0"),
    ("the last quarter step is full", KEY, BY_ID, "b" * (1024 - 133)),
    ("a new power of two begins", KEY, BY_ID, "b" * (1024 - 133 + 1)),
]:
    nonce = fixed("nonce " + name, 24)
    values.append({"name": name, "key": key.hex(), "key_id": key_id(key).hex(), "nonce": nonce.hex(), "binding": binding,
                   "text": text, "value": spell(box(key, nonce, plaintext(binding, text.encode())))})

NONCE = fixed("nonce of refused values", 24)
GOOD = box(KEY, NONCE, plaintext(BY_ID, b"text"))
refused = []


def refuse(name, code, value, binding=BY_ID, keys=(KEY,)):
    refused.append({"name": name, "code": code, "keys": [k.hex() for k in keys], "binding": binding, "value": value})


for part, other in [("principal", "key-8"), ("conversation_id", "thread-2"), ("entity_id", "msg-2"), ("model", "sha256:1235")]:
    refuse("another " + part, "sealed_foreign", spell(GOOD), {**BY_ID, part: other})
refuse("an id is not a message", "sealed_foreign", spell(GOOD),
       {"principal": "key-7", "first_user_message": "thread-1", "entity_id": "msg-1", "model": "sha256:1234"})
refuse("parts exchanged", "sealed_foreign", spell(GOOD),
       {"principal": "key-7", "conversation_id": "msg-1", "entity_id": "thread-1", "model": "sha256:1234"})
refuse("messages joined", "sealed_foreign", spell(box(KEY, NONCE, plaintext({**BY_MESSAGE, "preceding": ["a", "bc"]}, b"text"))),
       {**BY_MESSAGE, "preceding": ["ab", "c"]})
refuse("key not held", "sealed_unknown_key", spell(GOOD), keys=[OTHER])
refuse("key id altered", "sealed_unknown_key", spell(GOOD[:1] + bytes([GOOD[1] ^ 1]) + GOOD[2:]))
refuse("key id of another key", "sealed_tampered", spell(GOOD[:1] + key_id(OTHER) + GOOD[9:]), keys=[KEY, OTHER])
refuse("empty", "sealed_tampered", "")
refuse("version 0", "sealed_tampered", spell(b"\0" + GOOD[1:]))
refuse("version 2", "sealed_tampered", spell(b"\2" + GOOD[1:]))
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
PLAIN = plaintext(BY_ID, b"text")
for name, plain in [
    ("authentic, version 2 inside", plaintext(BY_ID, b"text", version=2)),
    ("authentic, text longer than the plaintext", PLAIN[:129] + struct.pack(">I", 200) + PLAIN[133:]),
    ("authentic, length of 4 GiB", PLAIN[:129] + b"\xff\xff\xff\xff" + PLAIN[133:]),
    ("authentic, padding is not zero", PLAIN[:-1] + b"\1"),
    ("authentic, larger class than needed", PLAIN + bytes(64)),
]:
    refuse(name, "sealed_tampered", spell(box(KEY, NONCE, plain)))
refuse("authentic, without a plaintext", "sealed_tampered", spell(box(KEY, NONCE, b"")))
refuse("authentic, padding not zero, in another place", "sealed_foreign", spell(box(KEY, NONCE, PLAIN[:-1] + b"\1")),
       {**BY_ID, "principal": "key-8"})

with open("vectors.json", "w", encoding="utf-8") as f:
    json.dump({"values": values, "refused": refused}, f, ensure_ascii=False, indent=1)
    f.write("\n")
