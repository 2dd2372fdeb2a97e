"""What is captured and checked again says what checking the model says."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults.registry import FAULTS, SOUND, Fault
from faults.transformer import SIZES, build
from lookalikes.design import LookAlike
from lookalikes.registry import DESIGNS

import rootdk
from rootdk._lib.errors import ArgumentError, TargetError
from rootdk.records import Diagnosis

torch = pytest.importorskip("torch")

FIRST_SPELLINGS = tuple({fault.module: fault for fault in reversed(FAULTS)}.values())
EVERY = (*FAULTS, *SOUND)
# The same float32 or wider numbers are measured, by another library's float64 sums: their
# difference is that of two orders of summation.
RELATIVE = 1e-9


def same(mine: Diagnosis, again: Diagnosis) -> None:
    assert [site.name for site in again.sites] == [site.name for site in mine.sites]
    assert again.state == mine.state
    for one, two in zip(mine.sites, again.sites, strict=True):
        assert two.unresolved == one.unresolved
        assert two.effective_scale == one.effective_scale
        assert two.factors == one.factors
        assert (two.verification.rows > 0) == (one.verification.rows > 0)
    said = [(f.code, f.severity, f.site, f.message, f.source) for f in mine.findings]
    assert [(f.code, f.severity, f.site, f.message, f.source) for f in again.findings] == said
    assert set(again.summaries) == set(mine.summaries)
    for name, summary in mine.summaries.items():
        assert set(again.summaries[name].quantities) == set(summary.quantities)
        one, two = summary["score_histogram"], again.summaries[name]["score_histogram"]
        # A score that lies on the edge of two bins may fall into either.
        assert np.abs(np.cumsum(one - two, -1)).max(initial=0) <= 1 + 0.01 * one.sum(-1).max()
        for quantity in set(summary.quantities) - {"score_histogram"}:
            if isinstance(summary[quantity], np.ndarray):
                np.testing.assert_allclose(
                    again.summaries[name][quantity],
                    summary[quantity],
                    rtol=RELATIVE,
                    atol=RELATIVE,
                    err_msg=f"{name} {quantity}",
                )


def round_trip(model: Any, inputs: tuple[Any, ...], path: Path) -> Diagnosis:
    mine = rootdk.check(model, *inputs)
    written = rootdk.capture(model, *inputs, path=path)
    assert written == path
    again = rootdk.check(path)
    same(mine, again)
    return again


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(
            f, id=f.identity, marks=[] if f in FIRST_SPELLINGS else [pytest.mark.slow]
        )
        for f in EVERY
    ],
)  # fmt: skip
def test_every_fault_has_the_same_code_from_its_file(
    fault: Fault, tmp_path: Path, seed: int
) -> None:
    model, tokens = build(fault.attention, init="unit", size=SIZES[64], seed=seed)
    again = round_trip(model, (tokens,), tmp_path / "x.npz")
    loud = {f.code for f in again.findings if f.severity.reaches("warning")}
    assert loud == ({fault.code} if fault.code else set())


IN_PARTS = {"FactorsOfTheirOwn", "BlocksOfQueries", "BandOfChunks", "NearAndFar"}
IN_PARTS |= {"GlobalAndLocalKeys", "RowsIntoABuffer"}


@pytest.mark.parametrize(
    "look_alike",
    [
        pytest.param(d, id=d.name, marks=[] if d.name == "BlocksOfQueries" else [pytest.mark.slow])
        for d in DESIGNS
    ],
)
def test_every_look_alike_is_the_same_from_its_file(
    look_alike: LookAlike, tmp_path: Path, seed: int
) -> None:
    model, inputs = look_alike.build(seed)
    if not rootdk.check(model, *inputs).summaries:
        pytest.skip("nothing is measured in this design")
    if look_alike.name in IN_PARTS:
        path = tmp_path / "x.safetensors"
        with pytest.raises(TargetError, match="computed in parts; expected one whose query"):
            rootdk.capture(model, *inputs, path=path)
        assert not path.exists()
        return
    round_trip(model, inputs, tmp_path / "x.safetensors")


class Attention(torch.nn.Module):
    """Two kv heads for four, causal, through the fused call."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.both = torch.nn.Linear(32, 32), torch.nn.Linear(32, 32)

    def forward(self, x: Any, visible: Any = None) -> Any:
        query = self.query(x).unflatten(-1, (4, 8)).transpose(1, 2)
        key, value = self.both(x).unflatten(-1, (4, 8)).transpose(1, 2).chunk(2, dim=1)
        out = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=visible, is_causal=visible is None, enable_gqa=True
        )
        return out.transpose(1, 2).flatten(2)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("masked", [False, True], ids=["causal", "masked"])
def test_dtypes_masks_and_shared_heads_survive(
    suffix: str, dtype: str, masked: bool, tmp_path: Path
) -> None:
    model = Attention().to(getattr(torch, dtype))
    x = torch.randn(2, 9, 32).to(getattr(torch, dtype))
    visible = (torch.rand(2, 1, 9, 9) > 0.3) | torch.eye(9, dtype=torch.bool)
    again = round_trip(model, (x, visible) if masked else (x,), tmp_path / f"x{suffix}")
    (site,) = again.sites
    assert (site.num_heads, site.num_kv_heads, site.score_dtype) == (4, 2, dtype)


