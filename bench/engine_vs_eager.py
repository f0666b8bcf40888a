"""Tokens per second of the same model in eager PyTorch: forward and backward, one thread, no optimizer.

The counterpart of engine.cc; run both with bench/engine_vs_eager.

    /usr/bin/python3 engine_vs_eager.py HIDDEN HEADS MICRO_BATCHES
"""
import math
import sys
import time

import torch
from torch import nn
from torch.nn import functional

BLOCKS, SEQUENCE, VOCABULARY, SAMPLES = 4, 128, 4096, 2
MICRO_BATCHES_PER_STEP = 6


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.attention_out = nn.Linear(hidden, hidden)
        self.ln_2 = nn.LayerNorm(hidden)
        self.fc = nn.Linear(hidden, 4 * hidden)
        self.mlp_out = nn.Linear(4 * hidden, hidden)
        future = torch.ones(SEQUENCE, SEQUENCE, dtype=torch.bool).triu(1)
        self.register_buffer("future", future)

    def forward(self, x):
        batch, tokens, hidden = x.shape
        heads = (batch, tokens, self.heads, hidden // self.heads)
        query, key, value = (part.view(heads).transpose(1, 2)
                             for part in self.qkv(self.ln_1(x)).chunk(3, -1))
        scores = query @ key.transpose(-2, -1) / math.sqrt(hidden // self.heads)
        scores = scores.masked_fill(self.future[:tokens, :tokens], -math.inf)
        mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, tokens, hidden)
        x = x + self.attention_out(mixed)
        return x + self.mlp_out(functional.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, hidden)
        self.wpe = nn.Embedding(SEQUENCE, hidden)
        self.blocks = nn.Sequential(*(Block(hidden, heads) for _ in range(BLOCKS)))
        self.ln_f = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, VOCABULARY, bias=False)

    def forward(self, tokens, targets):
        positions = torch.arange(tokens.shape[1])
        x = self.blocks(self.wte(tokens) + self.wpe(positions))
        logits = self.head(self.ln_f(x))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")


def main():
    hidden, heads, micro_batches = (int(argument) for argument in sys.argv[1:4])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Model(hidden, heads)
    tokens = torch.randint(VOCABULARY, (SAMPLES, SEQUENCE))
    forward = backward = start = 0.0
    # One step first, untimed, so that memory and caches are warm.
    for m in range(-MICRO_BATCHES_PER_STEP, micro_batches):
        if m == 0:
            forward = backward = 0.0
            start = time.process_time()
        if m % MICRO_BATCHES_PER_STEP == 0:
            model.zero_grad(set_to_none=True)
        begin = time.process_time()
        loss = model(tokens, tokens)
        middle = time.process_time()
        loss.backward()
        forward += middle - begin
        backward += time.process_time() - middle
    seconds = time.process_time() - start
    print(f"{micro_batches * SAMPLES * SEQUENCE / seconds:.0f} tokens/s   "
          f"F {forward * 1e3 / micro_batches:.2f} ms  B {backward * 1e3 / micro_batches:.2f} ms")


main()
