# The image of every `moorage` command, for docker and podman. deploy/image.py does the work and is tested without them.
# PYTHON may name a digest, or a copy of the base image in a registry of your own.
ARG PYTHON=python:3.12-slim

FROM ${PYTHON} AS build
WORKDIR /src
COPY requirements requirements
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY deploy/image.py deploy/
RUN PIP_NO_CACHE_DIR=1 python deploy/image.py /opt/moorage

# Nothing is run here, so neither pip nor a shell is needed, now or later.
FROM ${PYTHON} AS moorage
COPY --from=build /opt/moorage /opt/moorage
COPY --from=build /opt/moorage/bin/kube-scheduler /usr/local/bin/kube-scheduler
ENV PATH=/opt/moorage/bin:$PATH HOME=/tmp PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["moorage"]

# `--target custom-scheduler`: for a Deployment of that scheduler, which mounts no configuration and names no command.
FROM moorage AS custom-scheduler
COPY deploy/examples/custom-scheduler/config.yaml /etc/moorage/config.yaml
CMD ["scheduler", "--config=/etc/moorage/config.yaml", "--leader-elect=false", "--v=2"]

# What is built unless a target is named.
FROM moorage
