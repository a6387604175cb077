TABLE = {}
for i in range(1_500_000):
    TABLE[i] = i * i % 7
