"""IP addresses and networks."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from moorage.cel import costs
from moorage.cel import types as ty
from moorage.cel.costs import per_character
from moorage.cel.functions import Function, Library, method, overload
from moorage.cel.types import Type
from moorage.cel.values import NO_OVERLOAD, CelError, Foreign, Value, size

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_LONGEST = 64


@dataclass(frozen=True, slots=True)
class CelAddress(Foreign):
    """An address; its size is in bytes."""

    type: ClassVar[Type] = ty.opaque("net.IP")
    go_name: ClassVar[str] = "cel.IP"
    address: Address

    @property
    def size(self) -> int:
        """4 or 16."""
        return self.address.max_prefixlen // 8


@dataclass(frozen=True, slots=True)
class CelNetwork(Foreign):
    """An address and the length of a prefix; its size is that of the prefix in bytes."""

    type: ClassVar[Type] = ty.opaque("net.CIDR")
    go_name: ClassVar[str] = "cel.CIDR"
    address: Address
    bits: int

    @property
    def size(self) -> int:
        """The bytes that the prefix touches."""
        return math.ceil(self.bits / 8)

    @property
    def first(self) -> Address:
        """The address with everything behind the prefix set to zero."""
        kept = self.address.max_prefixlen - self.bits
        return type(self.address)(int(self.address) >> kept << kept)

    def contains(self, other: Address) -> bool:
        """Whether an address has the prefix."""
        return other.version == self.address.version and CelNetwork(other, self.bits).first == self.first


def _address(text: str) -> Address | str:
    """An address, or what is wrong with it."""
    if "%" in text:
        return f'IP address "{text}" with zone value is not allowed'
    try:
        found = ipaddress.ip_address(text) if len(text) <= _LONGEST else None
    except ValueError:
        found = None
    if found is None:
        problem = f'ParseAddr("{text}"): unable to parse IP'
        return f'IP Address "{text}" parse error during conversion from string: {problem}'
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return f'IPv4-mapped IPv6 address "{text}" is not allowed'
    return found


def _network(text: str) -> CelNetwork | str:
    """A network, or what is wrong with it."""
    whole, slash, bits = text.rpartition("/")
    problem = "network address parse error during conversion from string"
    if not slash:
        return f"{problem}: netip.ParsePrefix(\"{text}\"): no '/'"
    found = _address(whole)
    if isinstance(found, str):
        return (
            found
            if found.startswith("IPv4-mapped")
            else f'{problem}: netip.ParsePrefix("{text}"): ' + (f'ParseAddr("{whole}"): unable to parse IP')
        )
    digits = bits.isascii() and bits.isdigit() and len(bits) <= 3 and (bits == "0" or bits[0] != "0")
    if not digits:
        return f'{problem}: netip.ParsePrefix("{text}"): bad bits after slash: "{bits}"'
    if int(bits) > found.max_prefixlen:
        return f'{problem}: netip.ParsePrefix("{text}"): prefix length out of range'
    return CelNetwork(found, int(bits))


def _to_address(text: str) -> Value:
    found = _address(text)
    return CelError(found) if isinstance(found, str) else CelAddress(found)


def _to_network(text: str) -> Value:
    found = _network(text)
    return (
        CelError(f"network address parse error during conversion from string: {found}")
        if isinstance(found, str)
        else found
    )


def _canonical(text: str) -> Value:
    found = _address(text)
    return CelError(found) if isinstance(found, str) else str(found) == text


def _contains_text(network: CelNetwork, text: str) -> Value:
    found = _address(text)
    return NO_OVERLOAD if isinstance(found, str) else network.contains(found)


def _contains_network(network: CelNetwork, other: CelNetwork) -> bool:
    return network.bits <= other.bits and network.contains(other.address)


def _contains_network_text(network: CelNetwork, text: str) -> Value:
    found = _to_network(text)
    return found if isinstance(found, CelError) else _contains_network(network, found)


def _global(address: Address) -> bool:
    broadcast = address.version == 4 and int(address) == 2**32 - 1
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and not broadcast


def _link_local_multicast(address: Address) -> bool:
    if address.version == 4:
        return int(address) >> 8 == 0xE00000
    return int(address) >> 112 & 0xFF0F == 0xFF02


def _on(read: Callable[[Address], Value]) -> Callable[[CelAddress], Value]:
    return lambda value: read(value.address)


def _contains_cost(twice: bool, more: bool) -> Callable[[tuple[Value, ...], Value], int]:
    """Comparing with a prefix; networks are masked too, and texts are read first."""

    def cost(args: tuple[Value, ...], _: Value) -> int:
        found = per_character(size(args[0]), 2)
        if twice:
            found += per_character(size(args[0])) + 1
        return found + (per_character(size(args[1])) if more else 0)

    return cost


_T = {"ip": CelAddress.type, "cidr": CelNetwork.type}
LIBRARY = Library(
    (
        Function(
            "ip",
            (
                overload("string_to_ip", "string -> ip", _to_address, **_T),
                method("cidr_ip", "cidr -> ip", lambda network: CelAddress(network.address), **_T),
            ),
            cost=costs.first_argument,
            costs={"cidr_ip": lambda _args, _result: 1},
        ),
        Function(
            "ip.isCanonical",
            (overload("ip_is_canonical", "string -> bool", _canonical),),
            cost=costs.first_argument_twice,
        ),
        Function(
            "isIP",
            (overload("is_ip", "string -> bool", lambda text: not isinstance(_address(text), str)),),
            cost=costs.first_argument,
        ),
        Function("family", (method("ip_family", "ip -> int", _on(lambda each: each.version), **_T),)),
        Function(
            "isUnspecified",
            (method("ip_is_unspecified", "ip -> bool", _on(lambda each: each.is_unspecified), **_T),),
        ),
        Function("isLoopback", (method("ip_is_loopback", "ip -> bool", _on(lambda each: each.is_loopback), **_T),)),
        Function(
            "isLinkLocalMulticast",
            (method("ip_is_link_local_multicast", "ip -> bool", _on(_link_local_multicast), **_T),),
        ),
        Function(
            "isLinkLocalUnicast",
            (method("ip_is_link_local_unicast", "ip -> bool", _on(lambda each: each.is_link_local), **_T),),
        ),
        Function("isGlobalUnicast", (method("ip_is_global_unicast", "ip -> bool", _on(_global), **_T),)),
        Function(
            "cidr",
            (overload("string_to_cidr", "string -> cidr", _to_network, **_T),),
            cost=costs.first_argument,
        ),
        Function(
            "isCIDR",
            (overload("is_cidr", "string -> bool", lambda text: not isinstance(_network(text), str)),),
            cost=costs.first_argument,
        ),
        Function(
            "containsIP",
            (
                method("cidr_contains_ip_string", "cidr, string -> bool", _contains_text, **_T),
                method("cidr_contains_ip_ip", "cidr, ip -> bool", lambda net, each: net.contains(each.address), **_T),
            ),
            cost=_contains_cost(twice=False, more=False),
            costs={"cidr_contains_ip_string": _contains_cost(twice=False, more=True)},
        ),
        Function(
            "containsCIDR",
            (
                method("cidr_contains_cidr_string", "cidr, string -> bool", _contains_network_text, **_T),
                method("cidr_contains_cidr", "cidr, cidr -> bool", _contains_network, **_T),
            ),
            cost=_contains_cost(twice=True, more=False),
            costs={"cidr_contains_cidr_string": _contains_cost(twice=True, more=True)},
        ),
        Function("prefixLength", (method("cidr_prefix_length", "cidr -> int", lambda net: net.bits, **_T),)),
        Function(
            "masked",
            (method("cidr_masked", "cidr -> cidr", lambda net: CelNetwork(net.first, net.bits), **_T),),
        ),
        Function(
            "string",
            (
                overload("ip_to_string", "ip -> string", lambda each: str(each.address), **_T),
                overload("cidr_to_string", "cidr -> string", lambda net: f"{net.address}/{net.bits}", **_T),
            ),
        ),
    ),
    (CelAddress.type, CelNetwork.type),
)
