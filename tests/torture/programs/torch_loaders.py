"""PyTorch (Debian's, which is for 3.11): data loaders with processes by fork and spawn, threads of OpenMP, and autograd."""

import numpy
import torch
import torch.utils.data
from _truth import burn, part

FILES = {"/usr/lib/python3/dist-packages/torch/__init__.py": "python3-torch"}
ENV = {"PYTHONPATH": "/usr/lib/python3/dist-packages", "OMP_NUM_THREADS": "4"}
ONLY = ["3.11"]
SUBPROCESSES = True
PROFILES = 5
HEAVY = True
MAY_LACK_END = True  # workers end by os._exit


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, i):
        return torch.tensor([burn(3000 + i), i], dtype=torch.float32)


def loaded(way):
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2, multiprocessing_context=way)  # -> *
    return sum(float(batch.sum()) for batch in loader)  # -> *


def learned(n):
    torch.manual_seed(1)  # -> *
    net = torch.nn.Sequential(torch.nn.Linear(200, 300), torch.nn.Tanh(), torch.nn.Linear(300, 1))  # -> *
    x = torch.arange(64 * 200, dtype=torch.float32).reshape(64, 200) / 12800
    for _ in range(n):
        loss = (net(x) ** 2).mean()  # -> *
        loss.backward()  # -> *
        with torch.no_grad():  # -> *
            for p in net.parameters():  # -> *
                p -= 0.01 * p.grad  # -> *
                p.grad = None  # -> *
    return float(loss) < 1.0


def heavy(n):
    return burn(n)


def main():
    a = torch.arange(250000, dtype=torch.float64).reshape(500, 500) % 7
    with part("learned"):
        small = learned(150)
    with part("heavy"):
        total = heavy(5000000)
    print(loaded("fork"), loaded("spawn"), small, total, float((a @ a).sum()), numpy.arange(5).sum())  # -> *


if __name__ == "__main__":
    main()
