"""Modules written in Rust (PyO3): pydantic's core that calls validators of Python, orjson with a default function, cryptography,
tokenizers with threads of rayon."""

import threading
from typing import List

import orjson
import pydantic
from _truth import burn, part
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

PYPI = ["orjson", "pydantic", "cryptography", "tokenizers"]
ENV = {"TOKENIZERS_PARALLELISM": "true", "RAYON_NUM_THREADS": "4"}


class Point(pydantic.BaseModel):
    x: int
    y: float

    @pydantic.field_validator("x")
    @classmethod
    def positive(cls, value):
        burn(20)
        if value % 50 == 49:
            raise ValueError("no")
        return value + 1


class Path(pydantic.BaseModel):
    points: List[Point]  # -> *


class Odd:
    pass


def default(value):
    burn(20)
    return "odd"


def validated(n):
    wrong = total = 0
    for i in range(n):
        try:
            made = Path.model_validate({"points": [{"x": i + j, "y": j / 2} for j in range(20)]})  # -> *
            total += sum(point.x for point in made.points)
            total += len(made.model_dump_json())  # -> *
        except pydantic.ValidationError:
            wrong += 1
    return wrong, total


def dumped(n):
    return sum(len(orjson.dumps([{"a": i, "b": Odd()} for i in range(200)], default=default)) for _ in range(n))  # -> *


def sealed(n):
    seal = Fernet(b"A" * 43 + b"=")  # -> *
    key = ed25519.Ed25519PrivateKey.from_private_bytes(b"k" * 32)  # -> *
    total = 0
    for i in range(n):
        total += len(seal.decrypt(seal.encrypt(b"word" * (i % 500))))  # -> *
        total += key.sign(b"%d" % i)[0]
    return total


def keys(n):
    return [rsa.generate_private_key(public_exponent=65537, key_size=1024 + 256 * i).key_size for i in range(n)]  # -> *


def tokens(n):
    texts = [" ".join(f"w{i * j % 701}x{j % 13}" for j in range(60)) for i in range(400)]
    tokenizer = Tokenizer(models.BPE(unk_token="?"))  # -> *
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()  # -> *
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=900, special_tokens=["?"], show_progress=False))  # -> *
    return sum(len(one.ids) > 0 for _ in range(n) for one in tokenizer.encode_batch(texts))  # -> *


def heavy(n):
    return validated(n)


def main():
    results = {}
    work = {
        "validated": (validated, 300),
        "dumped": (dumped, 60),
        "sealed": (sealed, 2500),
        "keys": (keys, 3),
        "tokens": (tokens, 4),
    }

    def each(name):
        results[name] = work[name][0](work[name][1])  # -> validated dumped sealed keys tokens

    threads = [threading.Thread(target=each, args=(name,)) for name in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with part("heavy"):
        total = heavy(4000)
    print(sorted(results.items()), total)


if __name__ == "__main__":
    main()
