"""Finds words in letters, whole words only, whatever their case.

"Regular expressions are compiled and cached, the manual says."
"""

import random
import re

LETTERS, WORDS = 50, 700


def letters(number, words):
    """Some text."""
    dice = random.Random(2)
    return [" ".join(dice.choice(words) for _ in range(60)) for _ in range(number)]


def is_in(word, letter):
    """Whether a letter has a word."""
    return re.search(rf"\b{re.escape(word)}\b", letter, re.IGNORECASE) is not None


def hits(words, some):
    """How often each word is in letters."""
    return {word: [is_in(word, letter) for letter in some].count(True) for word in words}


def main():
    """Prints the most frequent word."""
    words = [
        f"{start}{end}{number}" for number in range(20) for start in ("par", "let", "win", "sum", "for") for end in "abcdefg"
    ]
    some = letters(LETTERS, words)
    total = {}
    for letter in some:
        for word, number in hits(words[:WORDS], [letter]).items():
            total[word] = total.get(word, 0) + number
    print(max(total, key=total.get))


if __name__ == "__main__":
    main()
