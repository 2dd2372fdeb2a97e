"""Saved tensors: what is stored decides what can be said, and everything said is recomputed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.saved import attend, npz, safetensors

import rootdk
from rootdk._lib.errors import ArgumentError, TargetError
from rootdk.frontends.arrays import SavedTensors
from rootdk.records import AttentionSite, Diagnosis

STANDARD = 0.25  # 1/√16
NEITHER = ("weights", "scores", "output")
# A scale found from float32 weights is right to their rounding, far below the laws' tolerance.
FOUND = 1e-5


def without(arrays: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: array for name, array in arrays.items() if name not in names}


def only(diagnosis: Diagnosis) -> AttentionSite:
    (site,) = diagnosis.sites
    return site


# ------------------------------------------------------------------ what the scale is known from


@pytest.mark.parametrize("kept", NEITHER)
@pytest.mark.parametrize("scale", [STANDARD, 1.0, 0.0625])
def test_a_stored_scale_is_verified(kept: str, scale: float, rng: np.random.Generator) -> None:
    arrays = without(attend(rng, scale), *(name for name in NEITHER if name != kept))
    site = only(rootdk.check({**arrays, "scale": scale}))
    assert site.unresolved is None
    assert site.effective_scale == scale
    assert site.verification.rows == 32
    assert site.verification.mismatch is not None
    assert site.verification.bound is not None
    assert site.verification.mismatch <= site.verification.bound < 1e-3


@pytest.mark.parametrize("kept", NEITHER)
@pytest.mark.parametrize(
    ("scale", "code"), [(STANDARD, None), (1.0, "RDK101"), (0.0625, "RDK104"), (4.0, "RDK106")]
)
def test_a_scale_that_is_not_stored_is_found(
    kept: str, scale: float, code: str | None, rng: np.random.Generator
) -> None:
    arrays = without(attend(rng, scale), *(name for name in NEITHER if name != kept))
    diagnosis = rootdk.check(arrays)
    site = only(diagnosis)
    assert site.effective_scale == pytest.approx(scale, rel=FOUND)
    assert site.factors[0].origin == f"found from the stored {kept}"
    assert site.verification.rows > 0
    codes = [f.code for f in diagnosis.findings if f.severity != "note"]
    assert codes == ([] if code is None else [code])


@pytest.mark.parametrize("kept", ["weights", "output", "scores"])
def test_a_softcap_does_not_hide_the_scale(kept: str, rng: np.random.Generator) -> None:
    arrays = attend(rng, STANDARD, softcap=3.0)
    arrays = without(arrays, *(name for name in NEITHER if name != kept))
    site = only(rootdk.check({**arrays, "softcap": 3.0}))
    assert site.effective_scale == pytest.approx(STANDARD, rel=FOUND)
    assert site.softcap == 3.0


def test_half_precision_weights_give_the_scale_to_what_they_hold(
    rng: np.random.Generator,
) -> None:
    arrays = without(attend(rng, STANDARD, dtype="float16", keys=48, queries=48), "output")
    site = only(rootdk.check(without(arrays, "scores")))
    assert site.effective_scale == pytest.approx(STANDARD, rel=5e-3)
    assert 0.0 < site.scale_precision < 5e-3


def test_weights_of_another_scale_leave_the_site_unresolved_and_say_which(
    rng: np.random.Generator,
) -> None:
    arrays = without(attend(rng, 1.0), "output", "scores")
    site = only(rootdk.check({**arrays, "scale": STANDARD}))
    assert site.effective_scale is None
    assert site.unresolved is not None
    assert site.unresolved.startswith(
        "weights recomputed with the stored scale of 0.25 differ from the stored ones by"
    )
    assert site.unresolved.endswith("; a scale of 1 reproduces them")


def test_weights_that_no_scale_gives_are_not_explained(rng: np.random.Generator) -> None:
    arrays = without(attend(rng, STANDARD), "output", "scores")
    arrays["weights"] = np.ascontiguousarray(arrays["weights"][..., ::-1])
    site = only(rootdk.check(arrays))
    assert site.unresolved is not None
    assert site.unresolved.startswith("no scale is stored, and ")


def test_a_stated_scale_is_called_stated(rng: np.random.Generator) -> None:
    arrays = without(attend(rng, 1.0), *NEITHER)
    diagnosis = rootdk.check({**arrays, "scale": 1.0})
    assert [f.code for f in diagnosis.findings if f.severity != "note"] == ["RDK101"]
    assert only(diagnosis).verification.rows == 0
    assert only(diagnosis).factors[0].origin == "stored with the tensors, not verified"
    assert any("as stated" in r or "is as stored" in r for r in diagnosis.remarks)


def test_without_a_scale_entries_are_measured_and_nothing_is_judged(
    rng: np.random.Generator,
) -> None:
    arrays = without(attend(rng, 1.0, queries=40, keys=40), *NEITHER)
    diagnosis = rootdk.check(arrays)
    site = only(diagnosis)
    assert site.unresolved == (
        "no scale is stored, and no weights, scores or output to find it from"
    )
    assert diagnosis.findings == ()
    summary = diagnosis.summaries[site.name]
    # 640 draws a head: their standard deviation is 1 within 5 standard errors.
    assert summary["query_std"] == pytest.approx(1.0, abs=5 / np.sqrt(2 * 640))
    assert "entropy_nats" not in summary
    assert summary["spread"].shape == (4,)
    assert any("at 1/√head_dim their scores would spread by" in r for r in diagnosis.remarks)


@pytest.mark.parametrize("what", ["weights", "output", "bias"])
def test_what_is_stored_as_nan_is_an_error_and_verifies_nothing(
    what: str, rng: np.random.Generator
) -> None:
    """Query and key are finite: nothing else would say so."""
    arrays = attend(rng, 0.25)
    kept = {name: arrays[name] for name in ("query", "key", "value")}
    shape = arrays["weights"].shape if what == "bias" else arrays[what].shape
    kept[what] = np.full(shape, np.nan, np.float32)
    diagnosis = rootdk.check({**kept, "scale": 0.25})
    assert [(f.code, str(f.severity)) for f in diagnosis.findings] == [("RDK606", "error")]
    rows = int(np.prod(shape[:3]))
    count = rows * shape[3] if what == "bias" else rows
    assert f"{count} scores at visible keys are NaN or infinite" in diagnosis.findings[0].message
    assert "query and key are finite" in diagnosis.findings[0].message
    assert only(diagnosis).verification.rows == 0
    assert not any("verified by recomputing" in remark for remark in diagnosis.remarks)


def test_a_scale_that_no_row_can_show_is_not_taken_for_seen(rng: np.random.Generator) -> None:
    arrays = attend(rng, 0.5)
    hidden = {"query": arrays["query"], "key": arrays["key"], "scale": 0.5}
    site = only(rootdk.check({**hidden, "mask": np.zeros((12, 12), bool)}))
    assert site.unresolved == "no row has a visible key, so nothing could be verified"


def test_weights_that_are_no_softmax_leave_it_open(rng: np.random.Generator) -> None:
    """A scale that is known to no better than itself is not a number to print."""
    arrays = without(attend(rng, 1.0), "scores", "output")
    arrays["weights"] = np.full_like(arrays["weights"], -0.125)
    site = only(rootdk.check(arrays))
    assert site.unresolved == "no scale is stored, and the stored weights leave it open"


@pytest.mark.parametrize("what", ["one key", "zero queries"])
def test_weights_that_any_scale_gives_leave_it_open(what: str, rng: np.random.Generator) -> None:
    arrays = without(attend(rng, 1.0, keys=1 if what == "one key" else 12), "scores", "output")
    if what == "zero queries":
        arrays["query"] = np.zeros_like(arrays["query"])
        arrays["weights"] = np.full_like(arrays["weights"], 1 / 12)
    site = only(rootdk.check(arrays))
    assert site.unresolved == "no scale is stored, and the stored weights leave it open"


# ------------------------------------------------------------------ what hides keys


def test_causal_order_windows_masks_and_biases_are_taken_into_account(
    rng: np.random.Generator,
) -> None:
    i, j = np.ogrid[:12, :12]
    shown = (j <= i) & (j >= i - 4) & (j != 3)
    slopes = rng.normal(size=(4, 1, 1)) * (j - i)
    arrays = attend(rng, 1.0, visible=shown | (i == j), bias=slopes)
    site = only(
        rootdk.check(
            {
                **without(arrays, "output", "scores"),
                "causal": "top_left",
                "window": (4, 0),
                "mask": ((j != 3) | (i == j)).astype(np.uint8),
                "bias": slopes.astype(np.float32),
            }
        )
    )
    assert site.effective_scale == pytest.approx(1.0, rel=FOUND)
    assert (site.causal, site.window) == ("top_left", (4, 0))
    assert [addend.kind for addend in site.addends] == ["mask", "bias"]
    assert site.observed.forbidden_weight == 0.0


@pytest.mark.parametrize("low", [-np.inf, -1e9, -10000.0])
def test_a_bias_that_hides_keys_is_a_mask(low: float, rng: np.random.Generator) -> None:
    shown = np.tri(12, dtype=bool)
    arrays = without(attend(rng, STANDARD, visible=shown), "output", "scores")
    bias = np.where(shown, 0.0, low).astype(np.float32)
    site = only(rootdk.check({**arrays, "scale": STANDARD, "bias": bias}))
    assert site.unresolved is None
    assert [(addend.kind, addend.fill) for addend in site.addends] == [("mask", np.float32(low))]


def test_bottom_right_order_is_told_from_top_left(rng: np.random.Generator) -> None:
    shown = np.tri(6, 12, 6, dtype=bool)
    arrays = without(attend(rng, STANDARD, queries=6, visible=shown), "output", "scores")
    site = only(rootdk.check({**arrays, "scale": STANDARD, "causal": "bottom_right"}))
    assert site.unresolved is None
    other = only(rootdk.check({**arrays, "scale": STANDARD, "causal": "top_left"}))
    assert other.unresolved is not None
    with pytest.raises(TargetError, match="6 queries and 12 keys; expected top_left or bottom_r"):
        rootdk.check({**arrays, "causal": True})


def test_a_row_without_a_visible_key_takes_no_part(rng: np.random.Generator) -> None:
    shown = np.ones((12, 12), dtype=bool)
    shown[5] = False
    with np.errstate(all="ignore"):
        arrays = attend(rng, STANDARD, visible=shown)
    site = only(rootdk.check({**without(arrays, "output", "scores"), "mask": shown}))
    assert site.effective_scale == pytest.approx(STANDARD, rel=FOUND)
    assert site.observed.empty_rows_nan == 8


# ------------------------------------------------------------------ shapes, layouts and names


@pytest.mark.parametrize("layout", ["bhsd", "bshd", "bsd"])
def test_layouts_are_one_call(layout: str, rng: np.random.Generator) -> None:
    made = attend(rng, STANDARD, kv_heads=2)
    arrays: dict[str, Any] = without(made, "weights", "scores")
    if layout != "bhsd":
        arrays = {name: array.swapaxes(1, 2) for name, array in arrays.items()}
    if layout == "bsd":
        arrays = {name: array.reshape(*array.shape[:2], -1) for name, array in arrays.items()}
        arrays |= {"num_heads": 4, "num_kv_heads": 2}
    site = only(rootdk.check({**arrays, "layout": layout}))
    assert site.effective_scale == pytest.approx(STANDARD, rel=FOUND)
    shape = (site.batch, site.num_heads, site.num_kv_heads, site.queries, site.keys, site.head_dim)
    assert shape == (2, 4, 2, 12, 12, 16)
    assert site.layout == layout


@pytest.mark.parametrize("dimensions", [2, 3])
def test_leading_dimensions_may_be_left_out(dimensions: int, rng: np.random.Generator) -> None:
    made = without(attend(rng, STANDARD, batch=1, heads=1 if dimensions == 2 else 4), "scores")
    arrays = {name: array.reshape(array.shape[4 - dimensions :]) for name, array in made.items()}
    site = only(rootdk.check(arrays))
    assert site.effective_scale == pytest.approx(STANDARD, rel=FOUND)
    assert (site.batch, site.num_heads) == (1, 1 if dimensions == 2 else 4)


def test_some_rows_are_enough(rng: np.random.Generator) -> None:
    arrays = attend(rng, 1.0)
    rows = np.asarray([1, 5, 11])
    some = {"weights": arrays["weights"][:, :, rows], "rows": rows}
    site = only(rootdk.check({**without(arrays, *NEITHER), **some}))
    assert site.effective_scale == pytest.approx(1.0, rel=FOUND)


def test_sites_keep_their_order_their_layers_and_their_calls(rng: np.random.Generator) -> None:
    arrays = without(attend(rng, STANDARD), *NEITHER)
    model = dict.fromkeys(("model.layers.7.attn", "model.layers.7.attn#2", "encoder"), arrays)
    sites = rootdk.check(model).sites
    found = [(s.name, s.module_path, s.call_index, s.layer) for s in sites]
    assert found == [
        ("model.layers.7.attn", "model.layers.7.attn", 0, 7),
        ("model.layers.7.attn#2", "model.layers.7.attn", 1, 7),
        ("encoder", "encoder", 0, None),
    ]


def test_a_name_that_belongs_to_no_site_is_said(rng: np.random.Generator) -> None:
    arrays = without(attend(rng, STANDARD), *NEITHER)
    diagnosis = rootdk.check({**arrays, "scal": 0.25, "mlp.bias": arrays["key"]})
    assert any("2 name(s) belong to no site and were not read" in r for r in diagnosis.remarks)


def test_an_expectation_holds_for_saved_tensors(rng: np.random.Generator) -> None:
    arrays = without(attend(rng, 1.0), "output", "scores")
    assert rootdk.check({"a": arrays}, expect={"a": 1.0}).findings == ()


# ------------------------------------------------------------------ files and libraries


def test_a_file_says_what_the_arrays_say(tmp_path: Path, rng: np.random.Generator) -> None:
    shown = np.tri(12, dtype=bool)
    arrays = without(attend(rng, 1.0, kv_heads=2, visible=shown), "scores", "output")
    named = {f"a.0.{name}": array for name, array in arrays.items()}
    words = {"a.0.causal": "top_left", "state": "init"}
    file = npz(tmp_path / "x.npz", {**named, **words})
    compressed = tmp_path / "y.npz"
    np.savez_compressed(compressed, **named, **words)
    big_endian = {
        name: array.astype(array.dtype.newbyteorder(">")) for name, array in named.items()
    }
    fortran = {name: np.asfortranarray(array) for name, array in named.items()}
    sources: list[Any] = [
        {**named, **words},
        str(file),
        compressed,
        npz(tmp_path / "z.npz", {**big_endian, **words}),
        npz(tmp_path / "f.npz", {**fortran, **words}),
        safetensors(tmp_path / "x.safetensors", named, words),
        safetensors(tmp_path / "w.safetensors", {**named}, {**words, "a.0.scale": "1.0"}),
    ]
    told = [rootdk.check(source) for source in sources]
    assert {d.state for d in told} == {"init"}
    assert {only(d).effective_scale for d in told[:-1]} == {only(told[0]).effective_scale}
    assert only(told[-1]).effective_scale == 1.0
    for diagnosis in told:
        assert [f.code for f in diagnosis.findings if f.severity == "warning"] == ["RDK101"]
    assert told[1].target == str(file)


def test_bfloat16_is_read_exactly(tmp_path: Path, rng: np.random.Generator) -> None:
    wide = without(attend(rng, STANDARD, queries=32, keys=32), *NEITHER)
    halves = {name: array.view(np.uint32) >> 16 for name, array in wide.items()}
    arrays = {
        f"a.{name}": ("BF16", list(bits.shape), bits.astype("<u2").tobytes())
        for name, bits in halves.items()
    }
    file = safetensors(tmp_path / "x.safetensors", arrays, {"a.scale": "0.25"})
    diagnosis = rootdk.check(file)
    site = only(diagnosis)
    assert site.score_dtype == "bfloat16"
    exact = (halves["query"].astype(np.uint32) << 16).view(np.float32)
    std = exact.astype(np.float64).std(axis=(0, 2, 3))
    assert diagnosis.summaries[site.name]["query_std"] == pytest.approx(std, rel=1e-12)


def test_arrays_of_torch_are_taken(rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    arrays = without(attend(rng, 1.0), "scores", "output")
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    site = only(rootdk.check(tensors))
    assert site.effective_scale == pytest.approx(1.0, rel=FOUND)


def test_what_is_accepted() -> None:
    accepts = SavedTensors().accepts
    assert accepts("x.npz")
    assert accepts(Path("x.safetensors"))
    assert accepts({"query": 1, "key": 2})
    assert accepts({"a": {"query": 1}})
    assert not accepts("x.bin")
    assert not accepts({"weight": 1})


def test_inputs_are_refused(rng: np.random.Generator) -> None:
    with pytest.raises(ArgumentError, match="inputs are given for saved tensors"):
        rootdk.check(without(attend(rng, 1.0), *NEITHER), 3)


# ------------------------------------------------------------------ what is refused


ZEROS = np.zeros((1, 2, 3, 4), np.float32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"key": None}, "query and no key beside it"),
        ({"key": np.zeros((1, 2, 3, 5), np.float32)}, "head_dim"),
        ({"key": np.zeros((1, 3, 3, 4), np.float32)}, "expected a multiple of num_kv_heads"),
        ({"key": np.zeros((1, 2, 3, 4), np.int64)}, "key has dtype int64"),
        ({"key": np.zeros(4, np.float32)}, "expected 2 to 4 dimensions"),
        ({"key": "text"}, "key has dtype"),
        ({"key": object()}, "key is a object; expected an array"),
        ({"value": np.zeros((1, 2, 9, 4), np.float32)}, "value"),
        ({"mask": np.zeros((3, 3), np.float32)}, "what is added to scores is a bias"),
        ({"mask": np.full((3, 3), 7)}, "expected truth values"),
        ({"mask": np.zeros((3, 4), bool)}, "mask"),
        ({"bias": np.zeros((1, 1, 1, 3, 3), np.float32)}, "bias has the shape"),
        ({"scale": np.ones(3)}, "expected one number"),
        ({"scale": "much"}, "scale is 'much'; expected a number"),
        ({"scale": np.nan}, "scale is nan"),
        ({"softcap": -1.0}, "softcap is -1.0"),
        ({"causal": "sideways"}, "causal is 'sideways'"),
        ({"window": 3}, "expected two whole numbers"),
        ({"window": (1, 2, 3)}, "expected two whole numbers"),
        ({"window": (-5, 2)}, "window is [-5.0, 2.0]; expected two whole numbers"),
        ({"layout": "dshb"}, "layout of query is 'dshb'; expected one of bhsd, bshd, bsd"),
        ({"layout": "bsd"}, "expected 2 to 3 dimensions (bsd)"),
        ({"num_heads": 2.5}, "expected a whole number from 1 up"),
        ({"score_dtype": "int8"}, "dtype is int8"),
        ({"weights": np.zeros((1, 2, 2, 3), np.float32)}, "expected as many, or attention.rows"),
        ({"weights": np.zeros((1, 2, 3, 4), np.float32)}, "as query and key have it"),
        (
            {"weights": np.zeros((1, 2, 1, 3), np.float32), "rows": np.asarray([3])},
            "expected positions among 3 queries",
        ),
        (
            {"weights": np.zeros((1, 2, 1, 3), np.float32), "rows": np.asarray([0.0])},
            "expected 1 whole numbers",
        ),
        ({"state": "asleep"}, "state is 'asleep'; expected init or trained"),
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    arrays = {"query": ZEROS, "key": ZEROS, **change}
    with pytest.raises(TargetError) as caught:
        rootdk.check({name: array for name, array in arrays.items() if array is not None})
    assert message in str(caught.value)
    assert "the mapping" in str(caught.value) or "layout" in str(caught.value)


def test_side_by_side_heads_need_their_number() -> None:
    flat = np.zeros((1, 3, 8), np.float32)
    with pytest.raises(TargetError, match="expected num_heads beside it"):
        rootdk.check({"query": flat, "key": flat, "layout": "bsd"})
    with pytest.raises(TargetError, match="expected a multiple of its 3 heads"):
        rootdk.check({"query": flat, "key": flat, "layout": "bsd", "num_heads": 3})


def test_empty_calls_have_a_defined_answer() -> None:
    empty = np.zeros((0, 2, 3, 4), np.float32)
    site = only(rootdk.check({"query": empty, "key": empty, "scale": 0.5}))
    assert (site.batch, site.effective_scale) == (0, 0.5)
    keyless = np.zeros((1, 2, 0, 4), np.float32)
    found = only(rootdk.check({"query": ZEROS, "key": keyless, "scale": 0.5}))
    assert found.keys == 0
