#!/bin/bash
# Debian packages, binaries (CACHE/bin) and base images (CACHE/images). What is there and made
# from the same inputs is not made again, so a second run takes about a second.
#
# build.sh certmanager: cert-manager's controller as well, and its definitions.
# build.sh gateway-api: the definitions of Gateway API, of now and of before TLSRoute had v1.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
mkdir -p "$BIN" "$CACHE/images" "$CACHE/stamps"
exec 9> "$CACHE/build.lock" && flock 9

# has_changed NAME INPUT...: true unless `done_with NAME` was called for the same inputs.
has_changed() {
  local name=$1
  shift
  NEW_STAMP=$(printf '%s\0' "$@" | sha256sum)
  [ "$(cat "$CACHE/stamps/$name" 2> /dev/null)" != "$NEW_STAMP" ]
}
done_with() { echo "$NEW_STAMP" > "$CACHE/stamps/$1"; }
digest_of() { (cd "$LAB" && find "$@" -type f -print0 | sort -z | xargs -0 sha256sum); }
file_is_missing() { local f; for f in "$@"; do [ -e "$f" ] || return 0; done; return 1; }

# --- Debian packages
declare -A packages=(
  [containerd]=containerd [runc]=runc [iptables]=iptables [conntrack]=conntrack [ipset]=ipset
  [buildah]=buildah [debootstrap]=debootstrap [openssl]=openssl [ip]=iproute2 [sysctl]=procps
  [/usr/lib/cni/bridge]=containernetworking-plugins [/etc/ssl/certs/ca-certificates.crt]=ca-certificates
)
missing=()
for command in "${!packages[@]}"; do
  [ -e "$command" ] || command -v "$command" > /dev/null || missing+=("${packages[$command]}")
