"""What Python's dicts, sets, lists and instances have, read from a process's memory. All that is read is bounded, and nothing of
the program's is run: a key is compared by its characters, not by its __eq__."""

from __future__ import annotations

from typing import Dict, Iterator, Tuple

from .interpreter import Interpreter
from .memory import READ_MOST, Memory, Unreadable, fields
from .stacks import str_of, type_name

MASK = ~7  # of a tagged reference; an address has none of these bits
_MANAGED_DICT, _INLINE_VALUES = 1 << 4, 1 << 2  # Py_TPFLAGS_*
_GENERAL = 0  # DICT_KEYS_GENERAL: entries with hashes
_BASES_MOST = 8  # of a class that is looked for
_INDEX_SHIFT_MOST = 30


class Objects:
    """Reads them."""

    def __init__(self, memory: Memory, python: Interpreter) -> None:
        self.memory, self.python, self.at = memory, python, python.at
        self._kinds: Dict[int, str] = {}

    def forget(self) -> None:
        """Types may have gone, and others be where they were."""
        self.memory.forget()
        self._kinds.clear()

    def kind(self, address: int) -> str:
        """The name of an object's type. Raises Unreadable."""
        kind = self.memory.word(address + self.at["ob_type"])
        if kind not in self._kinds:
            self._kinds[kind] = type_name(self.memory, self.python, address)
        return self._kinds[kind]

    def is_a(self, address: int, wanted: int) -> bool:
        """Whether an object is of a type, or of a subclass. Raises Unreadable."""
        kind = self.memory.word(address + self.at["ob_type"])
        for _ in range(_BASES_MOST):
            if kind == wanted or not kind:
                break
            kind = self.memory.word(kind + self.at["type_base"])
        return kind == wanted

    def in_dict(self, dictionary: int, name: str) -> int:
        """The value of a key that is a str; 0: there is none. Raises Unreadable."""
        keys, values = fields("<QQ", self.memory.read(dictionary + self.at["dict_keys"], 16))
        return self._among(keys, values, name)

    def attribute(self, instance: int, name: str) -> int:
        """The value of an attribute that an instance has itself, not by a slot; 0: there is none. Raises Unreadable."""
        memory, at = self.memory, self.at
        kind = memory.word(instance + at["ob_type"])
        flags = memory.word(kind + at["type_flags"])
        if at["managed_dict"] < 0 or not flags & _MANAGED_DICT:
            place = memory.word(kind + at["type_dictoffset"])
            dictionary = memory.word(instance + place) if 0 < place < READ_MOST else 0
            return self.in_dict(dictionary, name) if dictionary else 0
        values, dictionary = 0, memory.word(instance - at["managed_dict"])
        if at["managed_values"] >= 0:
            values = memory.word(instance - at["managed_values"])
        elif at["values_tagged"] >= 0:
            values, dictionary = (dictionary + 1, 0) if dictionary & 1 else (0, dictionary)
        elif not dictionary and flags & _INLINE_VALUES:
            values = instance + memory.word(kind + at["type_basicsize"])
        if values:
            return self._among(memory.word(kind + at["type_keys"]), values, name)
        return self.in_dict(dictionary, name) if dictionary else 0

    def _among(self, keys: int, values: int, name: str) -> int:
        """`values`: an array of them in the order of the keys; 0: each is with its key."""
        first, step, count = self._entries(keys)
        data = self.memory.read(first, min(step * count, READ_MOST - READ_MOST % step))
        for number, place in enumerate(range(step - 16, len(data), step)):
            key, value = fields("<QQ", data[place : place + 16])
            if key and self._is(key, name):
                return self.memory.word(values + max(self.at["values_items"], 0) + 8 * number) if values else value
        return 0

    def _entries(self, keys: int) -> Tuple[int, int, int]:
        """Of a table of keys: the first entry, the distance to the next, and how many there are."""
        at = self.at
        (count,) = fields("<Q", self.memory.read(keys + at["keys_used"], 8))
        if at["keys_shape"]:
            (shape,) = fields("<I", self.memory.read(keys + 8, 4))
            shift, step = shape >> 8 & 255, 24 if shape >> 16 & 255 == _GENERAL else 16
            if shift > _INDEX_SHIFT_MOST:
                raise Unreadable("no table of keys")
            indices = 1 << shift
        else:
            slots, step = self.memory.word(keys + 8), 24
            indices = slots * (1 if slots <= 0xFF else 2 if slots <= 0xFFFF else 4)
        return keys + at["keys_used"] + 8 + indices, step, count

    def _is(self, key: int, name: str) -> bool:
        try:
            if self.memory.word(key + self.at["str_length"]) != len(name):
                return False
            return self.kind(key) == "str" and str_of(self.memory, self.python, key) == name
        except Unreadable:
            return False

    def in_set(self, address: int) -> Iterator[int]:
        """The objects of a set. Raises Unreadable."""
        slots = self.memory.word(address + self.at["set_mask"]) + 1
        table = self.memory.word(address + self.at["set_table"])
        for start in range(0, 16 * slots, READ_MOST):
            data = self.memory.read(table + start, min(READ_MOST, 16 * slots - start))
            for key, code in zip(*[iter(fields(f"<{len(data) // 8}q", data))] * 2):
                if key and code != -1:  # of a slot whose object was removed
                    yield key

    def in_list(self, address: int, most: int) -> Tuple[int, ...]:
        """The first objects of a list. Raises Unreadable."""
        return self._words(self.memory.word(address + self.at["list_items"]), address, most)

    def in_tuple(self, address: int, most: int) -> Tuple[int, ...]:
        """The first objects of a tuple. Raises Unreadable."""
        return self._words(address + self.at["tuple_items"], address, most)

    def _words(self, first: int, sized: int, most: int) -> Tuple[int, ...]:
        size = min(self.memory.word(sized + self.at["ob_size"]), most)
        return fields(f"<{size}Q", self.memory.read(first, 8 * size)) if size else ()
