"""Trains a network, and prints what came out and how fast.

    python3 training.py --iterations 50
    keeptime run --guard fair+inherit -- python3 training.py --iterations 50

ViT-S with random images and labels: worker processes cut them, a thread pins them, and backward
runs on a thread of its own. Everything is made from fixed seeds with deterministic kernels, so that
the hash of the loss and the weights tells whether two runs computed the same bits.
"""

import argparse
import hashlib
import json
import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # torch asks for it

import torch

import loop
import networks


class Images(torch.utils.data.Dataset):
    """Random crops of a few random images, by number."""

    SIZE, CROP, LENGTH = 256, 224, 1 << 20

    def __init__(self):
        generator = torch.Generator().manual_seed(2)
        self.images = torch.rand((64, 3, self.SIZE, self.SIZE), generator=generator)

    def __len__(self):
        return self.LENGTH

    def __getitem__(self, index):
        at = (index * 2654435761) >> 8
        x, y = at % (self.SIZE - self.CROP), (at >> 8) % (self.SIZE - self.CROP)
        return self.images[index % 64, :, y:y + self.CROP, x:x + self.CROP], index % 64


class Trainer:
    def __init__(self, options):
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
        torch.backends.cuda.enable_flash_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(False)
        network, _ = networks.build("vit_s")
        self.network = network.cuda().train()
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.01, momentum=0.9)
        self.batches = iter(torch.utils.data.DataLoader(
            Images(), batch_size=options.batch_size, num_workers=options.workers, pin_memory=True))

    def step(self):
        images, labels = (part.cuda(non_blocking=True) for part in next(self.batches))
        loss = torch.nn.functional.cross_entropy(self.network(images), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def digest(self, loss):
        hashed = hashlib.sha256(str(loss).encode())
        for weights in self.network.parameters():
            hashed.update(weights.detach().cpu().numpy().tobytes())
        return hashed.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2, help="processes that make batches")
    loop.add_arguments(parser, iterations=50, warm=5)
    options = parser.parse_args()
    trainer = Trainer(options)
    loss, rates = loop.run(trainer.step, options)
    print(json.dumps({"network": "vit_s", "mode": "train", "answer": trainer.digest(loss),
                      "loss": loss, "warm": options.warm, "per_second": rates}))


if __name__ == "__main__":
    main()
