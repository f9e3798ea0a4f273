# ruff: noqa: INP001 (a folder of charts, not a package)
"""What `pipelines.jobs` of the chart may say, in JSON Schema's words."""

from typing import Any, Final

JOBS: Final = ("archive", "replay", "aggregate", "snapshot", "quality", "lag-report")

_TEXT: Final = {"type": "string", "minLength": 1}
_TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_ANYTHING: Final = {"type": "object"}
_OBJECTS: Final = {"type": "array", "items": {"type": "object"}}
_QUANTITY: Final = {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(m|[KMGT]i?)?$"}
# As Java's: a number and a letter.
_MEMORY: Final = {"type": "string", "pattern": "^[0-9]+[mg]$"}


def _object(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    made = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**made, "required": list(required)} if required else made


def _count(minimum: int, maximum: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": minimum, "maximum": maximum}


RESOURCES: Final = _object(requests=_ANYTHING, limits=_ANYTHING)
PIPELINE_JOBS: Final = {
    "type": "array",
    "items": _object(
        ("name", "job"),
        name={
            "description": "Its name, which its objects get behind the release's.",
            "type": "string",
            "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$",
            "maxLength": 24,
        },
        job={"description": "Which of the jobs.", "type": "string", "enum": list(JOBS)},
        options={
            "description": "The job's options. By default it asks the brokers of this release.",
            "type": "object",
        },
        schedule={"description": "When it runs, as cron has it; a CronJob.", **_TEXT},
        timeZone={"description": "Of the schedule.", **_TEXT},
        continuous={"description": "It runs for ever; a Deployment.", "type": "boolean"},
        suspend={"description": "Leave it be for now.", "type": "boolean"},
        retries={"description": "How often a run that failed is repeated.", **_count(1, 100)},
        timeoutSeconds={"description": "After which a run is ended.", **_count(1, 31_536_000)},
        cores={
            "description": "How many tasks it runs at a time where it has no executors.",
            **_count(1, 64),
        },
        driverMemory={"description": "The heap of the driver's Java, as 1g.", **_MEMORY},
        resources={"description": "What its pod may use, or the driver's.", **RESOURCES},
        temporarySize={"description": "The most that it writes to /tmp.", **_QUANTITY},
        volume={
            "description": "For checkpoints, archives and tables.",
            **_object(
                claim={"description": "A claim that is there; otherwise one is made.", **_TEXT},
                size={"description": "Of the claim that is made.", **_QUANTITY},
                storageClassName={"description": "Of the claim that is made.", **_TEXT},
                accessModes={
                    "description": "Of the claim; ReadWriteMany lets executors be anywhere.",
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "string",
                        "enum": ["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"],
                    },
                },
                mountPath={
                    "description": "Where it is in the pods.",
                    "type": "string",
                    "pattern": "^/.+",
                },
            ),
        },
        clientSecret={
            "description": "A Secret that a User has made, with the job's client.properties.",
            **_object(
                ("name",),
                name={"description": "Its name, in the job's namespace.", **_TEXT},
                mountPath={
                    "description": "Where it is in the pods: the User's own mountPath.",
                    "type": "string",
                    "pattern": "^/.+",
                },
            ),
        },
        executors={
            "description": "Pods that do the work, at most `max`; 0 means in the job's own.",
            **_object(
                ("max",),
                max={
                    "description": "At most; Spark asks for as many as have work.",
                    **_count(0, 500),
                },
                min={"description": "As long as it runs.", **_count(1, 500)},
                cores={"description": "Tasks at a time in each.", **_count(1, 64)},
                memory={"description": "The heap of each.", **_MEMORY},
                memoryOverhead={"description": "For its Python and the rest.", **_MEMORY},
                cpuRequest={"description": "What it asks of its node.", **_QUANTITY},
            ),
        },
        env={
            "description": "Variables of driver and executors, as in a container's `env`.",
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": _TEXT, "value": {"type": "string"}, "valueFrom": _ANYTHING},
                "additionalProperties": False,
            },
        },
        podLabels=_TEXTS,
        podAnnotations=_TEXTS,
        nodeSelector=_TEXTS,
        tolerations=_OBJECTS,
    ),
}
