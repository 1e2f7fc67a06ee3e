"""Keys of annotations and labels that `moorage validate` has no rule for."""

from __future__ import annotations

OTHERS = {
    "moorage.dev/devices",
    "moorage.dev/fallback-from",
    "moorage.dev/keeper-cordoned",
    "moorage.dev/keeper-notice",
    "moorage.dev/keeper-repack",
    "moorage.dev/keeper-since",
    "moorage.dev/keeper-until",
    "moorage.dev/leaving",
    "moorage.dev/placed-by",
    "moorage.dev/plain-http",
    "moorage.dev/pod-set-counts",
    "moorage.dev/provisions-for",
    "moorage.dev/replica-address",
    "moorage.dev/replica-follows",
    "moorage.dev/replica-of",
    "moorage.dev/term",
    "moorage.dev/trial",
    "moorage.dev/unhealthy-devices",
}
"""Written by Moorage itself, or not on workloads and pods."""
