# Two commands are enough for a newcomer: `make demo` and `make test`. Each sets up what it needs by itself.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SITE := .venv-site
# What the program needs, and what everything else needs.
RUNTIME := $(VENV)/.runtime
READY := $(VENV)/.ready
CHECK_PYTHON = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Moorage needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0] + "; set PYTHON=/path/to/python3.11")'
JOBS ?= 2
IMAGE ?= moorage:latest
HOST ?= 127.0.0.1

.PHONY: help setup demo test long lint format coverage bench bench-core turns docs site lock controlplane browser promtool versions container properties suggestions parity drill racks reclaim repack workloads takeover faults nextday simlive crossings fuzz replay-drill shadow-drill conformance soak screenshots helm-lint manifests build docker-build image sizing generate-certs run clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(READY) ## Create .venv with the locked dependencies

$(READY): requirements/dev.txt requirements/install.py pyproject.toml
	@$(CHECK_PYTHON)
	@if test -e $@; then rm -rf $(VENV); fi
	@$(PYTHON) requirements/install.py $(VENV) requirements/dev.txt
	@touch $(RUNTIME) $@

$(RUNTIME): requirements/runtime.txt requirements/install.txt requirements/install.py pyproject.toml
	@$(CHECK_PYTHON)
	@$(PYTHON) requirements/install.py $(VENV) requirements/runtime.txt requirements/install.txt
	@touch $@

demo: $(RUNTIME) ## Run an embedded cluster of virtual nodes and watch pods being placed
	@$(BIN)/moorage demo $(ARGS)

controlplane: $(READY) ## Build the test control plane once (etcd, Kubernetes, helm), cached
	@$(BIN)/python tests/controlplane/build.py

test: $(READY) lint controlplane browser promtool ## Check style and run every test on the real control plane
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup

browser: $(READY) ## Install Chromium for the browser tests where there is none and root may
	@$(BIN)/python -m tests.dashboard.browsers

promtool: $(READY) ## Fetch promtool for the tests of the alerts where there is none and Debian's packages are
	@$(BIN)/python -m tests.deploy.promtool

versions: $(READY) ## Run what meets an API server on Kubernetes 1.28, 1.30, 1.33, 1.35 and 1.37, hours the first time (ARGS="--kubernetes 1.28.15 --suite chart")
	@$(BIN)/python -m tests.versions.run $(ARGS)

container: $(READY) controlplane ## Build the image with podman, run it as the chart does, and place pods; root, installs podman
	@$(BIN)/python -m tests.deploy.container
	@$(BIN)/python -m pytest -m long tests/deploy/test_container.py

long: $(READY) controlplane ## Run the drills that make test leaves out
	@$(BIN)/python -m pytest -m long

lint: $(READY) ## Style, types, and the doors between the rooms
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(READY) ## Rewrite the sources in house style
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

coverage: $(READY) controlplane ## Line and branch coverage
	@$(BIN)/coverage run -m pytest
	@$(BIN)/coverage report --skip-covered --skip-empty

bench: $(READY) controlplane ## Against kube-scheduler on real API servers, 35 minutes (ARGS="--workload all"); JSON and charts
	@$(BIN)/moorage bench cluster $(ARGS)

bench-core: $(READY) ## Decisions per second of the engine alone (ARGS=--check compares with the baseline)
	@$(BIN)/moorage bench core $(ARGS)

turns: $(READY) controlplane ## Compare the speed with that of another commit, in turns (COMMIT=HEAD~10 ARGS="--core equal --cluster basic")
	@$(BIN)/python -m tests.turns.run $(COMMIT) $(ARGS)

properties: $(READY) ## Try 10,000 random histories of the plan, of gangs and of queues (SEQUENCES=)
	@MOORAGE_PLAN_SEQUENCES=$(or $(SEQUENCES),10000) MOORAGE_QUEUE_WORLDS=$(or $(SEQUENCES),10000) MOORAGE_QUEUE_HISTORIES=$(or $(SEQUENCES),5000) MOORAGE_REPLAYED_HISTORIES=$(or $(SEQUENCES),500) $(BIN)/python -m pytest -n $(JOBS) --timeout 0 tests/core/test_plan.py tests/engine/test_plan_random.py tests/engine/test_gangs_random.py tests/queues

