{{/* The name of what belongs to the whole release. */}}
{{- define "barnabas.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "barnabas.operator" -}}
{{ include "barnabas.fullname" . }}-operator
{{- end -}}

{{- define "barnabas.brokerName" -}}
{{- .Values.broker.name | default .Release.Name -}}
{{- end -}}

{{- define "barnabas.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "barnabas.operator" .) -}}
{{- end -}}

{{/* The Secret with the certificate of the eviction webhook. */}}
{{- define "barnabas.webhookSecret" -}}
{{- .Values.operator.evictionWebhook.existingSecret | default (printf "%s-webhook" (include "barnabas.operator" .)) -}}
{{- end -}}

{{/* What follows an image's name: a digest, else a tag, else the version of the chart. */}}
{{- define "barnabas.imageVersion" -}}
{{- if first . -}}@{{ first . }}{{- else -}}:{{ index . 1 | default (last .) }}{{- end -}}
{{- end -}}

{{- define "barnabas.operatorImage" -}}
{{ .Values.operator.image.repository }}{{ include "barnabas.imageVersion" (list .Values.operator.image.digest .Values.operator.image.tag .Chart.AppVersion) }}
{{- end -}}

{{- define "barnabas.brokerImage" -}}
{{ .Values.brokerImage.repository }}{{ include "barnabas.imageVersion" (list .Values.brokerImage.digest .Values.brokerImage.tag .Chart.AppVersion) }}
{{- end -}}

{{/* Labels that never change: selectors are immutable. */}}
{{- define "barnabas.selectorLabels" -}}
app.kubernetes.io/name: barnabas-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "barnabas.labels" -}}
{{ include "barnabas.selectorLabels" . }}
app.kubernetes.io/component: operator
{{ include "barnabas.releaseLabels" . }}
{{- end -}}

{{/* Labels of what is not a part of the operator. */}}
{{- define "barnabas.releaseLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: barnabas
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* What a container of ours may do: nothing but run. */}}
{{- define "barnabas.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "barnabas.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* The rights of the operator in a namespace that it looks after. */}}
{{- define "barnabas.namespacedRules" -}}
# Declared by users; the operator writes finalizers of Brokers and Topics, and every status.
- apiGroups: [barnabas.dev]
  resources: [brokers]
  verbs: [get, list, watch, patch]
# Made and deleted only where a Broker asks to show topics and groups that nobody declared.
- apiGroups: [barnabas.dev]
  resources: [topics]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [barnabas.dev]
  resources: [consumergroups]
  verbs: [get, list, watch, create, delete]
- apiGroups: [barnabas.dev]
  resources: [users]
  verbs: [get, list, watch, patch]
- apiGroups: [barnabas.dev]
  resources: [brokers/status, topics/status, consumergroups/status, users/status]
  verbs: [patch]
# Children block the deletion of their Broker, which some clusters allow only with this right.
- apiGroups: [barnabas.dev]
  resources: [brokers/finalizers, topics/finalizers, users/finalizers]
  verbs: [update]
# The children of Brokers.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, list, watch, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, patch]
# What the brokers' own roles grant: nobody can grant what they do not have. With the last claim of a Broker that
# deletes its claims goes its arbiter's Lease.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, create, update, patch, delete]
# Pods are restarted, volumes grow, lost ones are replaced.
- apiGroups: [""]
  resources: [pods, persistentvolumeclaims]
  verbs: [get, list, watch, patch, delete]
# What was told already, and why Kubernetes makes or starts no pod.
- apiGroups: [""]
  resources: [events]
  verbs: [get, list, create]
{{- if include "barnabas.securityRights" . }}
# Of Brokers that are secure: who may reach them, hosts of a gateway, authorities by cert-manager.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [ingresses]
  verbs: [get, list, create, patch, delete]
- apiGroups: [gateway.networking.k8s.io]
  resources: [tlsroutes]
  verbs: [get, list, create, patch, delete]
- apiGroups: [cert-manager.io]
  resources: [certificates]
  verbs: [get, create, patch]
{{- end }}
{{- if .Values.rbac.connectionSecrets }}
# Of Topics that ask for one.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch, delete]
{{- end }}
{{- end -}}
