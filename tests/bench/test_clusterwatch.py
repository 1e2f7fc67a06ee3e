"""The watcher of the cluster benchmark, in front of a server that ends its watches."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.bench.clusterwatch import Watcher, settled
from moorage.bench.controlplane import ControlPlaneError

TOO_OLD = {
    "kind": "Status",
    "metadata": {},
    "reason": "Expired",
    "code": 410,
    "message": "too old resource version: 7 (9000)",
}


@pytest.mark.parametrize("ended", ["pods", "events"])
def test_a_watch_that_cannot_go_on_ends_the_measurement(tmp_path: Path, ended: str) -> None:
    """Rather than that figures are told of pods which nobody saw being bound."""

    async def answer(request: web.BaseRequest) -> web.Response:
        """An empty list; of one watch the line by which API servers refuse to go on, the other stays silent."""
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "7"}, "items": []})
        if not request.path.endswith(ended):
            await asyncio.Event().wait()
        return web.Response(text=json.dumps({"type": "ERROR", "object": TOO_OLD}) + "\n")

    async def scenario() -> None:
        runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            async with KubeClient(load_credentials(_kubeconfig(tmp_path, runner.addresses[0][1]))) as client:
                watcher = Watcher()
                async with watcher.watching(client):
                    with pytest.raises(ControlPlaneError, match=r"own watch cannot go on: .*too old resource version"):
                        await settled(watcher, lambda: False, lambda: None, patience_s=20.0)
        finally:
            await runner.cleanup()

    asyncio.run(scenario())


def _kubeconfig(folder: Path, port: int) -> str:
    file = folder / "kubeconfig"
    cluster = {"name": "a", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
    user = {"name": "a", "user": {}}
    document = {"current-context": "a", "clusters": [cluster], "contexts": [context], "users": [user]}
    file.write_text(yaml.safe_dump(document))
    return str(file)
