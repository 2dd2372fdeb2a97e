"""Why the code of some architectures deviates, read in their source by a person.

Only the page uses this. rootdk itself knows no architecture: what is said here is what its graph,
numbers and configuration reading cannot know.
"""

from __future__ import annotations

# What a module path under transformers/models/, or the name of an architecture, is said of.
REMARKS: dict[str, str] = {
    "cvt": "The scale is taken from the full width, `embed_dim**-0.5`, not from the width of a "
    "head (line 152).",
    "dia": "The call passes `scaling=1` and no other factor stands in its place; the weights were "
    "trained without it.",
    "gpt_neo": "No factor at all, as in the original code; the initialisation is an ordinary one.",
    "grounding_dino": "A fault: the text backbone is given a boolean mask, and eager "
    "attention adds it to the scores as 0 and 1, which forbids nothing; sdpa reads it as a mask.",
    "mm_grounding_dino": "The same boolean mask, added to the scores as 0 and 1 by eager "
    "attention.",
    "pix2struct": "The image encoder has no factor, as in T5; its configuration's "
    "initializer_range is 1e-10, so that nothing at initialisation carries it.",
    "nemotron_asr_streaming": "A fault: eager attention gets an additive mask (0 where visible), "
    "and the layer takes its logical_not as the set of forbidden keys, so that exactly the "
    "visible ones are forbidden and the output is NaN; sdpa gets a boolean mask and is right.",
    "phi4_multimodal": "The scale is right; entries are large at initialisation. A fault beside "
    "it: the vision attention sets `is_causal = True` and gets no mask, so that sdpa attends "
    "causally and eager to everything.",
    "x_clip": "The scale is right; the prompt generator is initialised with a standard deviation "
    "of 1 (docs/found.md).",
    "zamba2": "`(head_dim/2)**-0.5`: the input is the concatenation of two streams, and the scale "
    "is taken from half the width (line 239).",
    "zamba": "`(head_dim/2)**-0.5`, as in Zamba2.",
}


def remark(name: str, source: str) -> str:
    """The sentence on an architecture, by its name or by the file of a finding."""
    folder = source.partition("transformers/models/")[2].partition("/")[0]
    return (
        REMARKS.get(folder)
        or REMARKS.get(name.replace("-", "_"))
        or next(
            (said for key, said in REMARKS.items() if name.replace("-", "_").startswith(key)), ""
        )
    )
