# The images of Barnabas, small and without a shell. `make images` builds them with docker, podman or
# buildah and names them localhost/barnabas-TARGET:VERSION, as the chart's values do.
#
# What an image holds is the C library, Python and the packages of a lock file, as Debian's and
# the project's packages bring them; nobody in it has a right to change anything.
# BASE is a Debian 12, used for building only.
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

# --- wheel: the project itself, its hot modules compiled
FROM tools AS wheel
WORKDIR /source
RUN apt-get update -q \
 && apt-get install -qy --no-install-recommends gcc libc6-dev python3-dev \
 && rm -rf /var/lib/apt/lists/* \
 && python3 -m venv /build
COPY requirements/build.txt requirements/
RUN /build/bin/pip install -q --require-hashes -r requirements/build.txt
COPY LICENSE NOTICE README.md pyproject.toml build_hook.py ./
COPY protocol protocol
COPY client client
COPY broker broker
COPY operator operator
COPY console console
COPY cli cli
COPY crds crds
RUN HATCH_BUILD_HOOKS_ENABLE=1 /build/bin/pip wheel -q --no-deps --no-build-isolation --wheel-dir /wheel .

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

# Spark's jobs need no Hive, no machine learning, no shells, no other machines' native code: a third
# of the jars. Of pyarrow nothing goes that reads files, of numpy nothing but symbols.
FROM tools AS pipelines-packages
COPY requirements/pipelines-build.txt requirements/pipelines.txt /requirements/
RUN python3 -m venv /opt/barnabas \
 && /opt/barnabas/bin/pip install -q --require-hashes -r /requirements/pipelines-build.txt \
 && /opt/barnabas/bin/pip install -q --require-hashes --no-build-isolation -r /requirements/pipelines.txt
RUN cd /opt/barnabas/lib/python3.11/site-packages \
 && rm -f zstandard/_cffi*.so \
 && rm -rf pyarrow/include pyarrow/src pyarrow/tests pyarrow/*flight* \
      pyarrow/libarrow_s3* pyarrow/_s3fs* numpy/*/tests numpy/_core/include numpy/f2py \
 && rm -rf pyspark/bin/* pyspark/data pyspark/examples pyspark/ml pyspark/mllib pyspark/pandas \
      pyspark/pipelines pyspark/python pyspark/sbin \
 && cd pyspark/jars \
 && rm -rf connect-repl spark-connect_* spark-graphx_* spark-hive* spark-mllib* spark-pipelines_* \
      spark-repl_* spark-yarn_* scala-compiler-* jline-* leveldbjni-* \
      hive-[!s]* hive-se* hive-sh* datanucleus-* derby* jdo-api-* javax.jdo-* jta-* transaction-api-* HikariCP-* libfb303-* \
      libthrift-* opencsv-* super-csv-* stax-api-* jpam-* json-1.8* ST4-* antlr-runtime-* javolution-* \
      commons-dbcp-* commons-pool-1* arpack* blas-* lapack-* breeze* cats-* algebra* spire* JTransforms-* \
      JLargeArrays-* curator-* zookeeper-* volcano-* avro-ipc-* avro-mapred-* oro-* \
      netty-*-osx-* netty-*-windows-* netty-*-riscv64* netty-*kqueue* \
 && apt-get update -q && apt-get install -qy --no-install-recommends zip && rm -rf /var/lib/apt/lists/* \
 && case $(uname -m) in \
      x86_64) others='aarch_64 aarch64 linux/arm/ linux32 i386';; \
      aarch64) others='x86_64 amd64 linux/arm/ linux32 linux64 i386';; esac \
 && for other in $others; do rm -f netty-*-linux-$other*; done \
 && for other in $others .dll .dylib .jnilib musl ppc64 s390x riscv64 mips64 loongarch64 aix/ freebsd/; do \
      for jar in rocksdbjni-* zstd-jni-*; do zip -q -d $jar "*$other*" || test $? = 12; done; done \
 && find /opt/barnabas -name '*.so*' ! -path '*/numpy.libs/*' -exec strip --strip-unneeded {} +
# The jars beside Spark's own, those of barnabas_pipelines/jars.py, checked by their digests. Where they come from
# is Maven's to know, so they are fetched beforehand: python -m barnabas_pipelines.jars connector
COPY connector/*.jar /opt/barnabas/lib/python3.11/site-packages/pyspark/jars/
RUN cd /opt/barnabas/lib/python3.11/site-packages/pyspark/jars \
 && printf '%s  %s\n' \
      64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705 spark-sql-kafka-0-10_2.13-4.2.0.jar \
      f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767 spark-token-provider-kafka-0-10_2.13-4.0.0.jar \
      014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8 kafka-clients-3.9.2.jar \
      f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f commons-pool2-2.13.1.jar \
      27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead delta-spark_4.2_2.13-4.4.0.jar \
      c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc delta-storage-4.4.0.jar \
    | sha256sum --check --quiet
FROM wheel AS pipelines-wheel
COPY pipelines pipelines
RUN rm /wheel/*.whl && /build/bin/pip wheel -q --no-deps --no-build-isolation --wheel-dir /wheel .
FROM pipelines-packages AS pipelines-environment
COPY --from=pipelines-wheel /wheel /wheel
RUN /opt/barnabas/bin/pip install -q --no-deps /wheel/*.whl \
 && /opt/barnabas/bin/pip uninstall -qy setuptools wheel pip \
 && printf '%s\n' '#!/opt/barnabas/bin/python3' \
      'from barnabas_pipelines.container.spark_submit import main' 'main()' \
      > /opt/barnabas/lib/python3.11/site-packages/pyspark/bin/spark-submit \
 && chmod 755 /opt/barnabas/lib/python3.11/site-packages/pyspark/bin/spark-submit

# --- java: as much of Debian's OpenJDK as Spark needs, and the programs that Hadoop and
# Spark start for files on a disk. The store of certificates is made of Debian's. A name that was not
# found once, as when the cluster's DNS is busy, is looked up again after a second, not after ten.
FROM tools AS java
WORKDIR /packages
RUN apt-get update -q \
 && apt-get download -q openjdk-17-jdk-headless openjdk-17-jre-headless ca-certificates coreutils \
      libselinux1 libpcre2-8-0 \
 && for package in openjdk-*.deb; do dpkg-deb -x $package /; done \
 && /usr/lib/jvm/java-17-openjdk-*/bin/jlink --output /opt/java --compress=2 --no-header-files \
      --no-man-pages --add-modules java.se,jdk.charsets,jdk.crypto.ec,jdk.httpserver,jdk.incubator.vector,jdk.jcmd,jdk.jfr,jdk.management,jdk.naming.dns,jdk.net,jdk.nio.mapmode,jdk.security.auth,jdk.security.jgss,jdk.unsupported,jdk.zipfs \
 && mkdir -p /opt/java/share/doc && cp /usr/share/doc/openjdk-17-jre-headless/copyright /opt/java/share/doc/
