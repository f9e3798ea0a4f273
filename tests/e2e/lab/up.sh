#!/bin/bash
# Starts the cluster and waits until nodes and DNS are ready. May be called at any time: it keeps
# what STATE holds and starts what is not running.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
. "$LAB/daemons.sh"
[ "$(id -u)" = 0 ] || die "the lab needs root"
[ -x "$BIN/hyperkube" ] || die "call build.sh first"
mkdir -p "$STATE"/{pki,cni,logs,pids,volumes}
ulimit -n "$(ulimit -Hn)"

# --- the bridge is there from the start and carries the API server's address
ip link show barnabas-lab0 > /dev/null 2>&1 || ip link add barnabas-lab0 type bridge
ip address replace "$GATEWAY/24" dev barnabas-lab0
ip link set barnabas-lab0 up
sysctl -qw net.ipv4.ip_forward=1
sysctl -qw net.bridge.bridge-nf-call-iptables=1 2> /dev/null || modprobe br_netfilter

# Nothing of the lab leaves this machine. The address of a Service that is gone is not translated
# any more and would take the default route; so would a pod's packet to anywhere else.
# down.sh takes these rules away by the word KUBE-.
keep_here() { # CHAIN MATCH...
  local rule=("$@" -m comment --comment KUBE-LAB -j REJECT)
  iptables -C "${rule[@]}" 2> /dev/null || iptables -I "${rule[@]}"
}
keep_here FORWARD -i barnabas-lab0 ! -o barnabas-lab0
keep_here OUTPUT -d 10.96.0.0/16
# kube-router lets packets of pods through before these rules are asked, so they have no route out.
route_rule() { # PRIORITY SELECTOR...
  local priority=$1
  shift
  ip rule del priority "$priority" 2> /dev/null || true
  ip rule add priority "$priority" iif barnabas-lab0 "$@"
}
route_rule 10244 to 10.244.0.0/16 lookup main
route_rule 10245 unreachable

# --- certificates: one authority, the API server, and one super-user for people and daemons alike
make_certificates() {
  local names
  names="IP:127.0.0.1,IP:$GATEWAY,IP:10.96.0.1,DNS:localhost,DNS:kubernetes"
  names+=",DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
  key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }
  signed() { # NAME SUBJECT EXTENSION
    key "$1"
    openssl req -new -key "$1.key" -subj "$2" |
      openssl x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 \
        -extfile <(echo "$3") -out "$1.crt" 2> /dev/null
  }
  key sa
  key ca
  openssl req -x509 -new -key ca.key -days 3650 -subj /CN=barnabas-lab -out ca.crt
  signed apiserver /CN=kube-apiserver "subjectAltName=$names"
  signed admin /O=system:masters/CN=admin "extendedKeyUsage=clientAuth"
}
(cd "$STATE/pki" && [ -f admin.crt ] || make_certificates)
encoded() { base64 -w0 "$STATE/pki/$1"; }
cat > "$KUBECONFIG" <<END
apiVersion: v1
kind: Config
current-context: lab
contexts: [{name: lab, context: {cluster: lab, user: admin}}]
clusters:
- name: lab
  cluster: {server: "https://127.0.0.1:6443", certificate-authority-data: $(encoded ca.crt)}
users:
- name: admin
  user: {client-certificate-data: $(encoded admin.crt), client-key-data: $(encoded admin.key)}
END
chmod 600 "$KUBECONFIG"

# --- nodes: a folder, an address and a cgroup each
for number in $(seq "$NODES"); do
  folder=$STATE/node$number ip=$(node_ip "$number") cgroup=/barnabas-lab/node$number
  mkdir -p "$folder/run"
  ip address replace "$ip/32" dev lo
  for hierarchy in /sys/fs/cgroup/*/; do mkdir -p "$hierarchy$cgroup"; done
  for file in containerd.toml kubelet.yaml; do
    sed "s#@STATE@#$STATE#g; s#@NODE@#$folder#g; s#@ADDRESS@#$ip#g; s#@CGROUP@#$cgroup#g" \
      "$LAB/conf/$file" > "$folder/$file"
  done
done
cp "$LAB/conf/audit-policy.yaml" "$STATE/audit-policy.yaml"
sed "s#@STATE@#$STATE#g" "$LAB/conf/bridge.conflist" > "$STATE/cni/10-lab.conflist"

# --- daemons
numbers=$(seq "$NODES")
for number in $numbers; do start_daemon "containerd$number"; done
start_daemon etcd
start_daemon kube-apiserver
until_ok 90 "API server is ready" kubectl get --raw /readyz
start_daemon kube-controller-manager
start_daemon kube-scheduler
for number in $numbers; do
  until_ok 30 "containerd$number is ready" ctr --address "$(socket_of "$number")" version
  start_daemon "kubelet$number"
done
start_daemon kube-proxy
start_daemon provisioner
until_ok 60 "node1 is known" kubectl get node node1
start_daemon policies

# --- images and add-ons
for archive in "$CACHE"/images/*.tar; do
  stamp=$STATE/imported-$(basename "$archive" .tar)-$NODES
  [ "$stamp" -nt "$archive" ] || { load_image "$archive"; touch "$stamp"; }
done
kubectl apply -f "$LAB/conf/addons.yaml" > /dev/null
for number in $numbers; do
  # A kubelet that was without the API server for a while backs off before it asks again.
  until_ok 240 "node$number is Ready" kubectl wait --for=condition=Ready "node/node$number" --timeout=1s
done
until_ok 90 "DNS is ready" kubectl -n kube-system rollout status deploy/coredns --timeout=1s
until_ok 30 "service accounts are made" kubectl get serviceaccount default
echo "export KUBECONFIG=$KUBECONFIG"
