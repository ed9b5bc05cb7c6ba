# SPDX-License-Identifier: Apache-2.0
"""PyTorch programs to profile: three models, built here; nothing is downloaded.

    python torch_models.py bert|resnet50|gpt [--train] [--dtype fp32|bf16]
                           [--run eager|compile|graphs] [--steps N] [--device cuda|cpu] [--small]

bert: an encoder of BERT-base's shape; resnet50: the convolutional network; gpt: a small decoder
that generates text token by token (inference only). Weights are random, seeded. The program checks
its own result: compile and graphs must equal eager, training must lower the loss.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Encoder(nn.Module):
    """BERT-base: 12 layers of 768, 12 heads."""

    def __init__(self, layers: int, width: int, heads: int, words: int = 30522) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.layers(self.embed(tokens))[:, 0])


class Bottleneck(nn.Module):
    """ResNet's block of three convolutions."""

    def __init__(self, inside: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inside, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, out, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or inside != out:
            self.skip = nn.Sequential(
                nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.skip(x))


def resnet(blocks: tuple[int, ...], classes: int = 1000) -> nn.Module:
    """ResNet-50 is (3, 4, 6, 3)."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    inside = 64
    for stage, n in enumerate(blocks):
        width = 64 * 2**stage
        for i in range(n):
            layers.append(Bottleneck(inside, width, 2 if stage and i == 0 else 1))
            inside = 4 * width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, classes)]
    return nn.Sequential(*layers)


class Decoder(nn.Module):
    """A small GPT. `cache` keeps keys and values of earlier tokens, one tensor for all layers:
    (layers, 2, batch, heads, length, head width)."""

    def __init__(self, layers: int, width: int, heads: int, length: int, words: int = 8000) -> None:
        super().__init__()
        self.heads, self.length = heads, length
        self.embed, self.place = nn.Embedding(words, width), nn.Embedding(length, width)
        self.mix = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.back = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers + 1))

    def new_cache(self, batch: int, like: Tensor) -> Tensor:
        head = self.embed.embedding_dim // self.heads
        return like.new_zeros(len(self.mix), 2, batch, self.heads, self.length, head)

    def forward(self, tokens: Tensor, at: Tensor, cache: Tensor) -> Tensor:
        """One token per sequence (batch,), its position `at` (a tensor of one), and the cache."""
        x = self.embed(tokens) + self.place(at)
        seen = torch.arange(self.length, device=x.device) <= at
        for i, mix in enumerate(self.mix):
            q, k, v = mix(self.norms[2 * i](x)).view(x.shape[0], 3, self.heads, -1).unbind(1)
            cache[i, 0].index_copy_(2, at, k.unsqueeze(2))
            cache[i, 1].index_copy_(2, at, v.unsqueeze(2))
            y = F.scaled_dot_product_attention(
                q.unsqueeze(2), cache[i, 0], cache[i, 1], attn_mask=seen.view(1, 1, 1, -1)
            )
            x = x + self.back[i](y.flatten(1))
            x = x + self.down[i](F.gelu(self.up[i](self.norms[2 * i + 1](x))))
        return self.norms[-1](x) @ self.embed.weight.T


def as_graph(call: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """`call` as a replayed CUDA graph; its tensors keep their addresses."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call()

    def replay() -> Tensor:
        graph.replay()
        return out

    return replay


def prepared(options: argparse.Namespace, call: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """`call` in the requested mode."""
    if options.run == "compile":
        return torch.compile(call)
    return as_graph(call) if options.run == "graphs" else call


def close(a: Tensor, b: Tensor, dtype: torch.dtype) -> bool:
    """Equal up to rounding."""
    tolerance = 0.1 if dtype is torch.bfloat16 else 2e-2
    return torch.allclose(a.float(), b.float(), atol=tolerance, rtol=tolerance)


def infer(options: argparse.Namespace, model: nn.Module, data: Tensor, dtype: torch.dtype) -> bool:
    """Forward passes; the last must equal eager mode's."""
    model.eval()
    with torch.no_grad():
        expected = model(data).clone()
        step = prepared(options, lambda: model(data))
        for _ in range(options.steps):
            out = step()
    return bool(torch.isfinite(out).all()) and close(out, expected, dtype)


def train(options: argparse.Namespace, model: nn.Module, data: Tensor) -> bool:
    """Training steps on one batch; the loss must fall."""
    model.train()
    target = torch.zeros(len(data), dtype=torch.long, device=data.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def loss() -> Tensor:
        return F.cross_entropy(model(data).float(), target)

    compute = torch.compile(loss) if options.run == "compile" else loss
    losses = []
    for _ in range(max(2, options.steps)):
        optimizer.zero_grad(set_to_none=True)
        value = compute()
        value.backward()
        optimizer.step()
        losses.append(float(value.detach()))
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
    return losses[-1] < losses[0]


def decode(options: argparse.Namespace, model: Decoder, batch: int, dtype: torch.dtype) -> bool:
    """Greedy decoding; the prepared step must give eager mode's tokens."""
    model.eval()
    device = model.embed.weight.device

    def run(prepare: bool) -> Tensor:
        cache = model.new_cache(batch, model.embed.weight)
        token = torch.arange(batch, device=device)
        at = torch.zeros(1, dtype=torch.long, device=device)
        step = lambda: model(token, at, cache)  # noqa: E731
        if prepare:
            step = prepared(options, step)
            cache.zero_()
        scores = []
        for i in range(min(options.steps, model.length)):
            at.fill_(i)
            logits = step()
            scores.append(logits.float().clone())
            token.copy_(logits.argmax(-1))
        return torch.stack(scores)

    with torch.no_grad():
        expected, found = run(False), run(True)
    same = (expected.argmax(-1) == found.argmax(-1)).float().mean().item()
    print(f"tokens {expected.shape[0]} x {batch}, same as eager {same:.3f}")
    return same > (0.9 if dtype is torch.bfloat16 else 0.99)


def main() -> int:
    """Runs one model; 0 when its result is right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=["bert", "resnet50", "gpt"])
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--run", choices=["eager", "compile", "graphs"], default="eager")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--small", action="store_true", help="a tenth of the size, for a CPU")
    options = parser.parse_args()
    if options.run == "graphs" and (options.device == "cpu" or options.train):
        parser.error("--run graphs is for inference on a CUDA device")
    if options.train and options.model == "gpt":
        parser.error("gpt is inference only")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no CUDA device; use --device cpu --small")
    torch.manual_seed(1)
    dtype = torch.bfloat16 if options.dtype == "bf16" else torch.float32
    small, place = options.small, {"device": options.device}
    if options.model == "gpt":
        shape = (2, 64, 4, 32) if small else (8, 512, 8, 256)
        decoder = Decoder(*shape).to(**place, dtype=dtype)
        good = decode(options, decoder, 2 if small else 8, dtype)
    else:
        if options.model == "bert":
            model: nn.Module = Encoder(*((2, 64, 4) if small else (12, 768, 12)))
            data = torch.randint(0, 30522, (2, 16) if small else (16, 128), **place)
        else:
            model = resnet((1, 1, 1, 1) if small else (3, 4, 6, 3))
            data = torch.randn((2, 3, 64, 64) if small else (16, 3, 224, 224), **place).to(dtype)
        model = model.to(**place, dtype=dtype)
        good = train(options, model, data) if options.train else infer(options, model, data, dtype)
    print("good" if good else "WRONG")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
