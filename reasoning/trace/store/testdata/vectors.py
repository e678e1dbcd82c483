"""Writes vectors.json: the chain, the signatures and the texts of a store, made from the package's description alone.

Needs the package PyNaCl (1.6 was used). Run it in this folder. Its output does not change from run to run.
"""
import base64
import hashlib
import json
import struct

from nacl.bindings import crypto_sign, crypto_sign_seed_keypair

COMPLETE, CUT, ERASED, BEGUN = 1, 2, 3, 4


def fixed(label, n):
    return hashlib.shake_256(label.encode()).digest(n)


def text(prefix, data):
    return prefix + base64.urlsafe_b64encode(data).decode().rstrip("=")


SEED = fixed("seed", 32)
PUBLIC, SECRET = crypto_sign_seed_keypair(SEED)


def signature(message):
    return crypto_sign(message, SECRET)[:64]


def sized(s):
    return struct.pack(">I", len(s.encode())) + s.encode()


def entry(number, kind, trace, at, began, size, digest, principal, model, previous):
    digest_of = hashlib.sha256(b"runner/trace/v1 entry\0" + struct.pack(">QB", number, kind) + trace + struct.pack(">QQQ", at, began, size)
                               + digest + sized(principal) + sized(model) + previous).digest()
    signed = signature(b"runner/trace/v1 head\0" + struct.pack(">Q", number) + digest_of)
    return {"number": number, "kind": kind, "trace": trace.hex(), "at": at, "began": began, "size": size, "digest": digest.hex(),
            "principal": principal, "model": model, "previous": previous.hex(), "hash": digest_of.hex(), "signature": signed.hex(),
            "head": text("rthead1-", struct.pack(">Q", number) + digest_of + PUBLIC + signed)}


def pieces(trace, blobs):
    done, out = b"", []
    for number, blob in enumerate(blobs):
        done += blob
        message = b"runner/trace/v2 piece\0" + trace + struct.pack(">QQ", number, len(done)) + hashlib.sha256(done).digest()
        out.append({"trace": trace.hex(), "number": number, "data": blob.hex(), "signature": signature(message).hex()})
    return out


FIRST, SECOND = fixed("first", 16), fixed("second", 16)
BLOBS = [fixed("header", 138), fixed("chunk 0", 300), fixed("chunk 1", 200)]
ALL = b"".join(BLOBS)
HEADER = hashlib.sha256(BLOBS[0]).digest()
chain, before = [], bytes(32)
for fields in [
    (BEGUN, FIRST, 1000, 999, len(BLOBS[0]), HEADER, "local", "sha256:12"),
    (COMPLETE, FIRST, 2000, 999, len(ALL), hashlib.sha256(ALL).digest(), "local", "sha256:12"),
    (BEGUN, SECOND, 3000, 2999, len(BLOBS[0]), HEADER, "größer", ""),
    (CUT, SECOND, 4000, 2999, len(BLOBS[0]), HEADER, "größer", ""),
    (ERASED, FIRST, 5000, 0, 0, bytes(32), "", ""),
]:
    chain.append(entry(len(chain) + 1, *fields, before))
    before = bytes.fromhex(chain[-1]["hash"])

with open("vectors.json", "w", encoding="utf-8") as f:
    json.dump({"seed": SEED.hex(), "public": text("rtsign1-", PUBLIC + hashlib.sha256(b"runner/trace/v1 signer\0" + PUBLIC).digest()[:4]),
               "chain": chain, "pieces": pieces(FIRST, BLOBS) + pieces(SECOND, BLOBS[:1])}, f, ensure_ascii=False, indent=1)
    f.write("\n")
