"""The grammar of label keys, label values and the other qualified names of Kubernetes; those that nodes have."""

from __future__ import annotations

import re

HOSTNAME = "kubernetes.io/hostname"
ZONE, BETA_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION, BETA_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
"""Labels of nodes that mean something to Kubernetes, and what they were called before."""
_PREFIX_LENGTH = 253
_NAME_LENGTH = 63
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)


def is_qualified_name(text: str) -> bool:
    """Whether the text can be a label key: a name of at most 63 characters, maybe behind a DNS prefix and a slash."""
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > _PREFIX_LENGTH or not _SUBDOMAIN.fullmatch(prefix)):
        return False
    return len(name) <= _NAME_LENGTH and _NAME.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """Whether the text can be a label's value; the empty one can."""
    return not text or (len(text) <= _NAME_LENGTH and _NAME.fullmatch(text) is not None)
