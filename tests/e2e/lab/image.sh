#!/bin/bash
# image.sh NAME ARCHIVE BUILD-ARGUMENT...: build an image with buildah, on the lab's Debian, and
# write it to the archive.
# image.sh --load ARCHIVE: import an archive on all nodes of the running cluster.
# image.sh --tag NAME OTHER: another name for an image that all nodes have.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
if [ "$1" = --load ]; then
  load_image "$2"
  exit
fi
if [ "$1" = --tag ]; then
  for number in $(seq "$NODES"); do
    ctr --address "$(socket_of "$number")" --namespace k8s.io images tag --force "$2" "$3" > /dev/null
  done
  exit
fi
name=$1 archive=$2
shift 2
bd bud --quiet --layers --isolation chroot --build-arg BASE=localhost/debian:1 --tag "$name" "$@"
mkdir -p "$(dirname "$archive")"
export_image "$name" "$archive.partial"
mv "$archive.partial" "$archive"
# Earlier images of that name are of no use any more; their layers that this one shares stay.
# awk and not grep: that there is no earlier image is no failure of the pipeline.
bd images --format '{{.Name}}:{{.Tag}}' |
  awk -v name="$name" -v family="${name%:*}:" 'index($0, family) == 1 && $0 != name' |
  while read -r older; do bd rmi "$older" > /dev/null || true; done
