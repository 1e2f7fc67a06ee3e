# The image of every `moorage` command. Dependencies are those of requirements/, checked by their hashes.
FROM python:3.12-slim AS build
WORKDIR /src
COPY requirements/dev.txt requirements/
RUN pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/dev.txt
COPY pyproject.toml README.md CHANGELOG.md LICENSE ./
COPY src src
RUN python -m build --wheel --no-isolation --outdir /wheels

FROM python:3.12-slim
COPY requirements/runtime.txt /tmp/requirements.txt
COPY --from=build /wheels /tmp/wheels
RUN pip install --no-cache-dir --disable-pip-version-check --require-hashes -r /tmp/requirements.txt \
    && pip install --no-cache-dir --disable-pip-version-check --no-deps --no-index /tmp/wheels/*.whl \
    && rm -r /tmp/requirements.txt /tmp/wheels \
    && useradd --uid 65532 --no-create-home --shell /usr/sbin/nologin moorage
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["moorage"]
