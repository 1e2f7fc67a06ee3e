"""The shape of configuration documents: which fields there are, of which types, and nothing about their sense.

Required fields are strings throughout, and lists hold mappings only; the repair in `shapes` relies on both. `null`
never gets here: in Kubernetes it means "not given", so it is taken out before.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from moorage.framework.arguments import Seconds


def _bytes(value: object) -> bytes:
    try:
        if isinstance(value, str):
            return base64.b64decode(value, validate=True)
    except binascii.Error:
        pass
    raise ValueError("must be base64 text")


Base64 = Annotated[bytes, BeforeValidator(_bytes)]
Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]


class Shape(BaseModel):
    """Unknown fields are errors, and nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, allow_inf_nan=False)


class ConfigurationDocument(Shape):
    """What every document says about itself."""

    api_version: str
    kind: str


class EntryShape(Shape):
    """A plugin in a list."""

    name: str
    weight: Int32 | None = None


class SetShape(Shape):
    """The changes at one extension point."""

    enabled: list[EntryShape] = []
    disabled: list[EntryShape] = []


class PluginsShape(Shape):
    """One set per extension point."""

    pre_enqueue: SetShape = SetShape()
    queue_sort: SetShape = SetShape()
    pre_filter: SetShape = SetShape()
    filter: SetShape = SetShape()
    post_filter: SetShape = SetShape()
    pre_score: SetShape = SetShape()
    score: SetShape = SetShape()
    reserve: SetShape = SetShape()
    permit: SetShape = SetShape()
    pre_bind: SetShape = SetShape()
    bind: SetShape = SetShape()
    post_bind: SetShape = SetShape()
    multi_point: SetShape = SetShape()
    placement_generate: SetShape = SetShape()
    placement_score: SetShape = SetShape()
    pod_group_post_filter: SetShape = SetShape()


class PluginConfigShape(Shape):
    """The arguments of a plugin; what they must look like is the plugin's business."""

    name: str
    args: Any = None


class ProfileShape(Shape):
    """One profile."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: PluginsShape = PluginsShape()
    plugin_config: list[PluginConfigShape] = []


class LeaderElectionShape(Shape):
    """Empty texts and zero durations mean the default."""

    leader_elect: bool = True
    lease_duration: Seconds = 0.0
    renew_deadline: Seconds = 0.0
    retry_period: Seconds = 0.0
    resource_lock: str = ""
    resource_name: str = ""
    resource_namespace: str = ""


class ClientConnectionShape(Shape):
    """Zeros mean the default."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0.0
    burst: Int32 = 0


class ManagedResourceShape(Shape):
    """A resource that an extender looks after."""

    name: str
    ignored_by_scheduler: bool = False


class ExtenderTlsShape(Shape):
    """Certificates for an extender."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: Base64 = b""
    key_data: Base64 = b""
    ca_data: Base64 = b""


class ExtenderShape(Shape):
    """An HTTP extender."""

    url_prefix: str
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = Field(default=False, alias="enableHTTPS")
    tls_config: ExtenderTlsShape | None = None
    http_timeout: Seconds = 0.0
    node_cache_capable: bool = False
    managed_resources: list[ManagedResourceShape] = []
    ignorable: bool = False


class SchedulerShape(ConfigurationDocument):
    """A `KubeSchedulerConfiguration` of `kubescheduler.config.k8s.io/v1`."""

    parallelism: Int32 | None = None
    leader_election: LeaderElectionShape = LeaderElectionShape()
    client_connection: ClientConnectionShape = ClientConnectionShape()
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    pod_initial_backoff_seconds: Int64 | None = None
    pod_max_backoff_seconds: Int64 | None = None
    profiles: list[ProfileShape] = []
    extenders: list[ExtenderShape] = []
    delay_cache_until_active: bool = False


class ComponentShape(ConfigurationDocument):
    """An `ExtenderConfiguration`, `WebhookConfiguration` or `KeeperConfiguration` of `moorage.dev/v1alpha1`."""

    profile: str = ""
