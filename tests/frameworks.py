"""The packages that rootdk measures or draws with, and never imports unasked."""

import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def forbidden_by(contract_id: str) -> frozenset[str]:
    """The modules that an import contract in pyproject.toml forbids."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (
        contract
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract["id"] == contract_id
    )
    return frozenset(contract["forbidden_modules"])


FRAMEWORKS = forbidden_by("frameworks")
FACES = forbidden_by("terminal")

BEHIND_A_DOOR = {
    "rootdk.engines._numba": "what Numba compiles is decorated; it is imported when a call"
    " is large enough to be worth it",
    "rootdk.frontends._jax": "JAX's own folders and types are looked at while a function is"
    " traced; it is imported when there is one",
    "rootdk.frontends._onnx": "what reads and runs a graph is onnx's and onnxruntime's own; it is"
    " imported when there is an ONNX model to run",
    "rootdk.frontends._torch": "a dispatch mode is a subclass of torch's; it is imported"
    " when there is a torch model to trace",
}
"""Packages whose modules may import a framework, since nothing imports them but a function."""
