#!/usr/bin/env bash
# Builds the image, loads it into a minikube cluster, and deploys custom-scheduler there.
#
#   setup.sh [namespace] [image] [profile]
#
# The cluster of the minikube profile is started if it does not run; NODES says with how many nodes (4).
set -euo pipefail

namespace="${1:-kube-system}"
image="${2:-custom-scheduler:latest}"
profile="${3:-custom-scheduler-demo}"
nodes="${NODES:-4}"

here="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd -- "$here/../../.." && pwd)"

say() {
  printf '==> %s\n' "$*"
}

fail() {
  printf 'setup.sh: %s\n' "$*" >&2
  exit 1
}

usage() {
  sed -n 's/^# \{0,1\}//; 2,6p' "${BASH_SOURCE[0]}"
}

# The arguments go into YAML: what could mean more there than a name is refused.
check_arguments() {
  [[ $# -le 3 ]] || fail "$# arguments given; at most three are read: [namespace] [image] [profile]"
  [[ "$namespace" =~ ^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$ ]] || fail "namespace '$namespace' is no name of a namespace"
  [[ "$image" =~ ^[a-z0-9][A-Za-z0-9._/:@-]*$ ]] || fail "image '$image' is no name of an image; try custom-scheduler:latest"
  [[ "$profile" =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || fail "profile '$profile' is no name of a minikube profile"
  [[ "$nodes" =~ ^[1-9][0-9]?$ ]] || fail "NODES '$nodes' is no number of nodes; use 1 to 99"
}

need() {
  command -v "$1" >/dev/null 2>&1 || fail "$1 is not on the PATH; install it first"
}

find_builder() {
  local candidate
  for candidate in docker podman; do
    if command -v "$candidate" >/dev/null 2>&1 && "$candidate" info >/dev/null 2>&1; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  fail "neither docker nor podman works here; install one of them, or start its service"
}

# The name under which Kubernetes looks an image up: podman does not complete short names as docker does.
full_name() {
  local first="${1%%/*}"
  if [[ "$1" != */* ]]; then
    printf 'docker.io/library/%s\n' "$1"
  elif [[ "$first" == *[.:]* || "$first" == localhost ]]; then
    printf '%s\n' "$1"
  else
    printf 'docker.io/%s\n' "$1"
  fi
}

start_cluster() {
  if minikube status -p "$profile" >/dev/null 2>&1; then
    say "minikube profile $profile is running"
  else
    say "starting minikube profile $profile with $nodes nodes"
    minikube start -p "$profile" --nodes "$nodes"
  fi
}

build_and_load() {
  local builder="$1" name="$image"
  if [[ "$builder" == podman ]]; then
    name="$(full_name "$image")"
  fi
  say "building $image with $builder"
  "$builder" build -t "$name" -f "$root/Dockerfile" "$root"
  say "loading $image into $profile"
  if [[ "$builder" == podman ]]; then
    # minikube cannot see podman's images, so this one goes through a file.
    podman save -o "$scratch/image.tar" "$name"
    minikube image load "$scratch/image.tar" -p "$profile"
  else
    minikube image load "$name" -p "$profile"
  fi
}

cluster() {
  kubectl "$@" --context "$profile"
}

# ClusterRoleBindings have no namespace: each installation has its own, so that none takes the rights of another.
binding() {
  if [[ "$1" == kube-system ]]; then
    printf 'custom-scheduler\n'
  else
    printf 'custom-scheduler-%s\n' "$1"
  fi
}

render() {
  sed -e "s|amespace: kube-system\$|amespace: $namespace|" -e "s|image: custom-scheduler:latest\$|image: $image|" \
    -e "/^kind: ClusterRoleBinding\$/,/^roleRef:\$/s|^  name: custom-scheduler\$|  name: $(binding "$namespace")|" \
    "$here/manifests.yaml"
}

# The namespace whose account has the binding of kube-system; former versions of this script gave it to any.
holder() {
  cluster get clusterrolebinding custom-scheduler -o 'jsonpath={.subjects[0].namespace}' 2>/dev/null || true
}

deploy() {
  local known=false
  if [[ "$namespace" != kube-system ]]; then
    say "making sure that namespace $namespace exists"
    cluster get namespace "$namespace" >/dev/null 2>&1 || cluster create namespace "$namespace"
  fi
  if cluster get deployment custom-scheduler -n "$namespace" >/dev/null 2>&1; then
    known=true
  fi
  local held
  held="$(holder)"
  if [[ "$namespace" == kube-system && -n "$held" && "$held" != kube-system ]]; then
    fail "ClusterRoleBinding custom-scheduler gives its rights to namespace $held; run setup.sh $held first, which makes one of its own"
  fi
  say "applying RBAC, configuration and deployment in $namespace"
  render >"$scratch/manifests.yaml"
  cluster apply -f "$scratch/manifests.yaml"
  if [[ "$namespace" != kube-system && "$held" == "$namespace" ]]; then
    cluster delete clusterrolebinding custom-scheduler
  fi
  if [[ "$known" == true ]]; then
    # A new image under the old name, or another configuration, changes nothing in the deployment itself.
    cluster rollout restart deployment/custom-scheduler -n "$namespace"
  fi
}

wait_until_ready() {
  say "waiting until custom-scheduler is ready"
  if ! cluster rollout status deployment/custom-scheduler -n "$namespace" --timeout 180s; then
    cluster get pods -n "$namespace" -l app=custom-scheduler >&2 || true
    cluster logs -n "$namespace" -l app=custom-scheduler --tail 20 >&2 || true
    fail "custom-scheduler is not ready after 180 s; its pods and the end of its log are above"
  fi
}

if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
  usage
  exit 0
fi
check_arguments "$@"
need kubectl
need minikube
builder="$(find_builder)"
scratch="$(mktemp -d)"
trap 'rm -rf -- "$scratch"' EXIT

start_cluster
build_and_load "$builder"
deploy
wait_until_ready
say "ready: try kubectl --context $profile apply -f $here/example-deployments.yaml"
