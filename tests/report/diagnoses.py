"""Diagnoses made by hand: healthy, sick, and everything that can be in one at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np

from rootdk.records import (
    Addend,
    AttentionSite,
    Diagnosis,
    Environment,
    Expected,
    Factor,
    Finding,
    Frame,
    Normalisation,
    OperandPath,
    Severity,
    Skipped,
    Source,
    Unhandled,
    Verification,
)
from rootdk.stats import Summary

SCALE = 64**-0.5


class Numbers:
    """A summary whose quantities are given, one number a head."""

    engine = "by hand"

    def __init__(self, notes: tuple[str, ...] = (), **quantities: Any) -> None:
        self.notes = notes
        self.absent = {"query_entries": "it was not asked for"}
        self._values = {name: np.asarray(values) for name, values in quantities.items()}
        heads = len(next(iter(self._values.values())))
        self.rows = self.visible_scores = np.full(heads, 16, dtype=np.int64)

    @property
    def quantities(self) -> tuple[str, ...]:
        return tuple(self._values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]


def summary(spreads: list[float], **more: Any) -> Summary:
    """Return statistics with these spreads, and round numbers for the rest."""
    heads = len(spreads)
    given: dict[str, Any] = {
        "spread": spreads,
        "row_spread": [0.9 * s for s in spreads],
        "min_score": [-3 * s for s in spreads],
        "max_score": [4 * s for s in spreads],
        "entropy_share": [0.5] * heads,
        "effective_keys": [8.0] * heads,
        "max_weight": [0.25] * heads,
        "rows_over_90": [0.0] * heads,
        "first_key_weight": [0.1] * heads,
        "score_histogram": np.zeros((heads, 64), dtype=np.int64),
    }
    return cast(Summary, Numbers(**{**given, **more}))


def source_file(folder: Path) -> Path:
    """Write a small source file for findings to point at."""
    file = folder / "model.py"
    file.write_text(
        "def attend(query, key, value):\n"
        "    scores = query @ key.mT / 8.0\n"
        "    scores = scores * 0.125\n"
        "    return scores.softmax(-1) @ value\n"
    )
    return file


def source(file: Path | str, line: int, module_path: str = "") -> Source:
    """Return a source of two frames."""
    return Source(
        frames=(
            Frame(file=str(file), line=line, function="attend"),
            Frame(file=str(file), line=1, function="forward"),
        ),
        module_path=module_path,
    )


def site(name: str = "blocks.0.attn", **facts: Any) -> AttentionSite:
    """Return a resolved site of 4 heads of 64, correctly scaled unless told otherwise."""
    given: dict[str, Any] = {
        "name": name,
        "spelling": "matmul and softmax",
        "batch": 1,
        "num_heads": 4,
        "num_kv_heads": 4,
        "queries": 16,
        "keys": 16,
        "head_dim": 64,
        "hidden": 256,
        "layer": 0,
        "module_path": name,
        "factors": (Factor(value=SCALE, place="scores", origin="/ 8.0"),),
        "effective_scale": SCALE,
        "verification": Verification(rows=16, mismatch=1e-7, bound=1e-5, operands="equal"),
    }
    return AttentionSite(**{**given, **facts})


def finding(**facts: Any) -> Finding:
    """Return a warning of a scale that is applied twice."""
    given: dict[str, Any] = {
        "code": "RDK102",
        "name": "scale-applied-twice",
        "severity": Severity.WARNING,
        "site": "blocks.0.attn",
        "message": "the effective scale is 0.015625 = 1/64 in two factors of 1/8",
        "remedy": "keep one of the two factors",
    }
    return Finding(**{**given, **facts})


def healthy(layers: int = 2) -> Diagnosis:
    """Return a diagnosis without a finding."""
    sites = tuple(site(f"blocks.{i}.attn", layer=i) for i in range(layers))
    return Diagnosis(
        target="model.py:build",
        state="init",
        state_reason="every norm has weight 1",
        sites=sites,
        summaries={s.name: summary([1.0, 1.1, 1.2, 1.3]) for s in sites},
        environment=Environment(versions={"torch": "2.13.0"}, seed=0),
    )


def everything(folder: Path) -> Diagnosis:
    """Return a diagnosis that has something in every place where something can be."""
    file = source_file(folder)
    first = site(
        "encoder.blocks.0.attention.self",
        source=source(file, 2),
        product_source=source(file, 2),
        effective_scale=1 / 64,
        factors=(
            Factor(value=0.125, place="scores", origin="/ 8.0", source=source(file, 2)),
            Factor(value=None, place="query", kind="learned", origin="self.gain"),
        ),
        expected=Expected(value=0.125, where="expect['*']", by="user"),
        query_path=OperandPath(terminal="projection", module_path="q", steps=("view",)),
        key_path=OperandPath(terminal="norm", normalised=True, learned_gain=True),
        softcap=50.0,
        addends=(Addend(kind="mask", fill=float("-inf")), Addend(kind="bias", learned=True)),
        causal="bottom_right",
        window=(4, None),
        normalisation=Normalisation(softmax_again=source(file, 4)),
        num_kv_heads=2,
    )
    twice = finding(
        site=first.name,
        source=source(file, 3),
        related=(source(file, 2),),
        evidence={"ratio": np.float64(0.125), "laws": ("1/d", "twice"), "nothing": None},
    )
    excused = finding(
        code="RDK202",
        name="undersized-entries",
        severity=Severity.NOTE,
        site=first.name,
        message="entries have size 0.1",
        excuse="it is the library's own default",
    )
    broken = finding(
        code="RDK606",
        name="non-finite-scores",
        severity=Severity.ERROR,
        site=first.name,
        message="12 scores are NaN",
        evidence={"score": float("nan"), "limit": float("inf"), "place": source(file, 2)},
    )
    open_site = site(
        "encoder.blocks.1.attention.self",
        unresolved="a custom operator stands before it",
        effective_scale=None,
        source=source(file, 4),
    )
    return Diagnosis(
        target="model.py:build",
        state="trained",
        state_reason="blocks.0.norm.weight is not 1",
        sites=(first, open_site),
        summaries={
            first.name: summary([1.0, 1.2, 20.0, float("nan")], notes=("rows are a sample",))
        },
        findings=(broken, twice, excused),
        skipped=(
            *(Skipped(code="RDK201", why="it was not measured", site=name) for name in "abc"),
            Skipped(code="RDK203", why="it was not measured", site="a"),
            Skipped(code="RDK110", why="another verb measures what it reads"),
        ),
        unhandled=(
            Unhandled(operation="mine::attend", count=12, where="blocks.1", why="unknown"),
            Unhandled(
                operation="attention without a softmax",
                count=2,
                where="",
                why="products of activations mix values through sigmoid",
                kind="attention",
            ),
        ),
        remarks=("the input is noise",),
        environment=Environment(versions={"torch": "2.13.0"}, autocast="bfloat16", seed=None),
    )
