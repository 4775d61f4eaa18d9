#!/usr/bin/env python3
"""Traces a vision transformer for the service, and writes an input with the right output.

    ./export.py [--out build] [--dtype float16] [--batch 1] [--checkpoint vit.safetensors]

Into the folder go vit.ts, a module of TorchScript; input.bin; expected.bin, what the same network
gives in PyTorch; and export.json, which says what was made, how large it is, and how far the
outputs lie from those in float32. Without a checkpoint the weights are random, from a seed: such a
network knows nothing, but takes as long as one that does. Needs PyTorch and timm; no network.
"""

import argparse
import json
import pathlib
import time

import timm
import torch

# Of the largest output: how far the traced network's outputs may lie from those of PyTorch, both in
# half precision.
TOLERANCE = 0.02
# Random weights are this much larger than timm makes them, so that an output depends on the input.
GAIN = 3.0


def network(name, checkpoint, seed):
    """In float32, on the processor."""
    torch.manual_seed(seed)
    if checkpoint is not None:
        return timm.create_model(name, checkpoint_path=str(checkpoint)).eval()
    model = timm.create_model(name, pretrained=False).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(GAIN)
    return model


def form(tensor):
    """What the service reads from the module's file."""
    return " ".join([str(tensor.dtype).removeprefix("torch."), *map(str, tensor.shape)])


def difference(found, expected):
    """The largest one, as a part of the largest expected number."""
    found, expected = found.double().cpu(), expected.double().cpu()
    return ((found - expected).abs().max() / expected.abs().max()).item()


def write(path, tensor):
    path.write_bytes(tensor.contiguous().cpu().view(torch.uint8).numpy().tobytes())
    return tensor.numel() * tensor.element_size()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--model", default="vit_small_patch16_224", help="a name that timm knows")
    parser.add_argument("--checkpoint", type=pathlib.Path, help="weights; else they are random")
    parser.add_argument("--dtype", choices=["float16", "bfloat16", "float32"], default="float16")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()

    exact = network(options.model, options.checkpoint, options.seed).to(options.device)
    size = timm.data.resolve_model_data_config(exact)["input_size"]
    images = torch.randn(2, options.batch, *size, device=options.device)
    dtype = getattr(torch, options.dtype)
    with torch.inference_mode():
        reference = exact(images[0])
        elsewhere = difference(exact(images[1]), reference)
    model, image = exact.to(dtype), images[0].to(dtype)
    with torch.inference_mode():
        expected = model(image)

    metadata = {"input": form(image), "output": form(expected)}
    with torch.no_grad():
        traced = torch.jit.freeze(torch.jit.trace(model, image.clone()))
    traced.save(str(options.out / "vit.ts"), _extra_files=metadata)
    loaded = torch.jit.load(str(options.out / "vit.ts"), options.device)
    with torch.inference_mode():
        found = loaded(image)

    random = f"random, seed {options.seed}"
    said = {
        "model": options.model,
        "weights": random if options.checkpoint is None else options.checkpoint.name,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        **metadata,
        "input_bytes": write(options.out / "input.bin", image),
        "output_bytes": write(options.out / "expected.bin", expected),
        "torch": torch.__version__,
        "timm": timm.__version__,
        "device": torch.cuda.get_device_name() if image.is_cuda else "cpu",
        # All of them as parts of the largest output.
        "traced_against_eager": difference(found, expected),
        "eager_against_float32": difference(expected, reference),
        "another_input_against_this_one": elsewhere,
        "seconds": round(time.monotonic() - begin, 1),
    }
    (options.out / "export.json").write_text(json.dumps(said, indent=2) + "\n")
    print(json.dumps(said, indent=2))
    if not said["traced_against_eager"] <= TOLERANCE:
        raise SystemExit(f"the traced network is not PyTorch's, up to {TOLERANCE} of an output")
    if not elsewhere > 5 * TOLERANCE:
        raise SystemExit("another input has the same output: a wrong one would not be noticed")


if __name__ == "__main__":
    main()