def test_several_calls_of_one_module_keep_their_names(tmp_path: Path) -> None:
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = Attention()

        def forward(self, x: Any) -> Any:
            return self.attention(self.attention(x))

    again = round_trip(Twice(), (torch.randn(1, 5, 32),), tmp_path / "x.npz")
    assert [site.name for site in again.sites] == ["attention#1", "attention#2"]


def test_the_file_is_readable_without_rootdk(tmp_path: Path) -> None:
    path = rootdk.capture(Attention(), torch.randn(2, 9, 32), path=tmp_path / "x.npz")
    with np.load(path, allow_pickle=False) as file:
        assert file["Attention.query"].shape == (2, 4, 9, 8)
        assert file["Attention.key"].shape == (2, 2, 9, 8)
        assert float(file["Attention.scale"]) == pytest.approx(8**-0.5)
        assert file["Attention.causal"].tobytes() == b"top_left"
    tensors = pytest.importorskip("safetensors.numpy")
    other = rootdk.capture(Attention(), torch.randn(2, 9, 32), path=tmp_path / "x.safetensors")
    assert tensors.load_file(other)["Attention.query"].shape == (2, 4, 9, 8)


def test_nothing_is_left_beside_the_file_and_the_model_is_as_it_was(tmp_path: Path) -> None:
    model = Attention()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    rootdk.capture(model, torch.randn(1, 5, 32), path=tmp_path / "x.npz")
    assert [file.name for file in tmp_path.iterdir()] == ["x.npz"]
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    torch.set_rng_state(state)


def test_a_fault_of_the_model_leaves_an_earlier_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(b"earlier")
    with pytest.raises(RuntimeError):
        rootdk.capture(Attention(), torch.randn(1, 5, 7), path=path)
    assert path.read_bytes() == b"earlier"
    assert [file.name for file in tmp_path.iterdir()] == ["x.npz"]


def test_one_call_is_in_memory_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes the calls holds no array of an earlier one."""
    import gc
    import weakref

    from rootdk.frontends._arrays.writing import Spool

    alive: list[int] = []
    queries: list[Any] = []
    take = Spool.take

    def taking(self: Spool, measured: Any) -> None:
        gc.collect()
        alive.append(sum(reference() is not None for reference in queries))
        queries.append(weakref.ref(measured.query))
        take(self, measured)

    monkeypatch.setattr(Spool, "take", taking)
    layers = torch.nn.Sequential(*(Attention() for _ in range(6)))
    rootdk.capture(layers, torch.randn(1, 5, 32), path=tmp_path / "x.npz")
    assert len(alive) == 6
    assert max(alive) <= 1


@pytest.mark.parametrize("path", ["x.bin", "nowhere/x.npz"])
def test_where_it_cannot_write_it_does_not_run(path: str, tmp_path: Path) -> None:
    class Never(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            raise AssertionError("it ran")

    with pytest.raises(ArgumentError):
        rootdk.capture(Never(), 3, path=tmp_path / path)


def test_a_model_without_attention_is_said(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"0 attention site\(s\) found and none measured"):
        rootdk.capture(torch.nn.Linear(3, 3), torch.ones(1, 3), path=tmp_path / "x.npz")


def test_a_file_is_not_captured(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="a model that can be run"):
        rootdk.capture("x.npz", path=tmp_path / "y.npz")
    with pytest.raises(ArgumentError, match="expected only rows, seed, progress"):
        rootdk.capture(Attention(), path=tmp_path / "y.npz", rootdk={"row": 3})


class WholeAndInParts(torch.nn.Module):
    """Scores of all queries, and of each half of them."""

    def __init__(self) -> None:
        super().__init__()
        self.whole, self.parts = Attention(), Attention()

    def forward(self, x: Any) -> Any:
        x = self.whole(x)
        query = self.parts.query(x).unflatten(-1, (4, 8)).transpose(1, 2)
        key, value = self.parts.both(x).unflatten(-1, (4, 8)).transpose(1, 2).chunk(2, dim=1)
        key, value = (each.repeat_interleave(2, dim=1) for each in (key, value))
        halves = [half @ key.mT * 8**-0.5 for half in query.chunk(2, dim=2)]
        weights = torch.cat(halves, dim=2).softmax(dim=-1)
        return (weights @ value).transpose(1, 2).flatten(2)


def test_what_is_computed_in_parts_is_said_to_be_missing(tmp_path: Path) -> None:
    model, inputs = WholeAndInParts().eval(), torch.randn(2, 64, 32)
    mine = rootdk.check(model, inputs)
    again = rootdk.check(rootdk.capture(model, inputs, path=tmp_path / "x.npz"))
    missing = set(mine.summaries) - set(again.summaries)
    assert len(missing) == 1 < len(mine.summaries)
    assert f"{missing.pop()} is computed in parts, which no file holds" in again.remarks
