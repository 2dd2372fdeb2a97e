"""Where an operation of a graph comes from: its own name, and what an exporter wrote of it."""

from __future__ import annotations

import ast
import linecache
import re
from dataclasses import dataclass

import onnx

from rootdk.records import Frame, Source

__all__ = ["Place", "place_of"]

_SCOPES = "pkg.torch.onnx.name_scopes"
_STACK = "pkg.torch.onnx.stack_trace"
_FRAME = re.compile(
    r'File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<function>\S+)(?:\n(?P<text>[^\n]*))?'
)
_MOST_FRAMES = 3
_LONGEST = 100_000


@dataclass(frozen=True, kw_only=True)
class Place:
    """The module that an operation belongs to, and its source."""

    module_path: str = ""
    source: Source | None = None


def place_of(node: onnx.NodeProto) -> Place:
    """Return where a node comes from.

    Exports by tracing torch's dynamo carry the modules and the lines of Python; older ones
    have the modules in the names of nodes (``/layers.0/attn/MatMul``). Otherwise the node's own
    name is its place.
    """
    found = {entry.key: entry.value for entry in node.metadata_props}
    name = node.name or next((output for output in node.output if output), node.op_type)
    path = _by_scopes(found.get(_SCOPES, "")) or _by_name(name) or name
    frames = _frames(found.get(_STACK, ""))
    return Place(module_path=path, source=Source(frames=frames, module_path=name))


def _by_scopes(text: str) -> str:
    """The innermost module of ``['', 'layers.0', 'layers.0.attn', 'matmul']``."""
    if not text or len(text) > _LONGEST:
        return ""
    try:
        scopes = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ""
    if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
        return ""
    return str(next((scope for scope in reversed(scopes[:-1]) if scope), ""))


def _by_name(name: str) -> str:
    """The modules of ``/encoder/layer.0/attention/self/MatMul``."""
    parts = [part for part in name.split("/") if part]
    return ".".join(parts[:-1]) if name.startswith("/") and len(parts) > 1 else ""


def _frames(text: str) -> tuple[Frame, ...]:
    """The innermost frames; lines of files are shown only if the file quotes them itself."""
    found = []
    for match in _FRAME.finditer(text[-_LONGEST:]):
        file, line = match["file"], int(match["line"][:9])
        quoted = (match["text"] or "").strip()
        if not quoted or linecache.getline(file, line).strip() != quoted:
            file = f"<{file}>"
        found.append(Frame(file=file, line=line, function=match["function"]))
    return tuple(reversed(found))[:_MOST_FRAMES]