suggestions: $(READY) ## Check what explain suggests for 500 generated pods that fit nowhere (PODS=)
	@MOORAGE_SUGGESTIONS=$(or $(PODS),500) $(BIN)/python -m pytest -n $(JOBS) --timeout 0 tests/suggestions

parity: $(READY) controlplane ## Ask the real kube-scheduler and Moorage 1,000 fresh questions (QUESTIONS=, SEED=, ARGS="--kind devices")
	@$(BIN)/python -m tests.parity.fuzz --questions $(or $(QUESTIONS),1000) $(if $(SEED),--seed $(SEED)) $(ARGS)

drill: $(READY) controlplane ## Kill the scheduler at every bind of a gang and see that no gang stays partial (ARGS="--moments 3:before")
	@$(BIN)/python -m tests.gangs.drill $(ARGS)

racks: $(READY) controlplane ## Kill the scheduler at every bind of a gang in slices, take and lose nodes, and see that every slice stays in its rack (ARGS="--moments 3:before")
	@$(BIN)/python -m tests.gangs.rackdrill $(ARGS)

repack: $(READY) controlplane ## Repack 300 nodes of a trace on the real API server, and compare with the descheduler, which is built first (ARGS="--nodes 60 --threshold 30")
	@$(BIN)/python -m tests.repack.compare $(ARGS)

workloads: $(READY) controlplane ## Place JobSets, LeaderWorkerSets and Jobs of their real controllers, and gangs on nodes that Karpenter adds; all are built first, half an hour
	@$(BIN)/python -m pytest -m long tests/workloads

reclaim: $(READY) controlplane ## Kill the scheduler at every tenth eviction while a team takes back its share of 400 pods (ARGS="--pods 40 --reclaim 10 --every 5")
	@$(BIN)/python -m tests.queues.drill $(ARGS)

takeover: $(READY) controlplane ## Kill, stop and suspend leaders while 2,000 pods arrive, and see that none is lost or misplaced (ARGS=--fence)
	@$(BIN)/python -m tests.app.takeover_drill $(ARGS)

faults: $(READY) controlplane ## Break what the API server, the machine and others do, and audit what comes of it, 40 minutes (ARGS="--only keeper")
	@$(BIN)/python -m tests.faults.run $(ARGS)

nextday: $(READY) controlplane ## Install the five examples and try what a second day brings, with room and without, three hours; goes on where it ended (ARGS="--only plan/rollout-default --minutes 10")
	@$(BIN)/python -m tests.nextday.run $(ARGS)

simlive: $(READY) controlplane ## Random files through the real controllers and through simulate, compared, quarter of an hour; goes on where it ended (ARGS="--files 20")
	@$(BIN)/python -m tests.simlive.run $(ARGS)

crossings: $(READY) ## Play 10,000 random clusters where capabilities meet, and 2,000 with dying leaders, an hour; goes on where it ended (ARGS="--worlds 500 --crashes 100 --seed 2 --shrink 1")
	@$(BIN)/python -m tests.crossings.run --worlds 10000 --crashes 2000 --jobs $(JOBS) $(ARGS)

shadow-drill: $(READY) controlplane ## Compare a shadow with the real kube-scheduler on 500 nodes, pod by pod and in a burst, ten minutes (ARGS="--nodes 50 --pods 200 --burst 300")
	@$(BIN)/python -m tests.shadow.drill $(ARGS)

replay-drill: $(READY) controlplane ## Record 10,000 pods on the real API server and decide them all again (ARGS="--pods 1000")
	@$(BIN)/python -m tests.app.journal_drill $(ARGS)

