"""A `KubeSchedulerConfiguration` as a value: what was asked for, with every default filled in.

Defaults are kube-scheduler's, except that the lease is called `moorage`. A profile's plugin sets are kept as written
and resolved in `profiles`. `Configuration()` is used if there is no configuration file: one profile, `moorage`, and no
leader election.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeVar

from moorage.core.values import dataclass
from moorage.framework.arguments import PluginArgs
from moorage.framework.plugin import Point

if TYPE_CHECKING:
    from moorage.framework.trying import TrialConfiguration

ALL = "*"
"""In `disabled`: every default plugin."""
SCHEDULER_NAME = "moorage"
"""The profile that runs with no configuration file."""
LEASE_NAME = "moorage"
LEASE_NAMESPACE = "kube-system"


@dataclass(frozen=True, slots=True)
class EnabledPlugin:
    """A plugin in an `enabled` list. The weight counts for Score; 0 stands for 1."""

    name: str
    weight: int = 0


@dataclass(frozen=True, slots=True)
class PluginSet:
    """What a profile changes at one extension point, or at all of them (multiPoint)."""

    enabled: tuple[EnabledPlugin, ...] = ()
    disabled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProfileConfiguration:
    """One profile as written: the changes to the default plugins, and the arguments."""

    scheduler_name: str = SCHEDULER_NAME
    multi_point: PluginSet = PluginSet()
    points: Mapping[Point, PluginSet] = field(default_factory=dict)
    args: Mapping[str, PluginArgs] = field(default_factory=dict)
    """By the plugin's own name; plugins that are not here run with the defaults of their arguments."""
    percentage_of_nodes_to_score: int | None = None


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """How one of several replicas becomes the leader."""

    leader_elect: bool = True
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0
    resource_lock: str = "leases"
    resource_name: str = LEASE_NAME
    resource_namespace: str = LEASE_NAMESPACE

    def on_lease_of(self, component: str) -> LeaderElection:
        """The same election for a component beside the scheduler, which has a lease of its own."""
        return replace(self, resource_name=f"{self.resource_name}-{component}")


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """How to reach the API server. A negative `qps` means no limit, as in kube-scheduler."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/json"
    qps: float = 50.0
    burst: int = 100
    server: str = ""
    """The address of the API server, if it is not that of the kubeconfig; no field of the file, but a flag."""


@dataclass(frozen=True, slots=True)
class ManagedResource:
    """An extended resource that an extender looks after."""

    name: str
    ignored_by_scheduler: bool = False


@dataclass(frozen=True, slots=True)
class ExtenderTls:
    """How an extender is trusted, and which client certificate it is shown; data wins over files."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = field(default=b"", repr=False)
    ca_data: bytes = b""


@dataclass(frozen=True, slots=True)
class Extender:
    """An HTTP scheduler extender; it is not called for verbs that are empty."""

    url_prefix: str
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    weight: int = 0
    enable_https: bool = False
    tls: ExtenderTls | None = None
    http_timeout_s: float = 5.0
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False


@dataclass(frozen=True, slots=True)
class ComponentConfiguration:
    """A document of `moorage.dev/v1alpha1`: settings of the extender, the webhook, the keeper or traces."""

    kind: str
    profile: str
    """The scheduler name of the profile whose plugins it uses."""


Component = TypeVar("Component", bound=ComponentConfiguration)


@dataclass(frozen=True, slots=True)
class Configuration:
    """Everything that a configuration file says."""

    profiles: tuple[ProfileConfiguration, ...] = (ProfileConfiguration(),)
    leader_election: LeaderElection = LeaderElection(leader_elect=False)
    client_connection: ClientConnection = ClientConnection()
    parallelism: int = 16
    percentage_of_nodes_to_score: int = 0
    pod_initial_backoff_s: int = 1
    pod_max_backoff_s: int = 10
    extenders: tuple[Extender, ...] = ()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    delay_cache_until_active: bool = False
    components: Mapping[str, ComponentConfiguration] = field(default_factory=dict)
    """By kind: ExtenderConfiguration, WebhookConfiguration, KeeperConfiguration, TracingConfiguration."""
    trial: TrialConfiguration | None = None
    """Other profiles for some pods, for a while."""

    def component(self, default: Component) -> Component:
        """The settings that the configuration file has for a component, else the default ones."""
        found = self.components.get(default.kind)
        return found if isinstance(found, type(default)) else default
