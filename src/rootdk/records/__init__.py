"""What frontends, rules and reports say to each other: frozen records, no framework."""

from rootdk.records.diagnosis import Diagnosis, Environment, FindingsError
from rootdk.records.finding import Finding, Severity, Skipped, Unhandled
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
    "AttentionSite",
    "Diagnosis",
    "Environment",
    "Expected",
    "Factor",
    "Finding",
    "FindingsError",
    "Frame",
    "Normalisation",
    "Observed",
    "OperandPath",
    "Severity",
    "Skipped",
    "Source",
    "Unhandled",
    "Verification",
]