fuzz: $(READY) ## Try a million mutated inputs on every decoder, syntax, document and server, 20 minutes (INPUTS=100000 SEED=7 ARGS="--only journal")
	@$(BIN)/python -m tests.fuzz.laboratory --inputs $(or $(INPUTS),1000000) $(if $(SEED),--seed $(SEED)) $(ARGS)

soak: $(READY) controlplane ## Half an hour of churn on the real API server, after which memory must be back (ARGS="--minutes 5")
	@$(BIN)/python -m tests.soak.run $(ARGS)

conformance: $(READY) controlplane ## Run the black-box cases of ../shared/conformance on moorage scheduler (ARGS=PREFIX ...)
	@$(BIN)/python -m tests.conformance.run $(ARGS)

helm-lint: $(READY) controlplane ## Check the chart with helm itself
	@"$$($(BIN)/python -c 'from moorage.bench.assets import find_assets; print(find_assets())')/helm" lint --strict deploy/helm/moorage

manifests: $(READY) controlplane ## Render deploy/manifests from the chart
	@$(BIN)/python deploy/helm/render.py

screenshots: $(READY) ## Take the pictures of docs/screenshots with Chromium
	@$(BIN)/python -m tests.dashboard.screenshots docs/screenshots

docs: $(READY) ## Run every example in README and docs
	@$(BIN)/python -m pytest tests/docs

$(SITE)/.ready: requirements/site.txt requirements/install.py
	@$(CHECK_PYTHON)
	@$(PYTHON) requirements/install.py --alone $(SITE) requirements/site.txt
	@touch $@

site: $(SITE)/.ready ## Build docs/ and the reference of the API into dist/site, and check every link and anchor
	@NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --config-file deploy/site/mkdocs.yml $(ARGS)
	@echo "dist/site/index.html; its search works where it is served: $(PYTHON) -m http.server --directory dist/site"

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header

lock: ## Renew requirements/*.txt from pyproject.toml
	@$(COMPILE) --upgrade pyproject.toml -o requirements/runtime.txt
	@$(COMPILE) pyproject.toml --group dev -c requirements/runtime.txt -o requirements/dev.txt
	@$(COMPILE) pyproject.toml --extra otel -c requirements/dev.txt -o requirements/image.txt
	@$(COMPILE) --group install -c requirements/dev.txt -o requirements/install.txt
	@$(COMPILE) --group site -c requirements/dev.txt -o requirements/site.txt

build: $(READY) ## Build the wheel into dist/
	@$(BIN)/python -m build --no-isolation --wheel --outdir dist .

image: $(READY) ## Make what the image holds in dist/image, without a container engine
	@rm -rf dist/image
	@$(BIN)/python deploy/image.py dist/image

sizing: $(READY) controlplane ## Measure what schedulers need in clusters of three sizes, for docs/operate.md (SIZES="500:5000")
	@$(BIN)/python -m tests.app.sizing $(SIZES)

docker-build: ## Build the image IMAGE (moorage:latest) with docker or podman
	@for tool in docker podman; do if $$tool info >/dev/null 2>&1; then exec $$tool build --tag $(IMAGE) .; fi; done; \
	echo "make docker-build: neither docker nor podman works here; install one of them, or start its service" >&2; exit 1

generate-certs: $(RUNTIME) ## Write config/certs/server.crt and server.key, a certificate that signs itself (NAMES="more hosts")
	@$(BIN)/python -m moorage.cli.certs config/certs $(foreach name,$(NAMES),--name $(name))

run: $(RUNTIME) ## Run the webhook against the current kubeconfig; HOST= is where its API server finds this machine
	@mkdir -p config/certs
	@printf 'apiVersion: moorage.dev/v1alpha1\nkind: WebhookConfiguration\nurl: https://%s:9443/mutate\n' '$(HOST)' > config/certs/run.yaml
	@$(BIN)/moorage webhook --config config/certs/run.yaml $(ARGS)

clean: ## Remove what the other targets made in this folder
	@rm -rf $(VENV) $(SITE) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache htmlcov .coverage
