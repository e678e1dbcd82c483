"""Writes the files of this folder: small tokenizers and what Hugging Face's tokenizers library makes of some texts.

Needs the package tokenizers (0.23 was used). Run it in this folder. Its output does not change from run to run.
"""
import json
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LOOSE = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def split(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])


KINDS = {
    "gpt-4o": split(GPT4O),
    "llama3": split(LOOSE % r"\p{N}{1,3}"),
    "qwen2": split(LOOSE % r"\p{N}"),
    "gpt2": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "starcoder": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
    pre_tokenizers.ByteLevel(add_prefix_space=False)]),
}

PARTS = ["the", "The", "THE", "HelloWorld", "naïve", "Straße", "ÉCOLE", "don't", "DON'T", "we'Ve", "'ſ", "日本語", "中文A",
         "русский", "हिन्दी",
         "e\u0301", "\u0301A", "ǅ", "1", "123", "1234567", "٣٤", "½", " ", "  ", "   ", "\t", "\n", "\r\n", "\n\n",
         " \n ", "\u00a0",
         "\u3000", ".", "...", "!?", "//", "*/\n", "};\n", "->", "__init__", "</div>\n/", "€", "👍🏽", "\x00",
         "if (x) {\n\treturn 1;\n}\n"]


def text(r):
    return "".join((" " if r.random() < 0.3 else "") + r.choice(PARTS) for _ in range(r.randint(1, 25)))


r = random.Random(1)
training = [text(r) for _ in range(400)]
for name, pre in KINDS.items():
    t = Tokenizer(models.BPE(ignore_merges=name == "llama3"))
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(training, trainers.BpeTrainer(
        vocab_size=480, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>"]))
    t.add_tokens([AddedToken("        ", normalized=False)])
    with open(name + ".json", "w", encoding="utf-8") as f:
        json.dump(json.loads(t.to_str()), f, ensure_ascii=True, separators=(",", ":"))
    cases = []
    for _ in range(150):
        s = text(r)
        if r.random() < 0.1:
            s += " " * r.randint(8, 20) + "x"
        cases.append([s, t.encode(s, add_special_tokens=False).ids])
    with open(name + ".golden.json", "w", encoding="utf-8") as f:
        json.dump(cases, f, ensure_ascii=True, separators=(",", ":"))