RUN mkdir certificates programs && dpkg-deb -x ca-certificates_*.deb certificates \
 && printf '%s\n' 'import java.io.*; import java.security.*; import java.security.cert.*;' \
      'import java.security.cert.Certificate;' \
      'class Trust { public static void main(String[] none) throws Exception {' \
      'KeyStore store = KeyStore.getInstance("JKS"); store.load(null, null); int count = 0;' \
      'for (Certificate one : CertificateFactory.getInstance("X.509").generateCertificates(System.in))' \
      'store.setCertificateEntry("debian-" + count++, one);' \
      'try (OutputStream out = new FileOutputStream("cacerts")) {' \
      'store.store(out, "changeit".toCharArray()); } } }' > Trust.java \
 && cat certificates/usr/share/ca-certificates/mozilla/*.crt \
      | /usr/lib/jvm/java-17-openjdk-*/bin/java Trust.java \
 && echo 'networkaddress.cache.negative.ttl=1' >> /opt/java/conf/security/java.security \
 && rm -f /opt/java/lib/security/cacerts && cp cacerts /opt/java/lib/security/cacerts \
 && for package in coreutils libselinux1 libpcre2-8-0; do dpkg-deb -x ${package}_*.deb programs; done \
 && mkdir -p /programs/usr/bin /programs/usr/lib \
 && for name in chmod id ls readlink rm; do cp $(find programs -path "*/bin/$name") /programs/usr/bin/; done \
 && cp -a programs/usr/lib/*-linux-gnu programs/lib/*-linux-gnu /programs/usr/lib/ \
 && for package in coreutils libselinux1 libpcre2-8-0; do \
      install -D -m 644 programs/usr/share/doc/$package/copyright /programs/usr/share/doc/$package/copyright; \
    done

# --- what runs
FROM scratch AS runtime
COPY --from=root /rootfs /
ENV PATH=/opt/barnabas/bin:/usr/bin LANG=C.UTF-8 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
LABEL org.opencontainers.image.title=barnabas org.opencontainers.image.licenses=Apache-2.0
USER 10001:10001
WORKDIR /var/lib/barnabas

FROM runtime AS broker
COPY --from=broker-packages /opt/barnabas /opt/barnabas
EXPOSE 9092 9091 9644
ENTRYPOINT ["barnabas"]
CMD ["broker", "--config", "/etc/barnabas/broker.properties"]

FROM runtime AS operator
COPY --from=operator-packages /opt/barnabas /opt/barnabas
EXPOSE 8080 8443
ENTRYPOINT ["python3", "-m", "barnabas_operator"]

FROM runtime AS pipelines
COPY --from=java /programs /
COPY --from=java /opt/java /opt/java
COPY --from=pipelines-environment /opt/barnabas /opt/barnabas
ENV PATH=/opt/barnabas/bin:/opt/java/bin:/usr/bin JAVA_HOME=/opt/java \
    SPARK_HOME=/opt/barnabas/lib/python3.11/site-packages/pyspark \
    PYSPARK_PYTHON=/opt/barnabas/bin/python3 PYSPARK_DRIVER_PYTHON=/opt/barnabas/bin/python3 \
    ROCKSDB_MUSL_LIBC=false
ENTRYPOINT ["python3", "-m", "barnabas_pipelines.container"]
