{{- define "tornado-gate.name" -}}
{{- if contains "tornado-gate" .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-tornado-gate" .Release.Name | trunc 63 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "tornado-gate.selector" -}}
app.kubernetes.io/name: tornado-gate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tornado-gate.labels" -}}
{{ include "tornado-gate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "tornado-gate.config" -}}
{{- $server := dict "host" "0.0.0.0" "port" 8080 "metrics_host" "0.0.0.0" "metrics_port" 9090 "drain_delay" .Values.drain.delaySeconds "drain_seconds" .Values.drain.seconds -}}
{{- $config := merge (dict "server" (merge $server (.Values.config.server | default dict))) .Values.config -}}
{{ toYaml $config }}
...
{{- end }}
