"""TARGET: a callable in a module or a file, a model directory, or a file."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from rootdk._lib.errors import TargetError
from rootdk.cli._failures import blamed_on
from rootdk.cli._files import load_file
from rootdk.cli._inputs import inputs_of
from rootdk.cli._loading import Loaded, Request, torch_dtype
from rootdk.cli._pretrained import is_pretrained, load_directory, load_gguf

__all__ = ["callable_named", "load"]

_FORMS = (
    "expected package.module:callable, file.py:callable, a transformers model directory, "
    "a .gguf or .onnx file, or a .npz or .safetensors file of saved tensors"
)
_FILES = (".onnx", ".npz", ".safetensors")


def load(target: str, request: Request) -> Loaded:
    """Return the model and the inputs that a TARGET names.

    Raises
    ------
    TargetError
        If there is no such target, or it does not give a model and inputs. The message names
        the exception and the line where the user's own code raised one.
    """
    path = Path(target)
    if request.dtype is not None:
        torch_dtype(request.dtype)
    if path.is_dir():
        return load_directory(path, request)
    if path.suffix.lower() == ".gguf":
        if not path.is_file():
            raise TargetError(f"{target} is no file; {_FORMS}")
        return load_gguf(path, request)
    if path.suffix.lower() in _FILES:
        return load_file(path, request, _FORMS)
    if request.inputs:
        raise TargetError(
            f"--input is given for {target}, which brings inputs of its own; "
            "expected it with an .onnx file only"
        )
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise TargetError(f"the target is {target!r}; {_FORMS}")
    return _load_factory(target, callable_named(place, name), request)


def callable_named(place: str, name: str) -> Callable[..., Any]:
    """Return what is called ``name`` in a module or a file of that place.

    Raises
    ------
    TargetError
        If it cannot be imported, is not there, or cannot be called.
    """
    module = _module_of_file(Path(place)) if place.endswith(".py") else _module_named(place)
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            raise TargetError(f"{place} has no {name}; expected a callable of that name")
        value = getattr(value, part)
    if not callable(value):
        raise TargetError(f"{place}:{name} is a {type(value).__name__}; expected a callable")
    factory: Callable[..., Any] = value
    return factory


def _module_of_file(path: Path) -> ModuleType:
    """Import a file as Python would run it: its own folder comes first on the path."""
    if not path.is_file():
        raise TargetError(f"{path} is no file; {_FORMS}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} is no Python file; {_FORMS}")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and annotations of the file look it up by name; never replace another's.
    sys.modules.setdefault(path.stem, module)
    with blamed_on(str(path)):
        spec.loader.exec_module(module)
    return module


def _module_named(name: str) -> ModuleType:
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    with blamed_on(f"importing {name}"):
        return importlib.import_module(name)


def _require_no_arguments(target: str, factory: Callable[[], Any]) -> None:
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        return
    try:
        signature.bind()
    except TypeError as error:
        raise TargetError(
            f"{target} takes {signature}: {error}; expected a callable without arguments that "
            "returns a model and its inputs"
        ) from None


def _load_factory(target: str, factory: Callable[[], Any], request: Request) -> Loaded:
    if request.attention is not None:
        raise TargetError(
            f"--attn is given for {target}, which chooses its own attention; "
            "expected it with a model directory or a .gguf file only"
        )
    _require_no_arguments(target, factory)
    with blamed_on(target):
        made = factory()
    model, args, kwargs = _taken_apart(target, made)
    _require_module(target, model)
    remarks: tuple[str, ...] = ()
    second = None
    if not args and not kwargs:
        if not is_pretrained(model):
            raise TargetError(
                f"{target} returned a model without inputs; expected (model, args) or "
                "(model, args, kwargs), where args is a tuple or one tensor"
            )
        kwargs, remarks, second = inputs_of(model, None, request)
    elif request.text is not None or request.max_tokens is not None:
        raise TargetError(
            f"--text, --text-file or --max-tokens is given for {target}, "
            "which brings inputs of its own; expected only one of the two"
        )
    if request.dtype not in (None, "auto"):
        dtype = torch_dtype(str(request.dtype))
        if not hasattr(model, "to"):
            raise TargetError(f"--dtype is given for {target}, which is no torch.nn.Module")
        model = model.to(dtype)
        args = tuple(_cast(arg, dtype) for arg in args)
        kwargs = {name: _cast(value, dtype) for name, value in kwargs.items()}
    _require_tokens(args, kwargs)
    return Loaded(model=model, args=args, kwargs=kwargs, remarks=remarks, second_inputs=second)


def _taken_apart(target: str, made: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    match made:
        case (model, args, kwargs) if isinstance(kwargs, Mapping):
            return model, _as_tuple(args), dict(kwargs)
        case (model, kwargs) if isinstance(kwargs, Mapping):
            return model, (), dict(kwargs)
        case (model, args):
            return model, _as_tuple(args), {}
        case tuple():
            raise TargetError(
                f"{target} returned a tuple of {len(made)}; "
                "expected model, (model, args) or (model, args, kwargs)"
            )
    return made, (), {}


def _as_tuple(args: Any) -> tuple[Any, ...]:
    return tuple(args) if isinstance(args, tuple | list) else (args,)


def _require_module(target: str, model: Any) -> None:
    runs = callable(model) or callable(getattr(model, "forward", None))
    if not runs or isinstance(model, type):
        shown = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise TargetError(f"{target} returned {shown}; expected a model, called with its inputs")


def _cast(value: Any, dtype: Any) -> Any:
    floating = getattr(value, "is_floating_point", None)
    return value.to(dtype) if callable(floating) and floating() else value


def _require_tokens(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    given = {f"argument {i}": value for i, value in enumerate(args)} | dict(kwargs)
    for name, value in given.items():
        shape = getattr(value, "shape", None)
        if shape is not None and 0 in tuple(shape):
            raise TargetError(
                f"{name} has the shape {tuple(shape)}; expected at least one of everything"
            )
