"""Writes vectors.json: sealed traces made from the format's description alone, and blobs that are to be refused.

Needs the package PyNaCl (1.6 was used). Run it in this folder. Its output does not change from run to run.
"""
import hashlib
import hmac
import json
import struct

from nacl.bindings import crypto_box, crypto_scalarmult_base, crypto_secretbox

CLASSES = [1024, 2048, 4096, 8192, 16384]


def fixed(label, n):
    return hashlib.shake_256(label.encode()).digest(n)


def sealed_box(message, public, secret):
    """crypto_box_seal with a key pair that is given instead of drawn."""
    own = crypto_scalarmult_base(secret)
    nonce = hashlib.blake2b(own + public, digest_size=24).digest()
    return own + crypto_box(message, nonce, public, secret)


def header(trace_id, key, recipients, version=1):
    out = b"rtrace\r\n" + bytes([version, len(recipients)]) + trace_id
    for i, public in enumerate(recipients):
        out += public + sealed_box(key, public, fixed(f"box {i}", 32))
    return out


def plaintext(payload, size=None):
    plain = struct.pack(">I", len(payload)) + payload
    return plain.ljust(size or next(c for c in CLASSES if c >= len(plain)), b"\0")


def chunk(head, key, number, last, plain):
    key = hmac.new(key, b"runner/trace/v1 chunks\0" + head, hashlib.sha256).digest()
    box = crypto_secretbox(plain, bytes(15) + struct.pack(">Q", number) + bytes([last]), key)
    return struct.pack(">IB", len(box), last) + box


def blob(head, key, payloads):
    end = len(payloads) - 1
    return head + b"".join(chunk(head, key, i, int(i == end), plaintext(p)) for i, p in enumerate(payloads))


SECRETS = [fixed(f"recipient {i}", 32) for i in range(4)]
PUBLICS = [crypto_scalarmult_base(s) for s in SECRETS]
KEY, OTHER_KEY = fixed("trace key", 32), fixed("other trace key", 32)
ID, OTHER_ID = fixed("id", 16), fixed("other id", 16)

traces = []
for name, recipients, payloads in [
    ("nothing", [0], [b""]),
    ("one record", [0], [b'{"a":1}\n']),
    ("three recipients", [2, 0, 1], [b'{"a":1}\n', '{"b":"größer"}\n'.encode()]),
    ("a record over three chunks", [0], [b"a" * 16380, b"b" * 16380, b"c\nend\n"]),
    ("classes full and begun", [0], [b"a" * 1019 + b"\n", b"b" * 1020 + b"\n", b"c" * 4091 + b"\n", b"d" * 4092 + b"\n"]),
    ("an empty last chunk", [0], [b"x\n", b""]),
]:
    head = header(ID, KEY, [PUBLICS[i] for i in recipients])
    traces.append({"name": name, "id": ID.hex(), "key": KEY.hex(), "recipients": [PUBLICS[i].hex() for i in recipients],
                   "boxes": [fixed(f"box {i}", 32).hex() for i in range(len(recipients))],
                   "identities": [SECRETS[i].hex() for i in recipients], "payloads": [p.hex() for p in payloads],
                   "blob": blob(head, KEY, payloads).hex()})

HEAD = header(ID, KEY, PUBLICS[:2])
CHUNKS = [chunk(HEAD, KEY, 0, 0, plaintext(b"one\n")), chunk(HEAD, KEY, 1, 0, plaintext(b"two\n")), chunk(HEAD, KEY, 2, 1, plaintext(b"three\n"))]
GOOD = HEAD + b"".join(CHUNKS)
refused = []


def refuse(name, code, data, records=0, identity=0):
    refused.append({"name": name, "code": code, "records": records, "identity": SECRETS[identity].hex(), "blob": data.hex()})


