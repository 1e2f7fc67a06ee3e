"""Writes a self-signed certificate and its key, for `make generate-certs`: python -m moorage.cli.certs FOLDER."""

from __future__ import annotations

from pathlib import Path

import click

SERVICES = ("moorage-webhook.default", "smart-scheduler-webhook-service.smart-scheduler-system")
LOCAL = ("localhost", "127.0.0.1", "::1")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--name", "names", multiple=True, help="Another host name or address that the certificate is for.")
def main(folder: Path, names: tuple[str, ...]) -> None:
    """Write server.crt and server.key into FOLDER."""
    from moorage.adapters.serving.certificate import self_signed  # noqa: PLC0415 - slow to import

    services = [f"{service}.{end}" for service in SERVICES for end in ("svc", "svc.cluster.local")]
    key, chain = self_signed([*names, *services, *LOCAL])
    folder.mkdir(parents=True, exist_ok=True)
    private = folder / "server.key"
    private.touch(mode=0o600)
    private.chmod(0o600)  # it may exist already
    private.write_bytes(key)
    (folder / "server.crt").write_bytes(chain)
    click.echo(f"{folder / 'server.crt'} and {private.name}: for {', '.join([*names, *services, *LOCAL])}")


if __name__ == "__main__":
    main()
