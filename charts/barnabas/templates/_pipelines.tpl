{{/* The name of a job's objects: short enough for the pods of a CronJob, and for a Service. */}}
{{- define "barnabas.pipelineName" -}}
{{ include "barnabas.fullname" .root | trunc 25 | trimSuffix "-" }}-{{ .job.name }}
{{- end -}}

{{- define "barnabas.pipelineImage" -}}
{{ .Values.pipelines.image.repository }}{{ include "barnabas.imageVersion" (list .Values.pipelines.image.digest .Values.pipelines.image.tag .Chart.AppVersion) }}
{{- end -}}

{{- define "barnabas.pipelineNamespace" -}}
{{ .Values.pipelines.namespace | default .Release.Namespace }}
{{- end -}}

{{- define "barnabas.pipelineAccount" -}}
{{ include "barnabas.fullname" . }}-pipelines
{{- end -}}

{{/* Labels that never change: selectors are immutable. */}}
{{- define "barnabas.pipelineSelectorLabels" -}}
app.kubernetes.io/name: barnabas-pipelines
app.kubernetes.io/instance: {{ .root.Release.Name }}
barnabas.dev/job: {{ .job.name }}
{{- end -}}

{{- define "barnabas.pipelineLabels" -}}
{{ include "barnabas.pipelineSelectorLabels" . }}
app.kubernetes.io/component: {{ .job.job }}
{{ include "barnabas.releaseLabels" .root }}
{{- end -}}

{{/* Whether a job has pods of its own for the work. */}}
{{- define "barnabas.pipelineScales" -}}
{{- if gt (int (.job.executors).max) 0 }}yes{{ end -}}
{{- end -}}

{{/* The claim of a job's volume; empty where it has none. */}}
{{- define "barnabas.pipelineClaim" -}}
{{- if hasKey .job "volume" -}}
{{- .job.volume.claim | default (printf "%s-data" (include "barnabas.pipelineName" .)) -}}
{{- end -}}
{{- end -}}

{{- define "barnabas.pipelineAccessModes" -}}
{{- if hasKey .job "volume" -}}
{{- .job.volume.accessModes | default (list "ReadWriteOnce") | toJson -}}
{{- end -}}
{{- end -}}

{{/* Spark's settings: what the chart decides, then what the job's own `options.conf` says. */}}
{{- define "barnabas.pipelineConf" -}}
{{- $name := include "barnabas.pipelineName" . -}}
{{- $conf := dict "spark.driver.memory" (.job.driverMemory | default "1g") -}}
{{- if include "barnabas.pipelineScales" . -}}
{{- $executors := .job.executors -}}
{{- $conf = merge (dict
  "spark.submit.deployMode" "client"
  "spark.kubernetes.namespace" (include "barnabas.pipelineNamespace" .root)
  "spark.kubernetes.driver.service.deleteOnTermination" "false"
  "spark.kubernetes.container.image" (include "barnabas.pipelineImage" .root)
  "spark.kubernetes.container.image.pullPolicy" .root.Values.pipelines.image.pullPolicy
  "spark.kubernetes.executor.podTemplateFile" "/etc/barnabas/job/executor.yaml"
  "spark.kubernetes.executor.podTemplateContainerName" "executor"
  "spark.driver.host" (printf "%s.%s.svc" $name (include "barnabas.pipelineNamespace" .root))
  "spark.driver.bindAddress" "0.0.0.0"
  "spark.driver.port" "7078"
  "spark.driver.blockManager.port" "7079"
  "spark.blockManager.port" "7079"
  "spark.executor.cores" (toString ($executors.cores | default 1))
  "spark.executor.memory" ($executors.memory | default "1g")
  "spark.executor.memoryOverhead" ($executors.memoryOverhead | default "512m")
  "spark.kubernetes.executor.request.cores" ($executors.cpuRequest | default "500m")
  "spark.dynamicAllocation.enabled" "true"
  "spark.dynamicAllocation.shuffleTracking.enabled" "true"
  "spark.dynamicAllocation.minExecutors" (toString ($executors.min | default 1))
  "spark.executor.instances" (toString ($executors.min | default 1))
  "spark.dynamicAllocation.initialExecutors" (toString ($executors.min | default 1))
  "spark.dynamicAllocation.maxExecutors" (toString $executors.max)
  "spark.dynamicAllocation.executorIdleTimeout" "120s"
) $conf -}}
{{- with .root.Values.imagePullSecrets -}}
{{- $names := list -}}
{{- range . }}{{ $names = append $names .name }}{{ end -}}
{{- $_ := set $conf "spark.kubernetes.container.image.pullSecrets" (join "," $names) -}}
{{- end -}}
{{- end -}}
{{- range $key, $value := (.job.options).conf -}}
{{- $_ := set $conf $key (toString $value) -}}
{{- end -}}
{{ toYaml $conf }}
{{- end -}}

