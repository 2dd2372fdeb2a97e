"""Statistics of scores put together of pieces: those of the same scores in one product."""

import numpy as np
import pytest
import torch
from lookalikes import pieces as designs
from lookalikes.design import SCALE, Design

import rootdk
from rootdk.frontends._sites import whole_rows
from rootdk.frontends._sites.recording import Recording
from rootdk.stats import Summary

# Products of float32, over 16 entries, in another order.
RELATIVE = 64 * float(np.finfo(np.float32).eps)
OF_ENTRIES = ("query", "key", "value", "input", "predicted", "implied", "projection")
# Which rows are shown depends on what stands for their query.
JUMPING = ("sample_rows", "score_histogram", "first_key_weight")


@pytest.fixture(autouse=True)
def faults_of_the_tracer_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recording, "strict", True)


def summary_of(model: Design) -> Summary | None:
    diagnosis = rootdk.check(model, *model.inputs())
    (site,) = diagnosis.sites
    assert site.unresolved is None
    return diagnosis.summaries.get(site.name)


def operands(model: Design, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    h = model.norm(x)
    return model.split(model.query(h)).detach(), model.split(model.key(h)).detach()


@pytest.mark.parametrize(
    ("design", "options"),
    [
        (designs.BlocksOfQueries, {}),
        (designs.RowsIntoABuffer, {"causal": "top_left"}),
        (designs.BandOfChunks, {"window": (2, 2)}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_they_are_those_of_one_product(design: type[Design], options: dict, seed: int) -> None:
    torch.manual_seed(seed)
    model = design()
    inputs = model.inputs()
    diagnosis = rootdk.check(model, *inputs)
    (found,) = diagnosis.summaries.values()
    expected = rootdk.measure(*operands(model, *inputs), scale=SCALE, **options)
    assert found.exact
    assert found.scale == pytest.approx(SCALE, rel=1e-6)
    for name in found.quantities:
        if name not in JUMPING and not name.startswith("headroom"):
            np.testing.assert_allclose(
                found[name], expected[name], rtol=RELATIVE, atol=RELATIVE, err_msg=name
            )
    absent = set(expected.quantities) - set(found.quantities)
    assert all(name.startswith(OF_ENTRIES) for name in absent)
    assert "several products" in str(found.why_absent("query_std"))


def test_blocks_with_heads_in_the_middle_of_a_merged_axis(seed: int) -> None:
    """Batch, heads and blocks are one axis of the product; a key may be met twice."""
    torch.manual_seed(seed)
    model = designs.GlobalAndLocalKeys()
    inputs = model.inputs()
    (found,) = rootdk.check(model, *inputs).summaries.values()
    q, k = operands(model, *inputs)
    scores = SCALE * (q @ k.mT).double()
    blocks = torch.arange(model.length) // model.block
    rows = [
        torch.cat([row[..., : model.first], row[..., blocks == blocks[i]]], -1)
        for i, row in enumerate(scores.unbind(-2))
    ]
    whole = torch.stack(rows, -2)
    spread = whole.var(-1, correction=0).mean((0, 2)).sqrt()
    entropy = torch.special.entr(whole.softmax(-1)).sum(-1).mean((0, 2))
    np.testing.assert_allclose(found["row_spread"], spread.numpy(), rtol=RELATIVE)
    np.testing.assert_allclose(found["entropy_nats"], entropy.numpy(), rtol=RELATIVE)


def test_of_many_rows_a_sample_is_measured(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_rows, "_SCORES", 400)
    torch.manual_seed(seed)
    found = summary_of(designs.BlocksOfQueries())
    assert found is not None
    # Four heads of twelve keys: 400 // 48 rows.
    assert found.rows.tolist() == [8, 8, 8, 8]
    assert "8 of 36 query rows were measured" in found.notes[0]


class AsManySamplesAsHeads(designs.GlobalAndLocalKeys):
    """Nothing tells samples from heads where both are merged with blocks."""

    batch = 4


class BiasBeforeTheJoin(designs.BlocksOfQueries):
    def attend(self, q, k, v):
        rows = [part @ k.mT * self.head_dim**-0.5 for part in q.split(5, dim=2)]
        rows[0] = rows[0] + torch.arange(1.0, 1.0 + self.length)
        return torch.cat(rows, dim=2).softmax(-1) @ v


class BiasAfterTheJoin(designs.BlocksOfQueries):
    def attend(self, q, k, v):
        rows = [part @ k.mT * self.head_dim**-0.5 for part in q.split(5, dim=2)]
        return (torch.cat(rows, dim=2) + torch.arange(12.0)).softmax(-1) @ v


class WeakMask(designs.BlocksOfQueries):
    """A fill of -100 hides, and stands among the scores."""

    def attend(self, q, k, v):
        rows = [part @ k.mT * self.head_dim**-0.5 for part in q.split(5, dim=2)]
        hidden = torch.ones(self.length, self.length).triu(1) * -100.0
        return (torch.cat(rows, dim=2) + hidden).softmax(-1) @ v


class TwoRotations(designs.NearAndFar):
    """Capped, so that the argument of the softmax is no scaled score."""

    def attend(self, q, k, v):
        near = torch.arange(q.shape[2]) < 4
        scores = torch.where(near, q @ k.mT, q.flip(-1) @ k.mT) * self.head_dim**-0.5
        return (5.0 * torch.tanh(scores / 5.0)).softmax(-1) @ v


@pytest.mark.parametrize(
    "design",
    [
        designs.PiecesAndASink,
        BiasBeforeTheJoin,
        BiasAfterTheJoin,
        WeakMask,
        TwoRotations,
    ],
    ids=lambda design: design.__name__,
)
def test_where_other_things_were_added_there_are_none(design: type[Design], seed: int) -> None:
    torch.manual_seed(seed)
    assert summary_of(design()) is None


def test_samples_are_not_taken_for_heads(seed: int) -> None:
    torch.manual_seed(seed)
    assert summary_of(AsManySamplesAsHeads()) is None
