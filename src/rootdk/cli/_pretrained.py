"""Models in transformers' own form, loaded without running or unpickling anything of theirs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rootdk._lib.errors import TargetError
from rootdk._lib.extras import is_loaded, require
from rootdk.cli._failures import blamed_on
from rootdk.cli._inputs import inputs_of
from rootdk.cli._loading import Loaded, Request, torch_dtype
from rootdk.cli._safetensors import check_directory

__all__ = ["is_pretrained", "load_directory", "load_gguf"]

_TOKENIZERS = ("tokenizer.*", "tokenizer_config.json", "vocab*", "*.model", "*.tiktoken")
_SAFE = {"local_files_only": True, "trust_remote_code": False}


def is_pretrained(model: object) -> bool:
    """Tell whether a model is one of transformers', without importing transformers."""
    if not is_loaded("transformers"):
        return False
    base = require("transformers", extra="transformers", purpose="to know its own models")
    return isinstance(model, base.PreTrainedModel)


def load_directory(path: Path, request: Request) -> Loaded:
    """Load a directory with a config.json and safetensors.

    Raises
    ------
    TargetError
        If there is no config or no safetensors file, or a file's header and size disagree,
        which is found before anything is allocated.
    """
    if not (path / "config.json").is_file():
        raise TargetError(
            f"{path} has no config.json; expected a transformers model directory, "
            "with config.json and model.safetensors"
        )
    check_directory(path)
    transformers = _transformers()
    with blamed_on(f"loading {path}"):
        config = transformers.AutoConfig.from_pretrained(path, **_SAFE)
        kind = _class_of(transformers, config)
        model, info = kind.from_pretrained(path, config=config, **_arguments(request))
    return _fed(model, path, {}, request, _drawn(info.get("missing_keys")))


def load_gguf(path: Path, request: Request) -> Loaded:
    """Load a GGUF file, its weights put back to floating point."""
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise TargetError(f"{path} is no GGUF file; expected it to begin with GGUF")
    transformers = _transformers()
    require("gguf", extra="transformers", purpose="to read a GGUF file")
    name = {"gguf_file": path.name}
    with blamed_on(f"loading {path}"):
        config = transformers.AutoConfig.from_pretrained(path.parent, **name, **_SAFE)
        model = transformers.AutoModelForCausalLM.from_config(config, **_choices(request))
        missing = _read_gguf(model, path)
    remark = (f"weights are those of {path.name}, as they are after dequantisation",)
    return _fed(model, path.parent, name, request, (*remark, *_drawn(missing)))


def _transformers() -> Any:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TQDM_DISABLE", "1")
    purpose = "to load a model directory or a GGUF file"
    transformers = require("transformers", extra="transformers", purpose=purpose)
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    transformers.logging.disable_progress_bar()
    return transformers


def _class_of(transformers: Any, config: Any) -> Any:
    """Return the class that the config names, or the bare model where it names none."""
    for name in getattr(config, "architectures", None) or ():
        kind = getattr(transformers, str(name), None)
        if isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel):
            return kind
    return transformers.AutoModel


def _read_gguf(model: Any, path: Path) -> set[str]:
    """Put a file's weights into a model, and return the names that the file lacks.

    ``from_pretrained`` does the same, and wants accelerate for it.
    """
    reader = require(
        "transformers.modeling_gguf_pytorch_utils", extra="transformers", purpose="to read GGUF"
    )
    read = reader.load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)
    missing, unexpected = model.load_state_dict(read["tensors"], strict=False)
    if unexpected:
        raise TargetError(
            f"{path} has {unexpected[0]}, which {type(model).__name__} lacks; expected a match"
        )
    model.tie_weights()
    model.eval()
    return set(missing) - set(model.all_tied_weights_keys or ())


def _arguments(request: Request) -> dict[str, Any]:
    return {
        **_SAFE,
        **_choices(request),
        "use_safetensors": True,
        "weights_only": True,
        "output_loading_info": True,
    }


def _choices(request: Request) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    if request.dtype is not None:
        chosen["dtype"] = torch_dtype(request.dtype)
    if request.attention is not None:
        chosen["attn_implementation"] = request.attention
    return chosen


def _drawn(missing: Iterable[str] | None) -> tuple[str, ...]:
    names = sorted(missing or ())
    if not names:
        return ()
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return (f"{len(names)} weights are not in the file and were drawn at random: {shown}",)


def _fed(
    model: Any, folder: Path, name: dict[str, str], request: Request, remarks: tuple[str, ...]
) -> Loaded:
    tokenizer = None
    if request.text is not None:
        if not name and not any(file for form in _TOKENIZERS for file in folder.glob(form)):
            # transformers would make one up, without a vocabulary.
            raise TargetError(f"{folder} has no tokenizer; expected one, to read the text with")
        with blamed_on(f"loading the tokenizer in {folder}"):
            tokenizer = _transformers().AutoTokenizer.from_pretrained(folder, **name, **_SAFE)
    with blamed_on("making inputs"):
        kwargs, said, second = inputs_of(model, tokenizer, request)
    return Loaded(model=model, kwargs=kwargs, remarks=(*remarks, *said), second_inputs=second)
