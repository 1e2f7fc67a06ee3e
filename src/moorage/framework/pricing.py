"""Prices as configurations and PriceLists write them, and where else they may come from.

Both the arguments of CostAware and PriceList documents hold `PriceArgs`, so a price means the same in either place.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from moorage.core.capacity import Capacity
from moorage.core.frozen import FrozenDict
from moorage.core.labelnames import is_label_value, is_qualified_name
from moorage.core.prices import INSTANCE_TYPE, PriceRule, read_price, repeated
from moorage.core.values import dataclass
from moorage.framework.arguments import PluginArgs

LONGEST_S = 10 * 366 * 86_400
_FILE_POLL_S = 5
_URL_POLL_S = 300


class CapacityType(StrEnum):
    """How documents write the capacity type."""

    SPOT = "spot"
    ON_DEMAND = "on-demand"


_CAPACITIES = {CapacityType.SPOT: Capacity.SPOT, CapacityType.ON_DEMAND: Capacity.ON_DEMAND}


class PriceArgs(PluginArgs):
    """What an hour costs of some nodes: those that meet all conditions, and all nodes where there is none."""

    instance_type: str | None = None
    capacity_type: Annotated[CapacityType | None, Field(strict=False)] = None
    labels: dict[str, str] = Field(default_factory=dict)
    price_per_hour: str

    @field_validator("instance_type")
    @classmethod
    def _is_value(cls, value: str | None) -> str | None:
        if value is not None and (not value or not is_label_value(value)):
            raise ValueError("not an instance type; write the value of the node label, such as m5.large")
        return value

    @field_validator("labels")
    @classmethod
    def _are_labels(cls, labels: dict[str, str]) -> dict[str, str]:
        for key, value in labels.items():
            if not is_qualified_name(key):
                raise ValueError(f"{key!r} is no label key; write one such as example.com/pool")
            if not is_label_value(value):
                raise ValueError(f"{value!r} is no label value; write at most 63 letters, digits, '-', '_' and '.'")
        return labels

    @field_validator("price_per_hour")
    @classmethod
    def _is_price(cls, text: str) -> str:
        read_price(text)
        return text

    @model_validator(mode="after")
    def _says_the_instance_type_once(self) -> PriceArgs:
        if self.instance_type is not None and INSTANCE_TYPE in self.labels:
            raise ValueError(f"names the instance type twice; remove instanceType or the label {INSTANCE_TYPE}")
        return self

    def rule(self) -> PriceRule:
        """What the state reads."""
        labels = dict(self.labels)
        if self.instance_type is not None:
            labels[INSTANCE_TYPE] = self.instance_type
        capacity = None if self.capacity_type is None else _CAPACITIES[self.capacity_type]
        return PriceRule(read_price(self.price_per_hour), FrozenDict(labels), capacity)


def distinct(prices: tuple[PriceArgs, ...]) -> tuple[PriceArgs, ...]:
    """The prices; ValueError if two are for the same nodes, as only one could count."""
    twice = repeated([price.rule() for price in prices])
    if twice is not None:
        raise ValueError(f"entries [{twice[0]}] and [{twice[1]}] are for the same nodes; remove one")
    return prices


def currency_code(text: str) -> str:
    """The code of a currency; ValueError if it is none."""
    if not (len(text) == 3 and text.isascii() and text.isalpha() and text.isupper()):
        raise ValueError("not a currency; write the three letters of its ISO 4217 code, such as USD")
    return text


class ConfigMapArgs(PluginArgs):
    """A ConfigMap, and the entry of its data that holds a PriceList."""

    namespace: Annotated[str, Field(min_length=1)]
    name: Annotated[str, Field(min_length=1)]
    key: Annotated[str, Field(min_length=1)] = "prices.yaml"


class SourceArgs(PluginArgs):
    """Where a PriceList is kept: exactly one of file, configMap and url."""

    file: str | None = None
    config_map: ConfigMapArgs | None = None
    url: str | None = None
    ca_file: str | None = None
    """Certificates to trust for `url` instead of the system's."""
    poll_seconds: Annotated[int | None, Field(ge=1, le=LONGEST_S)] = None

    @field_validator("url")
    @classmethod
    def _is_url(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith(("http://", "https://")):
            raise ValueError("not an address; write one that begins with https:// or http://")
        if url is not None and "@" in url.partition("://")[2].partition("/")[0]:
            raise ValueError("holds a user name, which would show up in logs and metrics; remove it")
        return url

    @model_validator(mode="after")
    def _is_one(self) -> SourceArgs:
        if sum(bool(each) for each in (self.file, self.config_map, self.url)) != 1:
            raise ValueError("must name exactly one of file, configMap and url")
        if self.ca_file is not None and not self.url:
            raise ValueError("caFile is for url only; remove it")
        return self


class SourceKind(StrEnum):
    """Kinds of places."""

    FILE = "file"
    CONFIG_MAP = "configMap"
    URL = "url"


@dataclass(frozen=True, slots=True)
class PriceSource:
    """A place that prices are read from, again and again."""

    kind: SourceKind
    where: str
    """A path, `namespace/name` of a ConfigMap, or a URL."""
    entry: str = ""
    """The entry of a ConfigMap's data."""
    ca_file: str | None = None
    poll_s: float = _URL_POLL_S
    """How often it is looked at; a ConfigMap is watched instead."""
    stale_after_s: float = 3600.0
    """Prices that could not be confirmed for this long are no longer used."""

    @property
    def key(self) -> str:
        """The key of its PriceList in the state; no object of Kubernetes has such a name."""
        entry = f"#{self.entry}" if self.entry else ""
        return f"{self.kind.value}:{self.where}{entry}"


def price_source(args: SourceArgs, stale_after_s: float) -> PriceSource:
    """The place that arguments name."""
    poll_s = args.poll_seconds
    if args.config_map is not None:
        where = f"{args.config_map.namespace}/{args.config_map.name}"
        kind, entry, poll_s = SourceKind.CONFIG_MAP, args.config_map.key, poll_s or _FILE_POLL_S
        return PriceSource(kind, where, entry, None, poll_s, stale_after_s)
    if args.file:
        return PriceSource(SourceKind.FILE, args.file, "", None, poll_s or _FILE_POLL_S, stale_after_s)
    return PriceSource(SourceKind.URL, args.url or "", "", args.ca_file, poll_s or _URL_POLL_S, stale_after_s)