{{/* The job's settings, as `--config` takes them. */}}
{{- define "barnabas.pipelineSettings" -}}
{{- $brokers := printf "%s-bootstrap.%s.svc:9092" (include "barnabas.brokerName" .root) .root.Release.Namespace -}}
{{- $master := printf "local[%d]" (int (.job.cores | default 2)) -}}
{{- if include "barnabas.pipelineScales" . }}{{ $master = "k8s://https://kubernetes.default.svc" }}{{ end -}}
{{- $options := omit (deepCopy (.job.options | default dict)) "conf" -}}
{{- with .job.clientSecret -}}
{{- if not (hasKey $options "client-properties") -}}
{{- $_ := set $options "client-properties" (printf "%s/client.properties" (.mountPath | default "/etc/barnabas/user")) -}}
{{- end -}}
{{- end -}}
{{- if not (or (hasKey $options "bootstrap-servers") (hasKey $options "client-properties")) -}}
{{- $_ := set $options "bootstrap-servers" $brokers -}}
{{- end -}}
{{- $_ := set $options "master" $master -}}
{{- $_ := set $options "conf" (include "barnabas.pipelineConf" . | fromYaml) -}}
{{ toYaml $options }}
{{- end -}}

{{/* What drivers and executors mount. */}}
{{- define "barnabas.pipelineMounts" -}}
- name: tmp
  mountPath: /tmp
{{- if hasKey .job "volume" }}
- name: data
  mountPath: {{ .job.volume.mountPath | default "/data" }}
{{- end }}
{{- with .job.clientSecret }}
- name: client
  mountPath: {{ .mountPath | default "/etc/barnabas/user" }}
  readOnly: true
{{- end }}
{{- end -}}

{{- define "barnabas.pipelineVolumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: {{ .job.temporarySize | default "4Gi" }}
{{- with include "barnabas.pipelineClaim" . }}
- name: data
  persistentVolumeClaim:
    claimName: {{ . }}
{{- end }}
{{- with .job.clientSecret }}
# By no subPath, so that what is renewed comes to pods that run.
- name: client
  secret:
    secretName: {{ .name }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{- define "barnabas.pipelinePlacement" -}}
{{- with .job.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .job.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A pod's security, with the group that may write to the volume. */}}
{{- define "barnabas.pipelineSecurity" -}}
{{ include "barnabas.podSecurity" .root }}
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
{{- end -}}

{{/* The pod in which the job runs: all of it, or its driver. */}}
{{- define "barnabas.pipelinePod" -}}
metadata:
  labels:
    {{- with .job.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- include "barnabas.pipelineLabels" . | nindent 4 }}
    barnabas.dev/role: driver
  annotations:
    # A job with other settings is another pod.
    barnabas.dev/settings: {{ include "barnabas.pipelineSettings" . | sha256sum | trunc 16 | quote }}
    {{- with .job.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  restartPolicy: {{ .restartPolicy }}
  {{- if include "barnabas.pipelineScales" . }}
  serviceAccountName: {{ include "barnabas.pipelineAccount" .root }}
  {{- else }}
  automountServiceAccountToken: false
  {{- end }}
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- include "barnabas.pipelineSecurity" . | nindent 4 }}
  terminationGracePeriodSeconds: 60
  containers:
    - name: job
      image: {{ include "barnabas.pipelineImage" .root | quote }}
      imagePullPolicy: {{ .root.Values.pipelines.image.pullPolicy }}
      # Spark writes files into the folder where it is started.
      workingDir: /tmp
      args:
        - {{ .job.job }}
        - --config
        - /etc/barnabas/job/job.yaml
        {{- if include "barnabas.pipelineScales" . }}
        # Executors belong to this pod, and go with it.
        - --conf
        - spark.kubernetes.driver.pod.name=$(POD_NAME)
        {{- end }}
      env:
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        {{- with .job.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if include "barnabas.pipelineScales" . }}
      ports:
        - name: driver
          containerPort: 7078
        - name: blocks
          containerPort: 7079
      {{- end }}
      resources:
        {{- toYaml (.job.resources | default .root.Values.pipelines.resources) | nindent 8 }}
      securityContext:
        {{- include "barnabas.containerSecurity" .root | nindent 8 }}
      volumeMounts:
        - name: settings
          mountPath: /etc/barnabas/job
          readOnly: true
        {{- include "barnabas.pipelineMounts" . | nindent 8 }}
  volumes:
    - name: settings
      configMap:
        name: {{ include "barnabas.pipelineName" . }}
    {{- include "barnabas.pipelineVolumes" . | nindent 4 }}
  {{- include "barnabas.pipelinePlacement" . | nindent 2 }}
{{- end -}}

{{/* What Spark's own settings cannot say about an executor's pod. */}}
{{- define "barnabas.pipelineExecutorPod" -}}
apiVersion: v1
kind: Pod
metadata:
  labels:
    {{- include "barnabas.pipelineLabels" . | nindent 4 }}
    barnabas.dev/role: executor
spec:
  automountServiceAccountToken: false
  securityContext:
    {{- include "barnabas.pipelineSecurity" . | nindent 4 }}
  containers:
    - name: executor
      workingDir: /tmp
      {{- with .job.env }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- include "barnabas.containerSecurity" .root | nindent 8 }}
      volumeMounts:
        {{- include "barnabas.pipelineMounts" . | nindent 8 }}
  volumes:
    {{- include "barnabas.pipelineVolumes" . | nindent 4 }}
  {{- if eq (include "barnabas.pipelineAccessModes" .) "[\"ReadWriteOnce\"]" }}
  # A volume that one node can have: all who write to it are on the driver's.
  affinity:
    podAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        - topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "barnabas.pipelineSelectorLabels" . | nindent 14 }}
              barnabas.dev/role: driver
  {{- end }}
  {{- include "barnabas.pipelinePlacement" . | nindent 2 }}
{{- end -}}
