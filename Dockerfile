# The images of Barnabas, small and without a shell:
#
#   docker build --target broker   --tag barnabas-broker   .
#   docker build --target operator --tag barnabas-operator .
#
# What an image holds is the C library, Python and the packages of a lock file, as Debian's and
# the project's packages bring them; nobody in it has a right to change anything. Buildah takes
# this file as well. BASE is a Debian 12, used for building only.
ARG BASE=docker.io/library/debian:bookworm-slim

# --- tools: what the stages that build have in common
FROM ${BASE} AS tools
RUN apt-get update -q \
 && apt-get install -qy --no-install-recommends binutils python3 python3-venv \
 && rm -rf /var/lib/apt/lists/*
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

# --- root: the root file system that all images share
FROM tools AS root
WORKDIR /packages
RUN apt-get update -q \
 && apt-get download -q base-files ca-certificates libbz2-1.0 libc6 libexpat1 libffi8 libgcc-s1 \
      liblzma5 libpython3.11-minimal libpython3.11-stdlib libsqlite3-0 libssl3 libstdc++6 libuuid1 \
      netbase python3.11-minimal tzdata zlib1g \
 && mkdir -p /rootfs/usr/bin /rootfs/usr/sbin /rootfs/usr/lib /rootfs/usr/lib64 \
 && for folder in bin sbin lib lib64; do ln -s usr/$folder /rootfs/$folder; done \
 && for package in *.deb; do \
      dpkg-deb --fsys-tarfile $package | tar -x --keep-directory-symlink -C /rootfs; \
    done
# What a broker never reads goes, but for the licences; the byte code is written now, because
# nobody may write it later. The certificates are Debian's, not those of the machine that builds.
RUN cd /rootfs \
 && ln -s python3.11 usr/bin/python3 \
 && rm -rf usr/share/man usr/share/locale usr/share/lintian usr/share/info usr/share/python3 \
      usr/lib/python3.11/test usr/lib/python3.11/idlelib usr/lib/python3.11/lib2to3 \
      usr/lib/python3.11/ensurepip usr/lib/python3.11/pydoc_data usr/lib/python3.11/tkinter \
      usr/lib/python3.11/turtle.py usr/lib/python3.11/sitecustomize.py etc/update-motd.d \
      usr/lib/x86_64-linux-gnu/gconv usr/lib/aarch64-linux-gnu/gconv \
 && find usr/share/doc -type f ! -name copyright -delete \
 && find usr/share/doc -type d -empty -delete \
 && mkdir -p etc/ssl/certs var/lib/barnabas etc/barnabas \
 && cat usr/share/ca-certificates/mozilla/*.crt > etc/ssl/certs/ca-certificates.crt \
 && echo 'root:x:0:0::/:/usr/sbin/nologin' > etc/passwd \
 && echo 'barnabas:x:10001:10001::/var/lib/barnabas:/usr/sbin/nologin' >> etc/passwd \
 && printf 'root:x:0:\nbarnabas:x:10001:\n' > etc/group \
 && echo 'hosts: files dns' > etc/nsswitch.conf \
 && chown 10001:10001 var/lib/barnabas \
 && ldconfig -r /rootfs \
 && python3 -m compileall -q -s /rootfs usr/lib/python3.11

# --- wheel: the project itself
FROM tools AS wheel
WORKDIR /source
RUN python3 -m venv /build
COPY requirements/build.txt requirements/
RUN /build/bin/pip install -q --require-hashes -r requirements/build.txt
COPY LICENSE NOTICE README.md pyproject.toml build_hook.py ./
COPY protocol protocol
COPY client client
COPY broker broker
COPY operator operator
COPY cli cli
COPY crds crds
RUN /build/bin/pip wheel -q --no-deps --no-build-isolation --wheel-dir /wheel .

# --- one virtual environment for each image; /usr/bin/python3 is the same in all stages
# Wheels bring symbols for debuggers, zstandard a second implementation: half of all bytes.
FROM tools AS broker-packages
COPY requirements/broker.txt /requirements/
RUN python3 -m venv /opt/barnabas \
 && /opt/barnabas/bin/pip install -q --require-hashes -r /requirements/broker.txt \
 && rm -f /opt/barnabas/lib/python3.11/site-packages/zstandard/_cffi*.so \
 && find /opt/barnabas -name '*.so*' -exec strip --strip-unneeded {} +
COPY --from=wheel /wheel /wheel
RUN /opt/barnabas/bin/pip install -q --no-deps /wheel/*.whl \
 && /opt/barnabas/bin/pip uninstall -qy setuptools pip

# The operator asks the API server by paths: no class for each kind of resource, 110 MB of them.
FROM tools AS operator-packages
COPY requirements/operator.txt /requirements/
RUN python3 -m venv /opt/barnabas \
 && /opt/barnabas/bin/pip install -q --require-hashes -r /requirements/operator.txt \
 && rm -f /opt/barnabas/lib/python3.11/site-packages/zstandard/_cffi*.so \
 && find /opt/barnabas -name '*.so*' -exec strip --strip-unneeded {} + \
 && find /opt/barnabas/lib/python3.11/site-packages/kubernetes -type f ! -name '__init__*' \
      '(' -path '*/client/api/*' -o -path '*/client/models/*' ')' -delete
COPY --from=wheel /wheel /wheel
RUN /opt/barnabas/bin/pip install -q --no-deps /wheel/*.whl \
 && /opt/barnabas/bin/pip uninstall -qy setuptools pip

# --- what runs
FROM scratch AS runtime
COPY --from=root /rootfs /
ENV PATH=/opt/barnabas/bin:/usr/bin LANG=C.UTF-8 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
LABEL org.opencontainers.image.title=barnabas org.opencontainers.image.licenses=Apache-2.0
USER 10001:10001
WORKDIR /var/lib/barnabas

FROM runtime AS broker
COPY --from=broker-packages /opt/barnabas /opt/barnabas
EXPOSE 9092 9644
ENTRYPOINT ["barnabas"]
CMD ["broker", "--config", "/etc/barnabas/broker.properties"]

FROM runtime AS operator
COPY --from=operator-packages /opt/barnabas /opt/barnabas
EXPOSE 8080
ENTRYPOINT ["python3", "-m", "barnabas_operator"]
