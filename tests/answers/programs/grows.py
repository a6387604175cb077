"""Memory grows in one function."""

KEPT = []


def remember(number):
    KEPT.append(bytearray(200_000 + number))


def main():
    for number in range(600):
        remember(number)
    print(len(KEPT))


main()
