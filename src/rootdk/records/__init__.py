"""What frontends, rules and reports say to each other: frozen records, no framework."""

from rootdk.records.behaviour import (
    Agreement,
    ArgumentFact,
    Behaviour,
    BiasFacts,
    CallFacts,
    GradientFacts,
    HeadFacts,
    PrecisionFacts,
    Refusal,
    SoftcapFacts,
    SoftmaxFacts,
    Witness,
)
from rootdk.records.behaviour_mask import CausalAt, EmptyRows, MaskFacts, WindowAt
from rootdk.records.behaviour_scale import (
    Estimate,
    ScaleFacts,
    ScaleLaw,
    ScalePoint,
    Sizes,
    Varies,
)
from rootdk.records.datasheet import Datasheet, Difference, Property
from rootdk.records.diagnosis import Diagnosis, Environment, FindingsError
from rootdk.records.finding import Finding, Severity, Skipped, Unhandled
from rootdk.records.reproduction import Recipe
from rootdk.records.site import (
    Addend,
    AttentionSite,
    Expected,
    Factor,
    Normalisation,
    Observed,
    OperandPath,
    Verification,
)
from rootdk.records.source import Frame, Source

__all__ = [
    "Addend",
    "Agreement",
    "ArgumentFact",
    "AttentionSite",
    "Behaviour",
    "BiasFacts",
    "CallFacts",
    "CausalAt",
    "Datasheet",
    "Diagnosis",
    "Difference",
    "EmptyRows",
    "Environment",
    "Estimate",
    "Expected",
    "Factor",
    "Finding",
    "FindingsError",
    "Frame",
    "GradientFacts",
    "HeadFacts",
    "MaskFacts",
    "Normalisation",
    "Observed",
    "OperandPath",
    "PrecisionFacts",
    "Property",
    "Recipe",
    "Refusal",
    "ScaleFacts",
    "ScaleLaw",
    "ScalePoint",
    "Severity",
    "Sizes",
    "Skipped",
    "SoftcapFacts",
    "SoftmaxFacts",
    "Source",
    "Unhandled",
    "Varies",
    "Verification",
    "WindowAt",
    "Witness",
]
