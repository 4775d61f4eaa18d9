"""The networks of "Autonomy Today"'s tables, with random weights, and the ways to run them.

Every network is built on the CPU from a fixed seed, so that two runs compute the same.
"""

import torch


def build(name):
    """The network of this name in evaluation mode, and its input of one image."""
    torch.manual_seed(0)
    if name in TIMM:
        import timm

        network = timm.create_model(TIMM[name], pretrained=False)
        shape = (1, 3, 224, 224)
    elif name == "regnet_y":
        import torchvision

        network = torchvision.models.regnet_y_16gf(weights=None)
        shape = (1, 3, 224, 224)
    elif name == "detr":
        from transformers import DetrConfig, DetrForObjectDetection

        config = DetrConfig(use_timm_backbone=False, use_pretrained_backbone=False,
                            backbone=None, backbone_config=resnet50())
        network = Logits(DetrForObjectDetection(config))
        shape = (1, 3, 800, 1066)
    elif name == "segformer":
        from transformers import SegformerConfig, SegformerForSemanticSegmentation

        config = SegformerConfig(depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 320, 512],
                                 decoder_hidden_size=256, num_labels=19)
        network = Logits(SegformerForSemanticSegmentation(config))
        shape = (1, 3, 1024, 1024)
    else:
        raise SystemExit(f"networks: unknown network {name!r}, known are {', '.join(NAMES)}")
    image = torch.rand(shape, generator=torch.Generator().manual_seed(1))
    return network.eval(), image


TIMM = {"vit_s": "vit_small_patch16_224", "deit_b": "deit3_base_patch16_224"}
NAMES = ["vit_s", "regnet_y", "deit_b", "detr", "segformer"]


def resnet50():
    from transformers import ResNetConfig

    return ResNetConfig(out_features=["stage4"])


class Logits(torch.nn.Module):
    """A network of transformers that returns its logits alone."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, image):
        return self.network(pixel_values=image).logits


class Eager:
    """Copies the image in, runs the network kernel by kernel, and copies the answer out."""

    def __init__(self, network, image):
        self.network = network.cuda()
        self.host = image.pin_memory()
        self.image = torch.empty_like(image, device="cuda")
        self.answer = None
        self.output = None

    def launch(self):
        """Gives the device all the work of one inference, and waits for none of it."""
        self.image.copy_(self.host, non_blocking=True)
        self.output = self.network(self.image)
        if self.answer is None:
            self.answer = torch.empty_like(self.output, device="cpu").pin_memory()
        self.answer.copy_(self.output, non_blocking=True)

    def run(self):
        """One inference, and its answer on the host."""
        self.launch()
        torch.cuda.current_stream().synchronize()
        return self.answer


class Graph(Eager):
    """The same, captured into a CUDA graph with its copies and replayed."""

    def __init__(self, network, image):
        super().__init__(network, image)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                super().launch()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            super().launch()

    def launch(self):
        self.graph.replay()


class Compiled(Eager):
    """Compiled by torch.compile, which writes Triton kernels."""

    def __init__(self, network, image):
        super().__init__(network, image)
        self.network = torch.compile(self.network)


MODES = {"eager": Eager, "graph": Graph, "compile": Compiled}
