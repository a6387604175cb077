"""A plain script: one function is most of it."""


def normalized(text):
    out = ""
    for letter in text:
        out += letter.lower() if letter.isalpha() else " "
    return out


def main():
    text = "The Quick, Brown Fox; " * 2000
    print(sum(len(normalized(text).split()) for _ in range(120)))


if __name__ == "__main__":
    main()
