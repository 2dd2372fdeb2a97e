"""Ways of writing attention that libraries have, and that a tracer once misread or missed."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import rootdk
from rootdk.frontends import trace
from rootdk.frontends._torch.recorder import Recorder

HEADS, HEAD_DIM, WIDTH, LENGTH = 4, 8, 32, 11
SCALE = HEAD_DIM**-0.5


@pytest.fixture(autouse=True)
def faults_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the tracer fails the test instead of costing a site."""
    monkeypatch.setattr(Recorder, "strict", True)


class Attention(nn.Module):
    """Projections and a hand-written attention, to be overridden."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def split(self, x):
        return x.unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)

    def project(self, x):
        return tuple(self.split(f(x)) for f in (self.query, self.key, self.value))

    def attend(self, q, k, v):
        raise NotImplementedError

    def forward(self, x):
        return self.attend(*self.project(self.norm(x))).transpose(1, 2).flatten(2)


def run(model, *, batch=2):
    with torch.no_grad():
        return trace(model, (torch.randn(batch, LENGTH, WIDTH),))


def only(found):
    assert len(found.sites) == 1, found.sites
    assert found.sites[0].unresolved is None, found.sites[0].unresolved
    return found.sites[0]


class LearnedQuery(Attention):
    """A pooling head: the query is a parameter, projected and scaled by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.probe = nn.Parameter(torch.randn(1, 1, WIDTH))

    def forward(self, x):
        _, k, v = self.project(self.norm(x))
        q = self.split(self.query(self.probe.expand(len(x), -1, -1))) * SCALE
        return (q @ k.mT).softmax(-1) @ v


def test_a_factor_on_a_query_that_depends_on_no_input(seed: int) -> None:
    torch.manual_seed(seed)
    assert only(run(LearnedQuery())).effective_scale == pytest.approx(SCALE)


class MixedHeads(LearnedQuery):
    """The scores of a learned query are mixed over the heads (class attention in CaiT)."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.randn(HEADS, HEADS))

    def forward(self, x):
        _, k, v = self.project(self.norm(x))
        q = self.split(self.query(self.probe.expand(len(x), -1, -1)))
        scores = torch.einsum("bhij,hg->bgij", q @ k.mT * SCALE, self.mix)
        return scores.softmax(-1) @ v


def test_the_map_over_scores_of_a_learned_query_is_no_product(seed: int) -> None:
    torch.manual_seed(seed)
    found = run(MixedHeads())
    assert not any(site.resolved for site in found.sites)
    assert [u.operation for u in found.unhandled] == ["softmax"]


class Hashed(Attention):
    """exp(x - logsumexp(x)), with one row that only a finite fill is left of (Reformer)."""

    def attend(self, q, k, v):
        scores = q @ k.mT * SCALE
        hidden = torch.zeros(LENGTH, LENGTH, dtype=torch.bool)
        hidden[0] = True
        scores = scores.masked_fill(hidden, -5e4)
        return torch.exp(scores - scores.logsumexp(-1, keepdim=True)) @ v


def test_the_rounding_of_a_hidden_row_is_not_its_sum(seed: int) -> None:
    torch.manual_seed(seed)
    diagnosis = rootdk.check(Hashed(), torch.randn(2, LENGTH, WIDTH))
    assert {f.code for f in diagnosis.findings if f.severity != "note"} == set()
    assert diagnosis.sites[0].observed.row_sum_max == pytest.approx(1.0, abs=1e-5)


class Picked(Attention):
    """Only the queries with the largest norm attend (Informer)."""

    def attend(self, q, k, v):
        q = q * SCALE
        largest = q.norm(dim=-1).topk(5, -1).indices
        q = q.gather(2, largest[..., None].expand(-1, -1, -1, HEAD_DIM))
        return (q @ k.mT).softmax(-1) @ v


def test_queries_that_a_search_picked_keep_their_factor(seed: int) -> None:
    torch.manual_seed(seed)
    site = only(run(Picked()))
    assert (site.effective_scale, site.queries) == (pytest.approx(SCALE), 5)


class Routed(Attention):
    """The query projection is a mixture of experts, whose outputs are put back by index."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, 2)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(self, x):
        h = self.norm(x)
        flat = h.flatten(0, 1)
        order = self.router(flat).argmax(-1).sort(stable=True).indices
        sizes = self.router(flat).argmax(-1).bincount(minlength=2).tolist()
        parts = flat[order].split(sizes)
        outs = torch.cat([e(p) for e, p in zip(self.experts, parts, strict=True)])
        q = torch.zeros_like(flat).index_add(0, order, outs).view_as(h)
        _, k, v = self.project(h)
        return F.scaled_dot_product_attention(self.split(q), k, v)


def test_a_routed_query_projection(seed: int) -> None:
    torch.manual_seed(seed)
    assert only(run(Routed())).effective_scale == pytest.approx(SCALE)


