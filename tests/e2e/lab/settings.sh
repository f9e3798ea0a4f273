# Settings and functions of the lab; sourced by its scripts. Nothing is written into the tree.
LAB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${LAB_CACHE:-$HOME/.cache/barnabas-lab}   # what was built: survives down.sh
STATE=${LAB_STATE:-/var/tmp/barnabas-lab}       # what a running cluster writes
NODES=${LAB_NODES:-3}                           # pairs of kubelet and containerd
BIN=$CACHE/bin
# The bridge's address: the API server listens there, pods use it as gateway. Nodes are
# 10.244.255.1 and so on, on the loopback interface of the same network namespace.
GATEWAY=10.244.0.1
export KUBECONFIG=$STATE/kubeconfig
export PATH=$BIN:$PATH

node_ip() { echo "10.244.255.$1"; }
socket_of() { echo "$STATE/node$1/run/containerd.sock"; }

say() { echo "lab: $*"; }
die() { echo "lab: $*" >&2; exit 1; }
# With `set -e` a script ends at the first command that fails: say which.
set -E
trap 'echo "lab: ${BASH_SOURCE[0]##*/} line $LINENO: failed with $?: $BASH_COMMAND" >&2' ERR

# Buildah with a storage of the lab's own, beside whatever the machine uses.
bd() {
  buildah --root "$CACHE/buildah" --runroot "$CACHE/buildah-run" --storage-driver overlay "$@"
}

# export_image NAME ARCHIVE: an image of buildah's storage as a file that containerd takes.
export_image() {
  rm -f "$2"
  bd push --quiet "$1" "docker-archive:$2:$1"
}

# load_image ARCHIVE: import it on every node, at the same time.
load_image() {
  local number pids=()
  for number in $(seq "$NODES"); do
    ctr --address "$(socket_of "$number")" --namespace k8s.io images import "$1" > /dev/null &
    pids+=($!)
  done
  local pid failed=0
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  [ $failed = 0 ] || die "could not import $1"
}

# until_ok SECONDS WHAT COMMAND...: repeat the command until it succeeds.
until_ok() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" > /dev/null 2>&1; do
    [ $SECONDS -lt $end ] || die "$what: not in time; look into $STATE/logs"
    sleep 0.2
  done
  say "$what (${SECONDS} s)"
}