done
if [ ${#missing[@]} -gt 0 ]; then
  [ "$(id -u)" = 0 ] || die "needs root to install ${missing[*]}"
  command -v apt-get > /dev/null || die "there is no apt-get; install ${missing[*]}"
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q > /dev/null
  install() {
    apt-get install -qy --no-install-recommends -o DPkg::Lock::Timeout=600 "${missing[@]}" > "$CACHE/apt.log" 2>&1
  }
  # Twice: where archives are removed after each use, another apt-get at work takes ours away.
  install || install || die "apt-get failed; look into $CACHE/apt.log"
fi

# --- a Go that is new enough: the machine's, or one from Go's own module of toolchains
GO_WANTED=$(sed -n 's/^go \([0-9.]*\)$/\1/p' "$LAB/go/go.mod")
is_new_enough() {
  local have
  have=$("$1" env GOVERSION 2> /dev/null | sed 's/^go//') || return 1
  [ -n "$have" ] && [ "$(printf '%s\n' "$GO_WANTED" "$have" | sort -V | head -n1)" = "$GO_WANTED" ]
}
toolchain() {
  local module="golang.org/toolchain@v0.0.1-go$GO_WANTED.linux-$(dpkg --print-architecture)"
  command -v go > /dev/null || {
    say "installing golang-go, which fetches Go $GO_WANTED" >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends golang-go > /dev/null
  }
  mkdir -p "$CACHE/go-modules"
  (cd "$CACHE" && GOFLAGS=-modcacherw GOMODCACHE=$CACHE/go-modules go mod download "$module")
  chmod -R a+x "$CACHE/go-modules/$module/bin" "$CACHE/go-modules/$module/pkg/tool"
  echo "$CACHE/go-modules/$module/bin/go"
}
GO=$(command -v go || true)
if [ -z "$GO" ] || ! is_new_enough "$GO"; then GO=$(toolchain); fi

# --- binaries, static: one module and so one build cache, but for those whose client-go is older
build_binaries() { # FOLDER PACKAGE...
  local folder=$1 version x
  shift
  version=$(sed -n 's#^\tk8s.io/kubernetes \(v[0-9.]*\).*#\1#p' "$LAB/go/go.mod")
  # Without this a kubelet calls itself v0.0.0, which the API server takes for too old.
  x="-X k8s.io/component-base/version.gitVersion=$version"
  x+=" -X k8s.io/component-base/version.gitMajor=1"
  x+=" -X k8s.io/component-base/version.gitMinor=$(cut -d. -f2 <<< "$version")"
  x+=" -X k8s.io/client-go/pkg/version.gitVersion=$version"
  # Beside their place and moved: tests use a binary as soon as it is there.
  mkdir -p "$CACHE/building"
  (cd "$LAB/$folder" && CGO_ENABLED=0 GOFLAGS="-mod=readonly -buildvcs=false -trimpath ${GOFLAGS:-}" \
    nice "$GO" build -ldflags "-s -w $x" -o "$CACHE/building/" "$@")
  mv "$CACHE/building/"* "$BIN/"
}
binaries=(hyperkube pause provisioner helm kubectl)
if has_changed binaries "$(digest_of go/go.mod go/go.sum go/hyperkube go/pause go/provisioner)" ||
  file_is_missing "${binaries[@]/#/$BIN/}"; then
  say "building ${binaries[*]}: 6 to 15 minutes on two cores when nothing is cached"
  build_binaries go ./hyperkube ./pause ./provisioner \
    helm.sh/helm/v3/cmd/helm k8s.io/kubernetes/cmd/kubectl
  done_with binaries
fi
own_modules=(coredns policies)
[[ " $* " != *" certmanager "* ]] || own_modules+=(certmanager)
for own in "${own_modules[@]}"; do
  if has_changed "$own" "$(digest_of "go/$own")" || file_is_missing "$BIN/$own"; then
    say "building $own"
    build_binaries "go/$own" .
    done_with "$own"
  fi
done

# --- definitions of others, out of their modules: CACHE/definitions/NAME
definitions() { # NAME MODULE@VERSION FOLDER
  local folder=$CACHE/definitions/$1
  [ ! -d "$folder" ] || return 0
  say "fetching the definitions $1"
  mkdir -p "$folder.partial"
  (cd "$CACHE" && "$GO" mod download -json "$2" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' > "$folder.partial/.module")
  # Those of cert-manager are parts of a chart, with labels that are filled in there.
  for file in "$(cat "$folder.partial/.module")/$3"/*.yaml; do
    sed '/{{/d' "$file" > "$folder.partial/$(basename "$file")"
  done
  rm -f "$folder.partial/kustomization.yaml" "$folder.partial/.module"
  mv "$folder.partial" "$folder"
}
if [[ " $* " = *" certmanager "* ]]; then
  version=$(sed -n 's#^require github.com/cert-manager/cert-manager \(v.*\)#\1#p' "$LAB/go/certmanager/go.mod")
  definitions cert-manager "github.com/cert-manager/cert-manager@$version" deploy/crds
fi
if [[ " $* " = *" gateway-api "* ]]; then
  definitions gateway-api sigs.k8s.io/gateway-api@v1.5.0 config/crd/standard
  definitions gateway-api-before sigs.k8s.io/gateway-api@v1.1.0 config/crd/experimental
fi

# --- images
from_scratch() { # NAME: an image with nothing but BIN/NAME
  has_changed "image-$1" "$(sha256sum "$BIN/$1")" || file_is_missing "$CACHE/images/$1.tar" || return 0
  local container
  container=$(bd from scratch)
  bd copy --quiet "$container" "$BIN/$1" / > /dev/null
  bd config --entrypoint "[\"/$1\"]" "$container"
  bd commit --quiet --rm "$container" "localhost/$1:1" > /dev/null
  export_image "localhost/$1:1" "$CACHE/images/$1.tar"
  done_with "image-$1"
}
from_scratch pause
from_scratch coredns

# The base that images are built from where there is no registry: localhost/debian:1.
debian_base() {
  local container
  [ -e "$CACHE/rootfs/.complete" ] || {
    say "debootstrap"
    rm -rf "$CACHE/rootfs"
    debootstrap --variant=minbase --include=ca-certificates bookworm "$CACHE/rootfs" \
      > "$CACHE/debootstrap.log" || die "debootstrap failed; look into $CACHE/debootstrap.log"
    touch "$CACHE/rootfs/.complete"
  }
  container=$(bd from scratch)
  bd add --quiet "$container" "$CACHE/rootfs" / > /dev/null
  bd config --cmd /bin/bash "$container"
  bd commit --quiet --rm "$container" localhost/debian:1 > /dev/null
}
bd inspect --type image localhost/debian:1 > /dev/null 2>&1 || debian_base
