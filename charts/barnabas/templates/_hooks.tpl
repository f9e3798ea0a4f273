{{/* The Broker of this release. */}}
{{- define "barnabas.brokerManifest" -}}
apiVersion: barnabas.dev/v1alpha1
kind: Broker
metadata:
  name: {{ include "barnabas.brokerName" . }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- with .Values.broker.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- include "barnabas.releaseLabels" . | nindent 4 }}
  annotations:
    {{- with .Values.broker.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    meta.helm.sh/release-name: {{ .Release.Name }}
    meta.helm.sh/release-namespace: {{ .Release.Namespace }}
spec:
  {{- toYaml (include "barnabas.brokerSpec" . | fromYaml) | nindent 2 }}
{{- end -}}

{{/* Its spec: what broker.spec says goes before security, tls and authentication. */}}
{{- define "barnabas.brokerSpec" -}}
{{- $spec := deepCopy .Values.broker.spec -}}
{{- $security := get $spec "security" | default dict -}}
{{- if and .Values.security.enabled (not (hasKey $security "enabled")) -}}
{{- $_ := set $security "enabled" true -}}
{{- end -}}
{{- range $part := list "tls" "authentication" -}}
{{- $wanted := (index $.Values $part).enabled -}}
{{- if not (or (kindIs "invalid" $wanted) (hasKey $security $part)) -}}
{{- $_ := set $security $part (dict "enabled" $wanted) -}}
{{- end -}}
{{- end -}}
{{- /* Who scrapes has to get there through the policy that comes with security. */ -}}
{{- if and $security.enabled .Values.serviceMonitor.enabled .Values.networkPolicy.prometheus -}}
{{- $rules := get $security "networkPolicy" | default dict -}}
{{- if not (hasKey $rules "monitoring") -}}
{{- $_ := set $rules "monitoring" .Values.networkPolicy.prometheus -}}
{{- end -}}
{{- $_ := set $security "networkPolicy" $rules -}}
{{- end -}}
{{- if $security -}}
{{- $_ := set $spec "security" $security -}}
{{- end -}}
{{- toYaml $spec -}}
{{- end -}}

{{/* Whether the Broker of this release has any security, as text that is empty where it has none. */}}
{{- define "barnabas.security" -}}
{{- $security := (include "barnabas.brokerSpec" . | fromYaml).security | default dict -}}
{{- if or $security.enabled ($security.tls | default dict).enabled -}}
on
{{- end -}}
{{- end -}}

{{/* Whether there is a console: of secure brokers only with the Secret of a User. */}}
{{- define "barnabas.console" -}}
{{- if and .Values.console.enabled .Values.broker.create (or (not (include "barnabas.security" .)) .Values.console.clientSecret) -}}
on
{{- end -}}
{{- end -}}

{{/* Whether the operator may look after Brokers that have any. */}}
{{- define "barnabas.securityRights" -}}
{{- if or .Values.rbac.security (include "barnabas.security" .) -}}
on
{{- end -}}
{{- end -}}

{{/* A Job of a hook: root, name, hook, arguments of release_hook.py. */}}
{{- define "barnabas.hookJob" -}}
{{- $root := .root -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ include "barnabas.fullname" $root }}-{{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "barnabas.releaseLabels" $root | nindent 4 }}
  annotations:
    helm.sh/hook: {{ .hook }}
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  backoffLimit: 2
  activeDeadlineSeconds: 240
  template:
    metadata:
      labels:
        app.kubernetes.io/name: barnabas-hook
        app.kubernetes.io/instance: {{ $root.Release.Name }}
    spec:
      restartPolicy: Never
      serviceAccountName: {{ include "barnabas.fullname" $root }}-hooks
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- include "barnabas.podSecurity" $root | nindent 8 }}
      {{- with $root.Values.operator.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.operator.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: hook
          image: {{ include "barnabas.operatorImage" $root | quote }}
          imagePullPolicy: {{ $root.Values.operator.image.pullPolicy }}
          command:
            - python3
            - -I
            - /hook/release_hook.py
            {{- range .arguments }}
            - {{ . | quote }}
            {{- end }}
          resources:
            requests:
              cpu: 10m
              memory: 32Mi
          securityContext:
            {{- include "barnabas.containerSecurity" $root | nindent 12 }}
          volumeMounts:
            - name: hook
              mountPath: /hook
              readOnly: true
      volumes:
        - name: hook
          configMap:
            name: {{ include "barnabas.fullname" $root }}-hooks
{{- end -}}
