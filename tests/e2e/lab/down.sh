#!/bin/bash
# Stops the cluster; the next up.sh finds its state. With --wipe the state goes, too.
# Containers are killed, after their kubelets: this is no graceful shutdown of nodes.
set -uo pipefail
. "$(dirname "$0")/settings.sh"
. "$LAB/daemons.sh"

started() { (cd "$STATE/pids" 2> /dev/null && ls -d $1 2> /dev/null); }  # unquoted: a pattern

stop_daemons $(started 'kubelet*') kube-proxy policies certmanager provisioner kube-scheduler kube-controller-manager
for folder in "$STATE"/node*/; do  # containers outlive their containerd
  ctr --address "$folder/run/containerd.sock" --namespace k8s.io tasks ls --quiet 2> /dev/null |
    xargs -r -P8 -I% ctr --address "$folder/run/containerd.sock" --namespace k8s.io tasks rm --force % \
      > /dev/null 2>&1 &
done
wait
stop_daemons $(started 'containerd*') kube-apiserver
stop_daemons etcd
# What watched over a container that just began or ended may be left; only that of these nodes.
pgrep -f -- "^[^ ]*containerd-shim.* -address $STATE/node" | xargs -r kill -9 || true

for family in iptables ip6tables; do
  "$family-save" 2> /dev/null | grep -vE 'KUBE-|CNI-' | "$family-restore"
done
for priority in 10244 10245; do ip rule del priority "$priority" 2> /dev/null || true; done
ipset list -name 2> /dev/null | awk '/^(inet6:)?KUBE-/' | xargs -r -n1 ipset destroy
find /sys/fs/cgroup/*/barnabas-lab /sys/fs/cgroup/barnabas-lab -depth -type d \
  -exec rmdir {} + 2> /dev/null || true # one of the two is not there
# What pods have left: mounts, network namespaces, interfaces.
awk -v state="$STATE/" 'index($2, state) == 1 {print $2}' /proc/mounts | sort -r |
  xargs -r -n1 umount --lazy
for namespace in $(ip netns list | awk '/^cni-/ {print $1}'); do
  ip netns del "$namespace" || true # another mount over the folder of names may keep one
done
ip link del barnabas-lab0 2> /dev/null || true # it may be down already
ip -4 -oneline address show dev lo | awk '$4 ~ /^10\.244\.255\./ {print $4}' |
  xargs -r -I% ip address del % dev lo
[ "${1:-}" != --wipe ] || rm -rf "$STATE"
say "stopped"
