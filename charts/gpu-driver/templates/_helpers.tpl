{{/* All names start with the release's. */}}
{{- define "driver.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "driver.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (printf "%s-service-account" (include "driver.name" .)) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{- define "driver.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: kubeletplugin
{{- end }}

{{- define "driver.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "driver.selectorLabels" . }}
{{- end }}

{{/* The newest version of the resource API that the cluster serves. */}}
{{- define "driver.resourceApi" -}}
{{- if .Capabilities.APIVersions.Has "resource.k8s.io/v1" -}}
resource.k8s.io/v1
{{- else if .Capabilities.APIVersions.Has "resource.k8s.io/v1beta2" -}}
resource.k8s.io/v1beta2
{{- else if .Capabilities.APIVersions.Has "resource.k8s.io/v1beta1" -}}
resource.k8s.io/v1beta1
{{- else -}}
{{- fail "the cluster serves resource.k8s.io in no version that this chart knows; is DynamicResourceAllocation on?" -}}
{{- end -}}
{{- end }}
