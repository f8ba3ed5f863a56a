{{- define "ui.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- define "ui.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "ui.name" .) }}
{{- end }}

{{- define "ui.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ui.labels" -}}
{{ include "ui.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "ui.withPage" -}}
{{ if eq .Values.mode "ui" }}true{{ else if ne .Values.mode "exporter" }}{{ fail "mode is ui or exporter" }}{{ end }}
{{- end }}