refuse("another key", "trace_not_recipient", GOOD, identity=3)
refuse("empty", "trace_truncated", b"")
refuse("half a header", "trace_truncated", HEAD[:100])
refuse("header alone", "trace_truncated", HEAD)
refuse("cut after the first chunk", "trace_truncated", HEAD + CHUNKS[0], 1)
refuse("cut before the last byte", "trace_truncated", GOOD[:-1], 2)
refuse("one byte more", "trace_tampered", GOOD + b"\0", 2)
refuse("a chunk after the last", "trace_tampered", GOOD + CHUNKS[2], 2)
refuse("the first chunk missing", "trace_tampered", HEAD + CHUNKS[1] + CHUNKS[2])
refuse("a chunk missing", "trace_tampered", HEAD + CHUNKS[0] + CHUNKS[2], 1)
refuse("chunks exchanged", "trace_tampered", HEAD + CHUNKS[1] + CHUNKS[0] + CHUNKS[2])
refuse("a chunk twice", "trace_tampered", HEAD + CHUNKS[0] + CHUNKS[0] + CHUNKS[2], 1)
refuse("a chunk called the last", "trace_tampered", HEAD + CHUNKS[0][:4] + b"\1" + CHUNKS[0][5:])
refuse("the last chunk called another", "trace_tampered", HEAD + CHUNKS[0] + CHUNKS[1] + CHUNKS[2][:4] + b"\0" + CHUNKS[2][5:], 2)
refuse("last is two", "trace_tampered", HEAD + CHUNKS[0][:4] + b"\2" + CHUNKS[0][5:])
refuse("version 0", "trace_version", GOOD[:8] + b"\0" + GOOD[9:])
refuse("version 2", "trace_version", GOOD[:8] + b"\2" + GOOD[9:])
refuse("another beginning", "trace_tampered", b"R" + GOOD[1:])
refuse("no recipients", "trace_tampered", GOOD[:9] + b"\0" + GOOD[10:])
refuse("33 recipients", "trace_tampered", GOOD[:9] + b"\x21" + GOOD[10:])
refuse("another id", "trace_tampered", GOOD[:10] + OTHER_ID + GOOD[26:])
refuse("a recipient left out", "trace_tampered", HEAD[:9] + b"\1" + HEAD[10:26 + 112] + b"".join(CHUNKS))
refuse("a recipient added", "trace_tampered", header(ID, KEY, PUBLICS[:3]) + b"".join(CHUNKS))
refuse("recipients exchanged", "trace_tampered", HEAD[:26] + HEAD[26 + 112:] + HEAD[26:26 + 112] + b"".join(CHUNKS))
refuse("the other recipient replaced", "trace_tampered", HEAD[:26 + 112] + PUBLICS[3] + HEAD[26 + 144:] + b"".join(CHUNKS))
refuse("the trace's key altered", "trace_tampered", HEAD[:26 + 100] + bytes([HEAD[126] ^ 1]) + HEAD[127:] + b"".join(CHUNKS))
OTHER_HEAD = header(ID, OTHER_KEY, PUBLICS[:2])
refuse("chunks of another trace", "trace_tampered", OTHER_HEAD + b"".join(CHUNKS))
refuse("the header of another trace and its first chunk", "trace_tampered",
       OTHER_HEAD + chunk(OTHER_HEAD, OTHER_KEY, 0, 0, plaintext(b"one\n")) + CHUNKS[1] + CHUNKS[2], 1)
refuse("a length of 4 GiB", "trace_tampered", HEAD + b"\xff\xff\xff\xff" + CHUNKS[0][4:])
refuse("a length of no class", "trace_tampered", HEAD + struct.pack(">I", 1041) + CHUNKS[0][4:])
refuse("a length of the next class", "trace_tampered", HEAD + struct.pack(">I", 2064) + CHUNKS[0][4:] + CHUNKS[1] + CHUNKS[2])


def authentic(name, plain, last=1):
    refuse("authentic, " + name, "trace_tampered", HEAD + chunk(HEAD, KEY, 0, last, plain))


# What only a holder of the key could make.
authentic("payload longer than the plaintext", struct.pack(">I", 1021) + bytes(1020))
authentic("payload of 4 GiB", b"\xff\xff\xff\xff" + bytes(1020))
authentic("padding is not zero", plaintext(b"one\n")[:-1] + b"\1")
authentic("larger class than needed", plaintext(b"one\n", 2048))
authentic("empty, and not the last", plaintext(b""), 0)
authentic("half a record at the end", plaintext(b"one"))
authentic("an empty record", plaintext(b"\n"))

with open("vectors.json", "w", encoding="utf-8") as f:
    json.dump({"traces": traces, "refused": refused}, f, ensure_ascii=False, indent=1)
    f.write("\n")
