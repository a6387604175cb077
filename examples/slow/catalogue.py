"""Makes a printed catalogue: pages that follow each other in one document.

"The machine swaps as soon as the catalogue has more than a few pages."
"""

ARTICLES = 900


def picture(number):
    """Of an article: some bytes."""
    return bytes((number + at) & 255 for at in range(64)) * 128


def text(number):
    """Of an article."""
    return f"Article {number:05}: a useful thing, in {number % 7 + 1} colours.\n".encode()


class Document:
    """Pages. Each version is kept until the document is printed."""

    def __init__(self):
        self.versions = [b""]

    def add(self, page):
        """A page at the end. The last ten versions can be gone back to."""
        self.versions = [*self.versions[-10:], self.versions[-1] + page]

    def printed(self):
        """All pages."""
        return self.versions[-1]


def main():
    """Prints how large it is."""
    document = Document()
    for number in range(ARTICLES):
        document.add(text(number) + picture(number))
    print(f"{len(document.printed()) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
