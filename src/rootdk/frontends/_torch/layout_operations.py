"""ATen operations that only move, repeat or join entries."""

from __future__ import annotations

from typing import Any

from rootdk.frontends._torch.table import Lowered, argument, entry, same, tensors_of

__all__: list[str] = []


@entry("view", "_unsafe_view", "reshape", "_reshape_alias", "unflatten", "flatten", "view_copy")
def _view(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    source = args[0]
    if source.dtype != out.dtype:
        return Lowered("rearrange", [source])
    return Lowered("view", [source])


@entry("permute", "permute_copy")
def _permute(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    rank = args[0].dim()
    return Lowered("permute", [args[0]], {"dims": tuple(d % rank for d in args[1])})


@entry("transpose", "t", "numpy_T", "swapaxes", "mT", "adjoint", "transpose_copy")
def _transpose(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    rank = args[0].dim()
    dims = list(range(rank))
    one, two = (args[1], args[2]) if len(args) > 2 else (-1, -2)
    if rank > 1:
        dims[one], dims[two] = dims[two], dims[one]
    return Lowered("permute", [args[0]], {"dims": tuple(dims)})


@entry("unsqueeze")
def _unsqueeze(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    return Lowered("unsqueeze", [args[0]], {"dim": args[1]})


@entry("squeeze")
def _squeeze(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    source = args[0]
    named = args[1] if len(args) > 1 else tuple(range(source.dim()))
    named = (named,) if isinstance(named, int) else named
    rank = max(source.dim(), 1)
    dims = tuple(d % rank for d in named if source.dim() and source.shape[d] == 1)
    return Lowered("squeeze", [source], {"dims": dims})


@entry("expand", "broadcast_to", "expand_as")
def _expand(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    return Lowered("expand", [args[0]])


@entry("slice", "narrow", "slice_copy")
def _slice(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    source = args[0]
    dim = argument(args, kwargs, 1, "dim", 0) % max(source.dim(), 1)
    start = argument(args, kwargs, 2, "start", 0) or 0
    size = source.shape[dim]
    start = max(size + start, 0) if start < 0 else min(start, size)
    step = argument(args, kwargs, 4, "step", 1) if name != "narrow" else 1
    return Lowered("slice", [source], {"dim": dim, "start": start, "step": step})


@entry("select", "select_copy")
def _select(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    dim = args[1] % args[0].dim()
    return Lowered("select", [args[0]], {"dim": dim, "at": args[2] % args[0].shape[dim]})


@entry("unbind")
def _unbind(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    dim = argument(args, kwargs, 1, "dim", 0) % args[0].dim()
    each = [{"dim": dim, "at": i} for i in range(len(out))]
    return Lowered("select", [args[0]], {}, each)


@entry("split", "split_with_sizes", "chunk", "tensor_split", "split_with_sizes_copy")
def _split(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    dim = argument(args, kwargs, 2, "dim", 0) % args[0].dim()
    each, start = [], 0
    for part in out:
        each.append({"dim": dim, "start": start, "step": 1})
        start += part.shape[dim]
    return Lowered("slice", [args[0]], {}, each)


@entry("cat", "concatenate", "concat")
def _cat(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    # Old behaviour of cat: one-dimensional empty tensors are skipped whatever the rank.
    parts = [t for t in args[0] if not (t.dim() == 1 and t.shape[0] == 0 and out.dim() > 1)]
    dim = argument(args, kwargs, 1, "dim", 0) % max(out.dim(), 1)
    return Lowered("cat", parts, {"dim": dim})


@entry("stack")
def _stack(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    return Lowered("stack", list(args[0]))


@entry("constant_pad_nd", "pad", "reflection_pad1d", "replication_pad1d", "reflection_pad2d")
def _pad(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    return Lowered("rearrange", [args[0]], {"name": name})


same(
    "rearrange",
    *"repeat repeat_interleave roll flip unfold as_strided view_as_complex view_as_real "
    "unfold_copy tile rot90 diagonal movedim pixel_shuffle pixel_unshuffle diag_embed "
    "view_as_complex_copy _view_as_complex as_strided_copy channel_shuffle diagonal_copy "
    "block_diag fliplr flipud".split(),
)


@entry("index", "index_select", "gather", "take_along_dim", "masked_select", "_unsafe_index")
def _gather(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    return Lowered("gather", tensors_of(args, kwargs))


@entry("embedding")
def _embedding(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    return Lowered("embedding", [args[0], args[1]])


@entry("copy", "_foreach_copy")
def _copy(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    return Lowered("identity", [args[1]])


@entry(
    "index_put",
    "scatter",
    "index_copy",
    "index_add",
    "scatter_add",
    "masked_scatter",
    "slice_scatter",
    "select_scatter",
    "index_fill",
    "_index_put_impl",
    "scatter_reduce",
)
def _written(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    return Lowered("assemble", tensors_of(args, kwargs))