class Tables(Attention):
    """Rotary tables of the query's own size that were made outside the pass."""

    def attend(self, q, k, v):
        angles = np.outer(np.arange(LENGTH), 0.5 ** np.arange(HEAD_DIM // 2))
        angles = np.broadcast_to(np.concatenate([angles, angles], -1), q.shape)
        cos, sin = (torch.from_numpy(f(angles)).float() for f in (np.cos, np.sin))

        def turned(x):
            half = torch.cat([-x[..., HEAD_DIM // 2 :], x[..., : HEAD_DIM // 2]], -1)
            return x * cos + half * sin

        return F.scaled_dot_product_attention(turned(q), turned(k), v)


class Table(Attention):
    """A product with one such table, which could hide anything."""

    def attend(self, q, k, v):
        q = q * torch.from_numpy(np.linspace(0.5, 2.0, q.numel()).reshape(q.shape)).float()
        return F.scaled_dot_product_attention(q, k, v)


class GateOfNumpy(Attention):
    """The query went through NumPy and is gated by an activation: the gate is not the query."""

    def attend(self, q, k, v):
        lost = torch.from_numpy(q.detach().numpy() * 0.25)
        return F.scaled_dot_product_attention(lost * k.sigmoid(), k, v)


def test_tables_from_outside_are_a_rotation_only_if_they_are_one(seed: int) -> None:
    torch.manual_seed(seed)
    assert only(run(Tables())).effective_scale == pytest.approx(SCALE)
    for kind in (Table, GateOfNumpy):
        (site,) = run(kind()).sites
        assert "outside the traced operations" in (site.unresolved or ""), kind


class Blocks(Attention):
    """Local attention in blocks filled up with zeros, the scale in the initialisation (LongT5)."""

    block = 16

    def __init__(self) -> None:
        super().__init__()
        for linear, std in ((self.query, (WIDTH * HEAD_DIM) ** -0.5), (self.key, WIDTH**-0.5)):
            nn.init.normal_(linear.weight, std=std)
        nn.init.normal_(self.value.weight, std=WIDTH**-0.5)
        for linear in (self.query, self.key, self.value):
            nn.init.zeros_(linear.bias)

    def attend(self, q, k, v):
        rest = self.block - LENGTH
        q, k, v = (F.pad(t, (0, 0, 0, rest)) for t in (q, k, v))
        k, v = (F.pad(t, (0, 0, self.block, self.block)) for t in (k, v))
        hidden = torch.ones(3 * self.block, dtype=torch.bool)
        hidden[self.block : self.block + LENGTH] = False
        scores = (q @ k.mT).masked_fill(hidden, -1e10)
        return (scores.softmax(-1) @ v)[:, :, :LENGTH]


def test_what_fills_up_a_block_is_left_out_of_the_entries(seed: int) -> None:
    torch.manual_seed(seed)
    diagnosis = rootdk.check(Blocks(), torch.randn(2, LENGTH, WIDTH))
    (finding,) = (f for f in diagnosis.findings if f.code == "RDK101")
    assert finding.severity == "note", finding.message
    assert "the projections carry it" in finding.excuse
    (site,) = diagnosis.sites
    assert (site.queries, site.keys) == (16, 48)
    summary = diagnosis.summaries[site.name]
    assert int(summary["rows"].sum()) == 2 * HEADS * LENGTH


class ThreeTerms(Attention):
    """Two position terms are added up before the content term, each over √(3d) (SEW-D)."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(LENGTH, WIDTH))
        self.place_query, self.place_key = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def attend(self, q, k, v):
        root = math.sqrt(3 * HEAD_DIM)
        places = self.table + 0.0 * v.sum()
        pq, pk = (
            self.split(self.place_query(places)[None]),
            self.split(self.place_key(places)[None]),
        )
        terms = 0
        terms += q @ pk.mT / root
        terms += pq @ k.mT / root
        return (q @ (k / root).mT + terms).softmax(-1) @ v


def test_terms_that_are_added_up_first_are_counted_one_by_one(seed: int) -> None:
    torch.manual_seed(seed)
    diagnosis = rootdk.check(ThreeTerms(), torch.randn(2, LENGTH, WIDTH))
    (site,) = diagnosis.sites
    assert site.score_terms == 3
    assert {f.severity for f in diagnosis.findings if f.code == "RDK108"} == {"note"}


class LowRank(Attention):
    """A query out of a low rank, enlarged by √(hidden/rank) (LongCat)."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.config = SimpleNamespace(hidden_size=WIDTH, q_lora_rank=8)
        self.factor = factor

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q * self.factor, k, v)


@pytest.mark.parametrize(("factor", "severity"), [(2.0, "note"), (1.7, "warning"), (1.0, None)])
def test_the_widths_of_a_low_rank_explain_their_own_factor(
    factor: float, severity: str | None, seed: int
) -> None:
    torch.manual_seed(seed)
    diagnosis = rootdk.check(LowRank(factor), torch.randn(2, LENGTH, WIDTH))
    found = {f.severity for f in diagnosis.findings if f.code.startswith("RDK1")}
    assert found == ({severity} if severity else set())


class AfterASearch(Attention):
    """Positions chosen by a softmax are no weights: a later attention is seen (SuperGlue)."""

    def __init__(self) -> None:
        super().__init__()
        self.heat, self.place = nn.Linear(WIDTH, 1), nn.Linear(1, WIDTH)

    def forward(self, x):
        best = self.heat(x).softmax(1).topk(6, 1).indices
        x = x.gather(1, best.expand(-1, -1, WIDTH)) + self.place(best.float())
        q, k, v = self.project(self.norm(x))
        mask = torch.where(best.mT[:, None] >= 0, 0.0, -1e4)
        return (q @ k.mT * SCALE + mask).softmax(-1) @ v


def test_positions_that_a_softmax_chose_are_no_weights(seed: int) -> None:
    torch.manual_seed(seed)
    assert only(run(AfterASearch())).effective_scale == pytest.approx(SCALE)


WEIGHTS = {
    "cdist": lambda q, k: (-torch.cdist(q, k)).softmax(-1),
    "sigmoid": lambda q, k: (q @ k.mT * SCALE - 2.0).sigmoid(),
    "relu and pow": lambda q, k: F.relu(q @ k.mT) ** 2,
    "no function at all": lambda q, k: q @ k.mT,
}


class Weighted(Attention):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def attend(self, q, k, v):
        return WEIGHTS[self.name](q, k) @ v


@pytest.mark.parametrize("name", WEIGHTS)
def test_what_is_no_softmax_over_products_is_listed(name: str, seed: int) -> None:
    torch.manual_seed(seed)
    found = run(Weighted(name))
    assert found.sites == ()
    (listed,) = found.unhandled
    assert name in listed.why
    assert listed.count == 1


def test_an_attention_is_not_listed_as_something_else(seed: int) -> None:
    torch.manual_seed(seed)
    assert run(LearnedQuery()).unhandled == ()


class OnEdges(Attention):
    """Attention over the edges of a graph: each node's edges are normalised apart."""

    def forward(self, x):
        count = x.shape[0] * x.shape[1]
        q, k, v = (y.transpose(1, 2).reshape(count, HEADS, -1) for y in self.project(self.norm(x)))
        to = torch.arange(3 * count) % count
        terms = ((q[to] * k[to.flip(0)]).sum(-1) * SCALE).exp()
        totals = torch.zeros(count, HEADS).index_add(0, to, terms)
        weights = terms / (totals[to] + 1e-16)
        return torch.zeros_like(q).index_add(0, to, weights[..., None] * v[to.flip(0)])


def test_a_softmax_over_edges_is_listed(seed: int) -> None:
    torch.manual_seed(seed)
    found = run(OnEdges())
    assert found.sites == ()
    (listed,) = found.unhandled
    assert (listed.operation, listed.kind, listed.count) == ("softmax", "attention", 1)
    assert "groups of rows that an index gives" in listed.why


class InBlocks(Attention):
    """A softmax that is put together over blocks of keys."""

    def attend(self, q, k, v):
        largest, total, mixed = torch.full(q.shape[:-1], -math.inf), 0.0, 0.0
        for k_block, v_block in zip(k.split(4, 2), v.split(4, 2), strict=True):
            scores = q @ k_block.mT * SCALE
            now = torch.maximum(largest, scores.amax(-1))
            kept, terms = (largest - now).exp(), (scores - now[..., None]).exp()
            total, mixed = total * kept + terms.sum(-1), mixed * kept[..., None] + terms @ v_block
            largest = now
        return mixed / total[..., None]


def test_a_softmax_over_blocks_is_listed(seed: int) -> None:
    torch.manual_seed(seed)
    found = run(InBlocks())
    assert found.sites == ()
    (listed,) = found.unhandled
    assert (listed.operation, listed.kind) == ("attention without a softmax", "attention")
    assert "not divided by their own sum" in listed.why


class Decays(Attention):
    """A recurrence in parallel: states are products, and mixed by how much is left of them."""

    def attend(self, q, k, v):
        q, k, v = (F.pad(each, (0, 0, 0, 1)).unflatten(2, (-1, 2)) for each in (q, k, v))
        states = k.mT @ v
        at = torch.arange(k.shape[2])
        left = F.logsigmoid(q.mean((-2, -1))).cumsum(-1)
        left = (left[..., :, None] - left[..., None, :]).masked_fill(at > at[:, None], -math.inf)
        mixed = left.exp() @ states.flatten(3)
        return (q @ mixed.unflatten(-1, states.shape[-2:])).flatten(2, 3)[:, :, :-1]


def test_decays_are_no_exponentials_of_scores(seed: int) -> None:
    torch.manual_seed(seed)
    found = run(Decays())
    assert found.sites == ()
    assert not any("not divided by their own sum" in listed.why for listed in found.unhandled)


class Streams(Attention):
    """Residual streams mixed by weights that a projection of them gives (hyper-connections)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 4), nn.Linear(WIDTH, 4)

    def forward(self, x):
        streams = x[..., None, :] + torch.zeros(4, 1)
        for mix in (self.first, self.second):
            weights = mix(streams).tanh()
            streams = streams + weights @ streams
        return super().forward(streams.mean(-2))

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


def test_streams_mixed_by_a_projection_of_themselves_are_no_attention(seed: int) -> None:
    torch.manual_seed(seed)
    assert run(Streams()).unhandled == ()
