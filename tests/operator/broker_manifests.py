"""Resources that use every field of a Broker."""

from typing import Any


def broker(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "barnabas.dev/v1alpha1",
        "kind": "Broker",
        "metadata": {"name": "demo", "namespace": "kafka"},
        "spec": spec,
    }


COMPLETE = broker(
    replicas=5,
    image="registry/barnabas:1",
    storage={
        "size": "1.5Ti",
        "storageClassName": "fast",
        "volumes": [
            {"name": "meta", "size": "20Gi"},
            {"name": "data", "storageClassName": "slow"},
            {"name": "more"},
        ],
        "metadataVolume": "meta",
        "deleteClaim": "WhenScaled",
    },
    listeners={
        "external": {
            "type": "NodePort",
            "port": 9095,
            "advertisedHost": "b{id}.example.com",
            "advertisedPortBase": 9000,
            "nodePortBase": 31000,
            "labels": {"dns": "outside"},
            "annotations": {"external-dns.alpha.kubernetes.io/hostname": "b{id}.example.com"},
        }
    },
    serviceTemplate={"labels": {"team": "a"}, "annotations": {"mesh": "off"}},
    rack={"topologyKey": "topology.kubernetes.io/zone"},
    config={"num.io.threads": 9, "auto.create.topics.enable": False, "log.retention.ms": None},
    resources={"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
    podTemplate={
        "labels": {"team": "a"},
        "annotations": {"note": "b"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
        "imagePullSecrets": [{"name": "s"}],
        "containers": [
            {
                "name": "broker",
                "env": [{"name": "TZ", "value": "UTC"}],
                "envFrom": [{"secretRef": {"name": "more"}}],
                "volumeMounts": [{"name": "ca", "mountPath": "/etc/ca", "readOnly": True}],
            },
            {"name": "proxy", "image": "proxy:1", "ports": [{"containerPort": 15000}]},
        ],
        "initContainers": [{"name": "wait", "image": "tool:1", "command": ["true"]}],
        "volumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "securityContext": {"fsGroup": 5, "runAsUser": None},
        "topologySpreadConstraints": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
            }
        ],
        "hostAliases": [{"ip": "10.0.0.9", "hostnames": ["db"]}],
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["10.0.0.10"]},
        "runtimeClassName": "gvisor",
        "schedulerName": "volcano",
    },
    updatePolicy="OnApproval",
    maintenance={
        "park": [1],
        "decommission": [2],
        "windows": [
            {"schedule": "0 2 * * 6", "durationMinutes": 240, "timeZone": "Europe/Berlin"},
        ],
    },
    terminationGracePeriodSeconds=60,
    paused=True,
)
